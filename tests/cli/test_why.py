"""`laneway why`: every gate that is closed, in sentences, with who holds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Invoke, Start, running

Submitted = Callable[..., str]


def why(invoke: Invoke, run_id: str) -> list[dict[str, Any]]:
    record = json.loads(invoke("why", run_id, "--json").stdout)
    assert (record["v"], record["run_id"]) == (1, run_id)
    reasons: list[dict[str, Any]] = record["reasons"]
    return reasons


def test_without_a_worker_that_is_why(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("add", "a=1")

    first, second, third = invoke("why", run_id[:20]).stdout.splitlines()

    assert first.startswith(f"{run_id}  add: pending, accepted ")
    assert second == "it has not started, because"
    assert third == "  no worker that is up knows task add; start one: laneway worker APP"
    assert [(one["gate"], one["holder"]) for one in why(invoke, run_id)] == [("no_worker", "task add")]


def test_a_run_that_is_not_due_says_when_it_is(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("add", "a=1", "--at", "2031-05-01T09:30Z")

    assert "  it is not due before 2031-05-01 " in invoke("why", run_id).stdout
    assert why(invoke, run_id)[0] == {
        "gate": "not_due",
        "holder": None,
        "opens_at": "2031-05-01T09:30:00Z",
        "runs": [],
        "ahead": None,
    }


def test_every_pause_is_named_with_what_ends_it(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("add", "a=1", "--user", "ann", "--session", "chat 7")
    for words in (["lanes", "main"], ["users", "ann"], ["sessions", "chat 7"], ["tasks", "add"]):
        invoke(words[0], "pause", words[1])

    said = invoke("why", run_id).stdout

    for line in (
        "  lane main is paused; let it go on: laneway lanes resume main",
        "  user ann is paused; let it go on: laneway users resume ann",
        "  session chat 7 is paused; let it go on: laneway sessions resume 'chat 7'",
        "  task add is paused; let it go on: laneway tasks resume add",
    ):
        assert line in said.splitlines()


def test_what_ends_a_pause_names_the_store_if_it_was_named(invoke: Invoke, submitted: Submitted) -> None:
    run_id, store = submitted("add", "a=1"), "sqlite:///laneway.db"
    invoke("lanes", "pause", "main")

    said = invoke("why", run_id, "--store", store).stdout

    assert f"  lane main is paused; let it go on: laneway lanes resume main --store {store}" in said.splitlines()


def test_a_paused_run_says_how_it_goes_on(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("add", "a=1")
    invoke("runs", "pause", run_id)

    assert f"  it is paused; let it go on: laneway runs resume {run_id}" in invoke("why", run_id).stdout.splitlines()


def test_who_holds_a_gate_is_named(invoke: Invoke, start: Start, submitted: Submitted) -> None:
    start()
    invoke("lanes", "set", "main", "--limit", "1")
    invoke("users", "set", "ann", "--cap", "1")
    holder = submitted("sleep", "--session", "chat-7", "--user", "ann")
    behind = submitted("add", "a=1", "--session", "chat-7", "--user", "ann")
    running(invoke, holder)

    said = invoke("why", behind).stdout.splitlines()
    gates = {one["gate"]: one for one in why(invoke, behind)}

    assert "  session chat-7 is busy: 1 run is before it" in said
    assert "  lane main is full; running in it:" in said
    assert "  user ann has as many runs in lane main as may be running at once:" in said
    assert sum(line.startswith(f"      {holder}  sleep, running for ") for line in said) == 3
    assert gates.keys() == {"session_busy", "lane_full", "user_at_cap"}
    assert {tuple(one["runs"]) for one in gates.values()} == {(holder,)}


def test_a_run_that_is_running_or_has_ended_says_so(invoke: Invoke, start: Start, submitted: Submitted) -> None:
    done = submitted("add", "a=1")
    invoke("drain", "app:app")
    start()
    going = submitted("sleep")
    running(invoke, going)

    assert f"{done}  add: it has ended, succeeded " in invoke("why", done).stdout
    assert invoke("why", going).stdout.startswith(f"{going}  sleep: it is running for ")
    assert why(invoke, done) == why(invoke, going) == []


@pytest.mark.parametrize("words", [["zzz"], ["zzz", "--json"]])
def test_an_unknown_run_is_not_found(invoke: Invoke, submitted: Submitted, words: list[str]) -> None:
    submitted("add", "a=1")

    result = invoke("why", *words)

    assert (result.exit_code, result.stderr) == (3, "laneway: no run 'zzz'\n")
