"""Control on SQLite: older files, the rows in the tables, and wake-ups."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import Request, RunFilter
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause, Resume
from laneway.stores.sqlite import connection
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.raw_file import rows
from tests.support.invariants import check_drains, check_invariants


def made_by_the_first_layout(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file as the first version of laneway did, with a run that is due, one that runs and one that has ended."""
    with monkeypatch.context() as patch:
        first = connection._migrations()[1]
        patch.setattr(connection, "_migrations", lambda: {1: first})
        connection.connect(connection.StoreFile(path, 1.0)).close()
    with closing(sqlite3.connect(path)) as db, db:
        run = "INSERT INTO run VALUES (?, ?, 'work', 'main', NULL, NULL, 0, NULL, 1, 1, ?, '{}')"
        db.executemany(run, [(1, "ended", 1), (2, "running", 2), (3, "ready", 3)])
        ended = "INSERT INTO outcome VALUES (1, 1, 'succeeded', 1, 0, 1, 3, NULL, 1, 2, NULL, NULL, '7', ?)"
        db.execute(ended, (DONE,))
        db.execute("INSERT INTO lease VALUES (2, 1, 1, 'old', NULL, 1, 0, 1, 0, 0)")
        db.execute("INSERT INTO ready VALUES ('main', 3, 3, 0)")
        db.execute("INSERT INTO pace VALUES ('main', 0, 2, 1)")
        db.execute("INSERT INTO turn VALUES ('main', '', 0, 3, 1)")
        db.execute("UPDATE lane SET active = 1 WHERE name = 'main'")
        worker = '{"id":"old","host":"h","process":{"boot":"b","namespace":"n","pid":1,"started":1},"tasks":["work"]}'
        db.execute("INSERT INTO worker (id, incarnation, lease, renewed_at) VALUES ('old', ?, 15000000, 1)", (worker,))


DONE = '[["started",1,1,{"worker":"old"}],["result",1,2,null],["done",1,2,{"state":"succeeded"}]]'


async def test_a_file_of_the_first_layout_is_migrated_with_all_it_holds(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by_the_first_layout(path, monkeypatch)
    assert rows(path, "PRAGMA user_version") == [(1,)]
    store = SQLiteStore(path, clock)
    await store.open()

    assert (await store.depths()).runs == {"pending": 1, "running": 1, "succeeded": 1}
    assert (await store.get("ended")).result == 7
    assert (await store.change_run("p", "running", Pause())).request is Request.PAUSE
    assert (await store.change_run("c", "ready", Cancel())).state is RunState.CANCELLED

    await check_drains(store, clock)
    assert (await store.get("running")).state is RunState.SUCCEEDED
    await store.close()


async def test_no_run_counts_as_set_aside_once_it_is_taken_out(store: SQLiteStore, path: Path) -> None:
    hand = await Hand(store, tasks=["other"]).register()
    await store.submit([*new_runs(2, "r"), new_run("other", task="other")])
    await hand.claim(3)
    assert rows(path, "SELECT task, runs FROM aside") == [("work", 2)]

    await store.change_run("c", "r-00000", Cancel())
    await store.change_run("p", "r-00001", Pause())

    assert rows(path, "SELECT task, runs FROM aside") == []


async def test_a_run_that_is_resumed_leaves_nothing_that_claims_would_have_to_look_for(
    store: SQLiteStore, path: Path
) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    await store.change_run("p", "a", Pause())
    await store.change_run("r", "a", Resume())
    resumed = "SELECT count(*) FROM outcome WHERE fence = 0 AND state = 'pending'"
    assert rows(path, resumed) == [(1,)]

    await hand.succeed(*await hand.claim())

    assert rows(path, resumed) == [(0,)]


async def test_a_holder_in_another_process_is_woken(path: Path, clock: FakeClock) -> None:
    here, there = SQLiteStore(path, clock), SQLiteStore(path, clock)
    hand = await Hand(there).register()
    await here.submit([new_run("a")])
    await hand.claim()

    await here.change_run("c", "a", Cancel())

    assert await hand.hears()
    await here.close()
    await there.close()


async def test_what_moved_since_it_was_accepted_is_found_all_the_same(store: SQLiteStore, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await store.declare_lanes([Lane("main", limit=50, per_user=2)])
    await store.submit([new_run(f"r{n}", user=f"u{n % 3}", session=f"s{n % 5}", priority=n % 2) for n in range(60)])
    for turn in range(6):
        claimed = await hand.claim(10)
        await hand.release(*claimed[::2])
        await hand.snooze(*claimed[1::2], delay=turn)
        await clock.advance(1)
        for nth, run in enumerate(await store.runs(RunFilter(state=RunState.PENDING), limit=6)):
            await store.change_run(f"{turn} {nth}", run.id, Cancel() if nth % 3 else Pause())
        for nth, run in enumerate(await store.runs(RunFilter(state=RunState.PAUSED), limit=1)):
            await store.change_run(f"{turn} again {nth}", run.id, Resume())
        await check_invariants(store)
    await check_drains(store, clock)
