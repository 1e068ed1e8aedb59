"""Steps on SQLite beside other processes and other verbs, and after a step that was undone."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.core.records.policy import Lane, Rule
from laneway.core.records.run import NewRun, Request
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel
from laneway.ports.settings import SessionSetting
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_run
from tests.support.invariants import check_invariants

LANE = Lane("main", limit=10, per_user=1)


def crowd(name: str, number: int) -> list[NewRun]:
    """Runs of three users with two sessions each: most are held back, or parked."""
    return [
        new_run(f"{name}-{n:03}", user=f"user-{n % 3}", session=f"{name}-{n % 6}", priority=n % 2, args={"n": n})
        for n in range(number)
    ]


@pytest.fixture
async def hand(store: SQLiteStore) -> Hand:
    await store.declare_lanes([LANE])
    return await Hand(store, "hand").register()


@pytest.fixture
async def other(path: Path, clock: FakeClock) -> AsyncIterator[SQLiteStore]:
    """Another connection to the same file, as another process would have it."""
    store = SQLiteStore(path, clock)
    await store.open()
    yield store
    await store.close()


def connection(store: SQLiteStore) -> sqlite3.Connection:
    """Return the writer's own connection."""
    db = store.access.runtime.writer._db
    assert db is not None
    return db


async def rounds(hand: Hand, number: int) -> list[str]:
    """Let the hand claim and finish so many times; return the executed runs, in order."""
    done: list[str] = []
    for _ in range(number):
        claimed = await hand.claim(5)
        done += [run.id for run in claimed]
        await hand.succeed(*claimed)
    return done


async def test_what_another_process_commits_is_seen_by_the_next_step(
    store: SQLiteStore, other: SQLiteStore, hand: Hand
) -> None:
    await store.submit(crowd("a", 12))
    done = await rounds(hand, 2)
    visitor = await Hand(other, "visitor").register()
    await other.submit(crowd("b", 12))

    for _ in range(6):
        done += [*await rounds(hand, 1), *await rounds(visitor, 1)]

    assert len(done) == len(set(done)) == 24
    await check_invariants(store)


async def test_limits_hold_for_two_processes_that_take_turns(
    store: SQLiteStore, other: SQLiteStore, hand: Hand
) -> None:
    visitor = await Hand(other, "visitor").register()
    await store.submit(crowd("a", 30))

    for _ in range(5):
        mine, theirs = await hand.claim(2), await visitor.claim(2)
        assert len({run.user for run in mine + theirs}) == len(mine + theirs) == 3
        await visitor.succeed(*theirs)
        await hand.succeed(*mine)

    await check_invariants(store)


async def test_a_cancel_of_another_process_overrules_a_result(
    store: SQLiteStore, other: SQLiteStore, hand: Hand
) -> None:
    await store.submit([new_run("a")])
    [run] = await hand.claim(1)

    await other.change_run("c", "a", Cancel())
    await hand.succeed(run)

    assert (await store.get("a")).state is RunState.CANCELLED


async def test_a_cancel_of_this_process_does_too(store: SQLiteStore, hand: Hand) -> None:
    await store.submit([new_run("a")])
    [run] = await hand.claim(1)

    assert (await store.change_run("c", "a", Cancel())).request is Request.CANCEL
    await hand.succeed(run)

    assert (await store.get("a")).state is RunState.CANCELLED


async def test_a_result_of_another_worker_is_refused(store: SQLiteStore, hand: Hand) -> None:
    await store.submit([new_run("a")])
    thief = await Hand(store, "thief").register()
    [run] = await hand.claim(1)

    reply = await thief.succeed(run)

    assert reply.refused == [(run.number, run.fence)]
    assert (await store.get("a")).state is RunState.RUNNING


async def test_a_step_that_was_undone_leaves_nothing_behind(store: SQLiteStore, hand: Hand) -> None:
    await store.submit(crowd("a", 12))
    done = await rounds(hand, 2)
    claimed = await hand.claim(5)
    connection(store).execute(
        "CREATE TEMP TRIGGER refused BEFORE INSERT ON main.lease BEGIN SELECT RAISE(ABORT, 'refused'); END"
    )

    with pytest.raises(sqlite3.IntegrityError):
        await hand.succeed(*claimed, room=5)
    connection(store).execute("DROP TRIGGER refused")
    await hand.succeed(*claimed)
    done += [run.id for run in claimed] + await rounds(hand, 4)

    assert len(done) == len(set(done)) == 12
    await check_invariants(store)


async def test_a_retried_run_is_handed_out_with_its_checkpoint_and_its_next_fence(
    store: SQLiteStore, clock: FakeClock, hand: Hand
) -> None:
    await store.submit([new_run("a", user="ann", session="s"), new_run("b", user="ann", session="s")])
    [run] = await hand.claim(1)
    await hand.save(run, {"page": 7})
    await hand.release(run)

    [again] = await hand.claim(1)
    await hand.succeed(again)

    assert (again.id, again.fence, again.state) == ("a", 2, '{"page":7}')
    assert [event.kind for event in await store.events("a")] == ["started", "released", "started", "result", "done"]
    assert [run.id for run in await hand.claim(2)] == ["b"]


async def test_an_idle_session_keeps_what_an_operator_set_of_it(store: SQLiteStore, hand: Hand) -> None:
    await store.set(SessionSetting("s", Rule(max_concurrent=2)))
    await store.submit([new_run(f"a-{n}", session="s") for n in range(4)])
    first = await hand.claim(5)
    second = (await hand.succeed(*first, room=5)).claimed
    await hand.succeed(*second)

    assert [len(first), len(second)] == [2, 2]
    await store.submit([new_run(f"b-{n}", session="s") for n in range(4)])
    assert len(await hand.claim(5)) == 2
