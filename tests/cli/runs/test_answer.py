"""`laneway runs answer`, and what is said of a run that waits: in lists, shown, explained, followed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from laneway.cli import cli
from tests.cli.conftest import Invoke

SHOP = """
import asyncio
from laneway import Context, Scheduler

app = Scheduler("sqlite:///laneway.db")

@app.task
async def approve(what: str, *, ctx: Context) -> object:
    draft = await ctx.step("draft", str.upper, what)
    return [draft, await ctx.ask(f"publish {draft}?", name="publish")]

@app.task
async def both(*, ctx: Context) -> list:
    return await asyncio.gather(ctx.ask("which\\ncolour?", name="the colour"), ctx.ask({"size": [1, 2]}))

@app.task
async def hasty(*, ctx: Context) -> object:
    return await ctx.ask("now?", timeout=0.001)

@app.task
async def lead(*, ctx: Context) -> object:
    return await ctx.call("approve", {"what": "news"}, name="first")

@app.task
async def add(a: int) -> int:
    return a
"""

Asked = Callable[..., str]


@pytest.fixture
def asked(folder: Path, invoke: Invoke) -> Asked:
    """Submit a run of the shop, let it be executed until it waits or ends, and return its id."""
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")

    def submit(*arguments: str) -> str:
        result = invoke("submit", "shop:app", *arguments)
        assert result.exit_code == 0, result.stderr
        assert invoke("drain", "shop:app").exit_code == 0
        return result.stdout.strip()

    return submit


def shown(invoke: Invoke, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(invoke("runs", "show", run_id, "--json").stdout)
    return run


# Answering


def test_an_answer_lets_the_run_go_on(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("approve", "what=news")

    result = invoke("runs", "answer", run_id[:20], "yes")
    drained = invoke("drain", "shop:app")

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{run_id}  pending\n", "")
    assert drained.stderr == "1 succeeded\n"
    assert shown(invoke, run_id)["result"] == ["NEWS", "yes"]


@pytest.mark.parametrize(
    ("words", "stdin", "value"),
    [
        (["42"], None, "42"),
        (["null"], None, "null"),
        ([""], None, ""),
        (["42", "--json-value"], None, 42),
        (['{"ok": [true, null]}', "--json-value"], None, {"ok": [True, None]}),
        (["-"], "two\nlines\n", "two\nlines"),
        (["-", "--json-value"], '{"ok": 1}\n', {"ok": 1}),
        (["--", "-5"], None, "-5"),
    ],
)
def test_an_answer_is_text_unless_it_is_said_to_be_json(
    invoke: Invoke, asked: Asked, words: list[str], stdin: str | None, value: object
) -> None:
    run_id = asked("approve", "what=news")

    answered = CliRunner().invoke(cli, ["runs", "answer", run_id, *words], input=stdin)
    invoke("drain", "shop:app")

    assert answered.exit_code == 0, answered.stderr
    assert shown(invoke, run_id)["result"] == ["NEWS", value]


def test_json_gives_the_run_as_it_stands_then(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("approve", "what=news")

    run = json.loads(invoke("runs", "answer", run_id, "yes", "--json").stdout)

    assert (run["v"], run["id"], run["state"], run["wait"]) == (1, run_id, "pending", None)


def test_of_several_questions_one_is_named(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("both")

    unclear = invoke("runs", "answer", run_id, "red")
    assert (unclear.exit_code, unclear.stdout) == (2, "")
    assert unclear.stderr.splitlines() == [
        f"laneway: run {run_id} has asked 2 questions; say which is answered: --name NAME",
        "  the colour  which colour?",
        '  1  {"size":[1,2]}',
    ]
    wrong = invoke("runs", "answer", run_id, "red", "--name", "shape")
    assert (wrong.exit_code, wrong.stdout) == (5, "")
    assert (
        wrong.stderr == f"laneway: run {run_id} has not asked 'shape'; it waits for the answer to 'the colour', '1'\n"
    )

    assert invoke("runs", "answer", run_id, "red", "--name", "the colour").exit_code == 0
    invoke("drain", "shop:app")
    assert invoke("runs", "answer", run_id, "2", "--json-value").exit_code == 0
    invoke("drain", "shop:app")
    assert shown(invoke, run_id)["result"] == ["red", 2]


def refusal(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (5, "")
    return result.stderr


def test_whoever_does_not_wait_is_said_to_do_something_else(invoke: Invoke, asked: Asked) -> None:
    run_id, done = asked("approve", "what=news"), asked("add", "a=1")
    parent = asked("lead")

    invoke("runs", "answer", run_id, "yes")

    head = "laneway: run {} waits for no answer: "
    again = refusal(invoke("runs", "answer", run_id, "no"))
    assert again.startswith(head.format(run_id) + "it is pending, accepted ")
    ended = refusal(invoke("runs", "answer", done, "no"))
    assert ended.startswith(head.format(done) + "it has ended, succeeded ")
    calling = refusal(invoke("runs", "answer", parent, "no"))
    assert calling.startswith(head.format(parent) + "it is waiting, has called 1 run, accepted ")


def test_an_answer_that_comes_too_late_is_refused_and_ends_the_run(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("hasty")

    late = refusal(invoke("runs", "answer", run_id, "yes"))

    assert late.startswith(f"laneway: run {run_id} waits for no answer: it has ended, cancelled (unanswered) ")
    said = [line.split(maxsplit=2)[2] for line in invoke("runs", "events", run_id).stdout.splitlines()[-2:]]
    assert [" ".join(line.split()) for line in said] == ["unanswered nobody answered 1 in time", "done cancelled"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["zzz", "yes"], 3, "no run 'zzz'"),
        (["zzz", "{", "--json-value"], 2, "ANSWER is not JSON: "),
        (["zzz"], 2, "missing argument 'ANSWER'"),
        (["zzz", "yes", "--store", "sqlite:///none.db"], 6, "there is no store at "),
    ],
)
def test_a_mistake_is_explained(invoke: Invoke, asked: Asked, words: list[str], code: int, said: str) -> None:
    asked("add", "a=1")

    result = invoke("runs", "answer", *words)

    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"laneway: {said}")


def test_what_is_no_text_is_refused_and_leaves_the_question_open(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("approve", "what=news")

    result = CliRunner().invoke(cli, ["runs", "answer", run_id, "-"], input=b"\xff\xfe")

    assert (result.exit_code, result.stderr.startswith("laneway: stdin is not text: ")) == (2, True)
    assert shown(invoke, run_id)["state"] == "waiting"


def test_what_a_handler_asks_cannot_command_the_terminal(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("approve", "what=\x1b[2J\x07gone")

    for words in (["runs", "list"], ["runs", "show", run_id], ["runs", "events", run_id], ["why", run_id]):
        result = invoke(*words)
        assert "GONE" in result.output
        assert not {"\x1b", "\x07"} & set(result.output)


def test_a_waiting_run_cannot_be_paused_and_ends_at_once_when_cancelled(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("approve", "what=news")

    paused = invoke("runs", "pause", run_id)
    cancelled = invoke("runs", "cancel", run_id)

    assert (paused.exit_code, paused.stderr) == (5, f"laneway: run {run_id}: a waiting run cannot be paused\n")
    assert (cancelled.exit_code, cancelled.stdout) == (0, f"{run_id}  cancelled\n")


# What is said of a run that waits


def test_a_list_has_the_question_in_short(invoke: Invoke, asked: Asked) -> None:
    asked("approve", "what=news")
    asked("approve", f"what={'x' * 200}")
    asked("add", "a=1")

    _, long, short = invoke("runs", "list", "--state", "waiting").stdout.splitlines()

    assert short.split()[5] == long.split()[5] == "waiting"
    assert short.endswith("  asks: publish NEWS?")
    assert long.endswith("X...")
    assert len(long) - long.index("asks: ") == len("asks: ") + 100


def test_a_run_that_asks_is_shown_with_the_command_that_answers(invoke: Invoke, asked: Asked) -> None:
    one, several = asked("approve", "what=news"), asked("both")
    store = "sqlite:///laneway.db"

    said = invoke("runs", "show", one).stdout
    assert "steps       1 kept: draft\n" in said
    assert "question publish\n  publish NEWS?\n  until " in said
    assert f"\n  laneway runs answer {one} ANSWER\n" in said
    said = invoke("runs", "show", several, "--store", store).stdout
    assert "question the colour\n  which\n  colour?\n  until " in said
    assert f"\n  laneway runs answer {several} ANSWER --name 'the colour' --store {store}\n" in said
    record = shown(invoke, several)
    assert [(one["name"], one["question"]) for one in record["questions"]] == [
        ("the colour", "which\ncolour?"),
        ("1", {"size": [1, 2]}),
    ]
    assert all(one["until"] > record["started_at"] for one in record["questions"])
    assert shown(invoke, one)["steps"] == ["draft"]


def test_why_names_the_question_and_how_to_answer_it(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("approve", "what=news")

    head, because, reason = invoke("why", run_id, "--store", "sqlite:///laneway.db").stdout.splitlines()

    assert head.startswith(f"{run_id}  approve: waiting, asks: publish NEWS?, accepted ")
    assert because == "it does not go on, because"
    assert reason.startswith("  it has asked publish: publish NEWS?; answer before ")
    assert reason.endswith(f": laneway runs answer {run_id} ANSWER --store sqlite:///laneway.db")
    [record] = json.loads(invoke("why", run_id, "--json").stdout)["reasons"]
    assert (record["gate"], record["holder"]) == ("answer", "question publish")


def test_its_events_are_said_in_words(invoke: Invoke, asked: Asked) -> None:
    run_id = asked("approve", "what=news")
    invoke("runs", "answer", run_id, "yes")
    invoke("drain", "shop:app")

    said = [" ".join(line.split()[2:]) for line in invoke("runs", "events", run_id).stdout.splitlines()]

    assert said[1:3] == ["question publish: publish NEWS? (to be answered within 2h00m)", "answered publish: yes"]
    assert said[-2:] == ['result ["NEWS","yes"]', "done succeeded"]


def test_drain_tells_who_waits(invoke: Invoke, folder: Path, asked: Asked) -> None:
    invoke("submit", "shop:app", "lead")

    result = invoke("drain", "shop:app", "--json")

    assert result.stderr.splitlines() == [
        "1 asked something, 1 called other runs",
        "2 waiting; see for what: laneway runs list --state waiting",
    ]
    assert json.loads(result.stdout) == {"v": 1, "moves": {"call": 1, "ask": 1}, "pending": 0, "waiting": 2}


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    main, side = pty.openpty()
    yield main, side
    os.close(main)


@pytest.mark.system
def test_whoever_waits_at_a_terminal_sees_the_question_and_how_to_answer(
    invoke: Invoke, folder: Path, asked: Asked, terminal: tuple[int, int]
) -> None:
    main, side = terminal
    run_id = asked("approve", "what=news")
    command = [sys.executable, "-m", "laneway", "runs", "wait", run_id]
    environment = os.environ | {"COLUMNS": "200", "TERM": "xterm"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=side) as waiting:
        os.close(side)
        seen = b""
        while f"answer: laneway runs answer {run_id} ANSWER".encode() not in seen:
            seen += os.read(main, 4096)

        invoke("runs", "answer", run_id, "yes")
        invoke("drain", "shop:app")
        stdout, _ = waiting.communicate(timeout=30)

    assert b"it asks publish: publish NEWS? (to be answered within 2h00m)" in seen
    assert (waiting.returncode, stdout) == (0, b'["NEWS","yes"]\n')
