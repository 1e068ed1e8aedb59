"""Breakers in a SQLite file: check and repair, and every store object sees the same."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from laneway.core.queue.circuits import key_of
from laneway.core.records.breakers import Breaker, Phase
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.stores.memory.store import MemoryStore
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.tables.state.circuits import Circuits
from laneway.testing import FakeClock, Hand, new_runs
from tests.stores.sqlite.raw_file import edit
from tests.stores.sqlite.tracing import counted
from tests.support.invariants import check_drains, check_invariants

POLICY = TaskPolicy(retry=Retry(attempts=1), breaker=Breaker(2, open_for=60))


async def behind(store: SQLiteStore | MemoryStore) -> Hand:
    """Return a worker whose breaker is open, with three runs behind it."""
    hand = await Hand(store, policy=POLICY).register()
    await store.submit(new_runs(5, "r"))
    await hand.fail(*await hand.claim(2))
    assert await hand.claim(9) == []
    return hand


@pytest.mark.parametrize(
    ("statement", "what", "wrong"),
    [
        ("UPDATE broken SET runs = 7", "the breaker of 'work' in lane main", "runs is 7, counted are 3"),
        ("DELETE FROM broken", "the breaker of 'work' in lane main", "runs is 0, counted are 3"),
        (
            "UPDATE circuit SET until = 1, probe = 4, fence = 1",
            "the breaker of task work",
            "it waits for a probe that nobody executes",
        ),
    ],
)
async def test_what_does_not_agree_is_found_and_set_right(
    path: Path, store: SQLiteStore, clock: FakeClock, statement: str, what: str, wrong: str
) -> None:
    await behind(store)
    edit(path, statement)

    assert [(finding.what, finding.wrong) for finding in await store.check()] == [(what, wrong)]
    assert len(await store.check(repair=True)) == 1

    assert await store.check() == []
    await check_invariants(store)
    await check_drains(store, clock)


async def test_memory_lets_a_probe_go_that_nobody_executes(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    hand = await behind(store)
    await clock.advance(60)
    store._state.circuits.start(store._state.by_id["r-00002"], clock.now())
    assert await hand.claim(9) == []

    [finding] = await store.check(repair=True)

    assert finding.what == "the breaker of task work"
    assert len(await hand.claim(9)) == 1


async def test_two_store_objects_see_one_circuit(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    hand = await behind(store)
    other = SQLiteStore(path, clock)
    second = await Hand(other, "second", policy=POLICY).register()
    assert await second.claim(9) == []
    await clock.advance(60)

    [probe] = await hand.claim(9)
    assert await second.claim(9) == []
    await hand.succeed(probe)
    claimed = await second.claim(9)

    assert [run.id for run in claimed] == ["r-00003", "r-00004"]
    await second.fail(*claimed)
    [state] = await store.tasks()
    assert [(one.phase, one.failures) for one in state.circuits] == [(Phase.OPEN, 2)]
    await check_invariants(store)
    await other.close()


async def test_it_is_kept_when_the_file_is_opened_again(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    await behind(store)
    await store.close()
    again = SQLiteStore(path, clock)

    hand = await Hand(again, "again", policy=POLICY).register()

    assert (await hand.step(room=9)).due_in == 60_000_000
    await clock.advance(60)
    assert len(await hand.claim(9)) == 1
    await again.close()


def test_finding_what_is_guarded_costs_the_same_however_many_users_have_an_open_circuit(
    db: sqlite3.Connection,
    database: SQLiteDatabase,
) -> None:
    spent = []
    for users in (range(3), range(3, 3000)):
        for task in ("mail", "work"):
            rows = [(key_of(task, str(user)), task) for user in users]
            db.executemany("INSERT INTO circuit (key, task, failures, until) VALUES (?, ?, 2, 60)", rows)
        with counted(db) as count:
            assert Circuits(database, any_=True, parked=False).tasks == {"mail", "work"}
        spent.append(count[0])

    assert spent[1] <= spent[0] + 10
