"""Runs that are tied to others: how they are submitted, shown and found from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Invoke

SHOP = """
from laneway import Context, Scheduler

app = Scheduler("sqlite:///laneway.db")

@app.task
async def order(item: str, *, ctx: Context) -> str:
    price = await ctx.call(quote, {"item": item}, name="price")
    ctx.submit(mail, {"text": f"{item} costs {price}"})
    return f"{item} for {price}"

@app.task
async def quote(item: str, *, ctx: Context) -> object:
    return await ctx.ask(f"what does {item} cost?")

@app.task
async def mail(text: str = "", *, ctx: Context) -> list:
    return [text, dict(ctx.trace)]

@app.task(retry=None)
async def fail() -> None:
    raise ValueError("no")
"""

Submitted = Callable[..., str]


@pytest.fixture
def submitted(folder: Path, invoke: Invoke) -> Submitted:
    """Submit a run of the shop, let everything be executed, and return its id."""
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")

    def submit(*arguments: str) -> str:
        result = invoke("submit", "shop:app", *arguments)
        assert result.exit_code == 0, result.stderr
        invoke("drain", "shop:app")
        return result.stdout.strip()

    return submit


def shown(invoke: Invoke, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(invoke("runs", "show", run_id, "--json").stdout)
    return run


def test_parent_and_called_run_are_shown_to_each_other(invoke: Invoke, submitted: Submitted) -> None:
    parent = submitted("order", "item=tea", "--session", "till")
    [called] = shown(invoke, parent)["called"]
    child = called["id"]

    assert called == {"id": child, "name": "price", "task": "quote", "state": "waiting"}
    assert shown(invoke, child)["parent"] == {"id": parent, "name": "price", "task": "order", "state": "waiting"}
    said = invoke("runs", "show", parent).stdout
    assert f"waits for\n  {child}  quote, waiting, asks: what does tea cost?  (price)\n" in said
    assert f"parent      {parent}  order, waiting, has called 1 run, which called it as price\n" in (
        invoke("runs", "show", child).stdout
    )
    why = invoke("why", parent).stdout.splitlines()
    assert why[2:] == [
        "  it waits for 1 run that it has called:",
        f"      {child}  quote, waiting, asks: what does tea cost?",
    ]

    invoke("runs", "answer", child, "3")
    invoke("drain", "shop:app")
    assert f"called\n  {child}  quote, succeeded  (price)\n" in invoke("runs", "show", parent).stdout
    events = [" ".join(line.split()[2:]) for line in invoke("runs", "events", parent).stdout.splitlines()]
    assert events[1:3] == [f"called price: run {child}", f"returned price: run {child} succeeded"]


def test_what_was_left_behind_is_shown(invoke: Invoke, submitted: Submitted) -> None:
    parent = submitted("order", "item=tea", "--then", 'mail={"text": "bye"}', "--on-failure", "fail")
    assert shown(invoke, parent)["left"] == []
    invoke("runs", "answer", shown(invoke, parent)["called"][0]["id"], "3")

    invoke("drain", "shop:app")

    held, then = shown(invoke, parent)["left"]
    assert (held["task"], then["task"]) == ("mail", "mail")
    assert shown(invoke, held["id"])["result"] == ["tea costs 3", {}]
    assert shown(invoke, then["id"])["result"] == ["bye", {}]
    said = invoke("runs", "show", parent).stdout
    assert f"left behind\n  {held['id']}  mail, succeeded\n  {then['id']}  mail, succeeded\n" in said


def test_a_follow_up_comes_with_a_failure_and_has_the_trace(invoke: Invoke, submitted: Submitted) -> None:
    failed = submitted(
        *("fail", "--then", 'order={"item": "tea"}', "--on-failure", "mail", "--on-failure", 'mail={"text": "oh"}'),
        *("--trace", "request=a=b", "--trace", "span=7"),
    )

    left = [shown(invoke, one["id"]) for one in shown(invoke, failed)["left"]]

    trace = {"request": "a=b", "span": "7"}
    assert [one["result"] for one in left] == [["", trace], ["oh", trace]]


def test_what_was_called_is_found_by_its_session_and_takes_no_place_there(invoke: Invoke, submitted: Submitted) -> None:
    parent = submitted("order", "item=tea", "--session", "till")
    [child] = shown(invoke, parent)["called"]

    listed = json.loads(invoke("runs", "list", "--session", "till", "--json").stdout)
    session = json.loads(invoke("sessions", "show", "till", "--json").stdout)
    would = json.loads(invoke("sessions", "stop-all", "till", "--dry-run", "--json").stdout)
    done = json.loads(invoke("sessions", "stop-all", "till", "--json").stdout)

    assert [run["id"] for run in listed] == [child["id"], parent]
    assert session["runs"] == {"active": [parent], "queued": [], "later": [], "called": [child["id"]]}
    assert (session["active"], session["queued"]) == (1, 0)
    assert (would["cancelled"], would["dropped"]) == (done["cancelled"], done["dropped"]) == ([parent], [])
    ended = shown(invoke, child["id"])
    assert (ended["state"], ended["reason"]) == ("cancelled", "parent_ended")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--then", "mial"], 3, "unknown task 'mial', did you mean 'mail'?"),
        (["--then", "mail={"], 2, "invalid value for '--then': the arguments of 'mail' are not JSON: "),
        (["--on-failure", "mail=[1]"], 2, "invalid value for '--on-failure': the arguments of 'mail' must be a JSON"),
        (["--then", "=1"], 2, "invalid value for '--then': '=1' names no task"),
        (["--then", 'mail={"txt": 1}'], 2, "mail has no argument 'txt', did you mean 'text'?"),
        (["--trace", "request"], 2, "invalid value for '--trace': 'request'; write name=text"),
        (["--then", "mail"] * 11, 2, "then has 11 runs; at most 10"),
    ],
)
def test_a_mistake_is_explained_and_nothing_is_stored(
    invoke: Invoke, submitted: Submitted, words: list[str], code: int, said: str
) -> None:
    result = invoke("submit", "shop:app", "fail", *words)

    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"laneway: {said}")
    assert invoke("runs", "list").exit_code == 6 or invoke("runs", "list").stdout == ""


def test_a_message_that_is_an_answer_says_so(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("quote", "item=tea", "--session", "till", "--user", "ann", "--while-waiting", "answer")

    result = invoke("submit", "shop:app", "mail", "text=3", "--session", "till", "--user", "ann")

    assert (result.exit_code, result.stdout) == (0, f"{run_id}\n")
    assert result.stderr.splitlines()[0] == f"answered: run {run_id} had asked, and goes on with it"
    assert "answered  " in invoke("runs", "show", run_id).stdout
