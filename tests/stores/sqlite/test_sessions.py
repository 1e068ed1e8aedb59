"""Sessions on SQLite: older files, the rows in the tables, and cost."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from laneway.core.common.instants import SECOND
from laneway.core.common.keys import KEPT
from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.lifecycle.outcome import Succeeded, settle
from laneway.core.lifecycle.step import Result, Saved, Step
from laneway.core.records.policy import SessionPolicy, TaskPolicy
from laneway.core.records.run import NewRun, ReceiptOutcome
from laneway.core.records.states import TERMINAL, RunState
from laneway.ports.control import Pause
from laneway.ports.sessions import Extent
from laneway.ports.upkeep import OldRuns
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.verbs import steps, submissions, workers
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.old_layouts import as_layout
from tests.stores.sqlite.raw_file import rows
from tests.stores.sqlite.tracing import traced
from tests.support.invariants import check_drains, check_invariants
from tests.support.sessions import session_of

INCARNATION = Hand(None, "hand").incarnation  # type: ignore[arg-type]  # it talks to no store


def message(run_id: str, mode: str, session: str = "chat", **given: object) -> NewRun:
    policy = msgspec.convert({"mode": mode, **given}, SessionPolicy)
    return new_run(run_id, session=session, policy=policy)


# Older files


@pytest.fixture
async def third_layout(path: Path, clock: FakeClock) -> None:
    """A file of the third layout, with a session in every stage."""
    newest = path.with_name("newest.db")
    store = SQLiteStore(newest, clock)
    hand = await Hand(store).register()
    await store.submit([new_run(f"{session}-{n}", session=session) for session in ("running", "late") for n in (1, 2)])
    await store.submit([new_run("paused-1", session="paused"), new_run("pair-1", session="pair", max_concurrent=2)])
    claimed = {run.id: run for run in await hand.claim(4)}
    await hand.fail(claimed["late-1"])
    await store.change_run("p", "paused-1", Pause())
    await hand.pause(claimed["paused-1"])
    await store.submit([new_run("pair-2", session="pair"), new_run("pair-3", session="pair")])
    await store.submit([new_run("ready-1", session="ready"), new_run("ready-2", session="ready")])
    await store.submit([new_run("future-1", session="future", max_concurrent=3, delay=60)])
    await store.submit([new_run("future-2", session="future", delay=60)])
    await store.change_run("p", "future-2", Pause())
    await store.close()
    as_layout(3, newest, path)


@pytest.mark.usefixtures("third_layout")
async def test_a_session_of_the_third_layout_knows_its_runs(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await store.open()

    numbers: dict[str, int] = dict(rows(path, "SELECT id, number FROM run"))  # type: ignore[arg-type]  # two columns
    found = rows(path, "SELECT name, admitted, unstarted, held FROM session ORDER BY name")
    one = {name: f"[{numbers[f'{name}-1']}]" for name in ("late", "paused", "ready", "running")}
    assert found == [
        ("late", one["late"], 0, 1),
        ("pair", f"[{numbers['pair-1']},{numbers['pair-2']}]", numbers["pair-2"], 1),
        ("paused", one["paused"], 0, 0),
        ("ready", one["ready"], numbers["ready-1"], 1),
        ("running", one["running"], 0, 1),
    ]
    state = await session_of(store, "pair")
    assert state is not None
    assert state.rule.max_concurrent == 2
    await check_invariants(store)
    assert await store.stop("s", "future", Extent.ALL) == Stopped((), ("future-1", "future-2"))
    await check_drains(store, clock)
    await store.close()


@pytest.mark.usefixtures("third_layout")
async def test_a_future_run_of_the_third_layout_still_says_how_many_may_be_active(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    hand = await Hand(store, "another").register()

    await clock.advance(60)
    await hand.claim(20)

    state = await session_of(store, "future")
    assert state is not None
    assert state.rule.max_concurrent == 3
    await store.close()


# The rows in the tables


async def test_a_session_with_nothing_special_has_a_small_row_and_an_idle_one_has_none(
    store: SQLiteStore, path: Path
) -> None:
    hand = await Hand(store).register()
    await store.submit([message("a", "queue")])
    assert rows(path, "SELECT * FROM session") == [("chat", "[1]", 1, 0, 0, 0, 0, None)]

    await hand.succeed(*await hand.claim())

    assert rows(path, "SELECT * FROM session") == []


async def test_messages_of_a_run_that_has_ended_are_not_looked_for_and_go_with_it(
    store: SQLiteStore, path: Path, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await store.submit([message("a", "queue"), message("b", "collect")])
    [run] = await hand.claim()
    await store.submit([message("c", "steer")])
    assert rows(path, "SELECT id, kind, open FROM message ORDER BY id") == [("b", "merged", 1), ("c", "steered", 1)]

    await hand.succeed(run, read=1)

    assert rows(path, "SELECT id, open FROM message ORDER BY id") == [("b", 0), ("c", 0)]
    await clock.advance(100)
    assert await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0))) == 1
    assert rows(path, "SELECT id FROM message") == []


async def test_a_key_outlives_its_run_for_a_day_and_no_longer(store: SQLiteStore, path: Path, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a", key="k")])
    [run] = await hand.claim()
    await hand.step(saved=[Saved(run.number, run.fence, "1", '{"b":2}')])
    await hand.succeed(run)
    await clock.advance(100)
    await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0)))
    assert rows(path, "SELECT * FROM prepared") == []
    assert rows(path, "SELECT key, gone FROM key") == [("k", 1)]
    [receipt] = await store.submit([new_run("b", key="k")])
    assert (receipt.outcome, receipt.run_id, receipt.state) == (ReceiptOutcome.EXISTING, "a", None)

    await clock.advance(KEPT / SECOND)
    await store.prune(OldRuns({}))

    assert rows(path, "SELECT * FROM key") == []


async def test_a_run_is_found_again_wherever_a_batch_has_put_it_before_it_is_displaced(
    store: SQLiteStore, clock: FakeClock
) -> None:
    batch = [
        *new_runs(6, "plain", user="ann"),
        *(message(f"m{n}", "queue", cap=2) for n in range(4)),
        message("merged", "collect"),
        message("debounced", "queue", "other", debounce=1),
        message("again", "queue", "other", debounce=2),
        message("last", "interrupt"),
    ]

    receipts = await store.submit(batch)
    repeated = await store.submit(batch)

    assert [receipt.run_id for receipt in receipts[10:]] == ["m3", "debounced", "debounced", "last"]
    assert [receipt.reason for receipt in receipts] == [None] * 14
    assert [(receipt.outcome, receipt.run_id) for receipt in repeated] == [
        (receipt.outcome, receipt.run_id) for receipt in receipts
    ]
    dropped = [run_id for run_id in ("m0", "m1", "m2", "m3") if (await store.get(run_id)).state is RunState.DROPPED]
    assert dropped == ["m0", "m1", "m2", "m3"]
    await check_invariants(store)
    await check_drains(store, clock)


# Cost


def test_plain_runs_and_sessions_without_trouble_ask_nothing_about_messages_and_keys(
    db: sqlite3.Connection, database: SQLiteDatabase
) -> None:
    workers.register(database, INCARNATION, None, 1)
    batch = [*new_runs(20, "r"), *(message(f"m{n}", "queue", f"s{n}") for n in range(20))]

    with traced(db) as texts:
        submissions.submit(database, AfterCommit(), batch, 1)
        reply = steps.take_step(database, AfterCommit(), Step("hand", 1, room=100), 1)
        results = [Result(run.number, run.fence, settle(run, Succeeded("1"), TaskPolicy())) for run in reply.claimed]
        steps.take_step(database, AfterCommit(), Step("hand", 2, results, room=100), 1)

    assert len(results) == 30
    assert not [text for text in texts if "message" in text or " key " in text]


def test_what_a_batch_of_sessions_asks_does_not_grow_with_it(db: sqlite3.Connection, database: SQLiteDatabase) -> None:
    asked = []
    for count in (8, 64):
        with traced(db) as texts:
            submissions.submit(
                database, AfterCommit(), [message(f"{count}-{n}", "queue", f"{count}-{n}") for n in range(count)], 1
            )
        asked.append(len(texts))

    assert asked[0] == asked[1]
