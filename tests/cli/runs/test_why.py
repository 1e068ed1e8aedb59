"""`laneway why`: every gate that is closed, in sentences, with who holds it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from laneway.cli.runs.why import told
from laneway.core.records.run import Gate, Reason, Run
from laneway.engine.common.clock import SystemClock
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing.hand import Hand
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


def test_a_store_that_is_shut_for_a_move_says_where_to_and_what_opens_it(
    folder: Path, invoke: Invoke, start: Start, submitted: Submitted
) -> None:
    start()
    going, waits = submitted("sleep"), submitted("add", "a=1", "--delay", "3600")
    running(invoke, going)
    here, there = "sqlite:///laneway.db", f"sqlite:///{folder / 'there.db'}"
    assert invoke("move", here, there, "--wait", "0").exit_code == 7

    said = invoke("why", waits).stdout.splitlines()
    shut = why(invoke, waits)[0]

    then = f"it goes on there when that is done, or here after laneway move FROM {there} --abort"
    assert f"  the store is shut for a move to {there}: {then}" in said
    assert (shut["gate"], shut["holder"], shut["opens_at"]) == ("shut", f"move to {there}", None)
    assert invoke("move", here, there, "--abort").exit_code == 0
    assert [one["gate"] for one in why(invoke, waits)] == ["not_due"]


def test_a_store_that_is_being_filled_says_where_from() -> None:
    now = datetime.now(UTC)
    run = Run(id="a", number=1, task="add", args={}, lane="main", accepted_at=now, due_at=now)

    [*_, said] = told(run, [Reason(Gate.SHUT, "move from redis://there")], {}, None)

    then = "opens when that is done, or is emptied: laneway move redis://there TO --abort"
    assert said == f"  the store is being filled by a move from redis://there, and {then}"


def test_a_run_on_its_last_chance_names_the_one_it_waits_for(invoke: Invoke, submitted: Submitted) -> None:
    first, second = submitted("add", "a=1"), submitted("add", "a=2")
    held = asyncio.run(crash_twice(Path("laneway.db")))
    waits = second if held == first else first

    said = invoke("why", waits).stdout.splitlines()

    alone = "no worker executes two such runs at once; it waits for the end of:"
    assert said[2] == f"  it has crashed 2 times and is quarantined by one more crash: {alone}"
    assert said[3].startswith(f"      {held}  add, running for ")
    assert invoke("runs", "show", waits).stdout.splitlines()[0].endswith("pending (last_chance)")


async def crash_twice(file: Path) -> str:
    """Let two workers die with all there is, and a third start one of these runs; return its id."""
    store = SQLiteStore(file, SystemClock())
    await store.open()
    heir = await Hand(store, "heir", tasks=()).register()
    for name in ("one", "two"):
        dead = await Hand(store, name, tasks={"add"}).register()
        await dead.claim(9)
        await dead.leave()
        await heir.lapse(*(await heir.reclaim()).lapsed)
    [held] = await (await Hand(store, "three", tasks={"add"}).register()).claim(1)
    await store.close()
    return held.id


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
