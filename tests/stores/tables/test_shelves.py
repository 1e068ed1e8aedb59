"""Shelves over tables give what the memory store gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import NewRun
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import Key, Reader, Shelf
from laneway.testing import FakeClock, Hand, new_run
from tests.support.invariants import check_invariants

LANE = Lane("main", limit=8, per_user=2)


@pytest.fixture
async def store(open_store: Callable[[], Store]) -> Store:
    store = open_store()
    await store.open()
    return store


async def worked(store: Store, runs: Sequence[NewRun], *, room: int) -> list[list[str]]:
    """Execute the runs, and return the runs that each step started."""
    await store.declare_lanes([LANE])
    hand = await Hand(store, "hand").register()
    await store.submit(runs)
    steps: list[list[str]] = []
    claimed = await hand.claim(room)
    while claimed:
        steps.append([run.id for run in claimed])
        claimed = (await hand.succeed(*claimed, room=room)).claimed
    await check_invariants(store)
    return steps


def crowd(number: int) -> list[NewRun]:
    """Runs of users at their caps, with busy sessions of which some let two go on at once."""
    random = Random(5)
    made = []
    for nth in range(number):
        user, of_user = random.randrange(5), random.randrange(3)
        most = 2 if of_user else 1
        made.append(
            new_run(
                f"run-{nth:04}",
                user=f"user-{user}",
                session=f"{user}/{of_user}",
                max_concurrent=most,
                priority=random.choice((0, 5, 10)),
            )
        )
    return made


async def test_users_at_their_caps_are_served_as_the_memory_store_serves_them(store: Store, clock: FakeClock) -> None:
    # Each session holds back more than is read of it at once.
    theirs = await worked(MemoryStore(clock), crowd(400), room=8)
    assert await worked(store, crowd(400), room=8) == theirs


@pytest.mark.parametrize("due", [1, 7, 8, 9, 30])
@pytest.mark.parametrize("later", [0, 1, 20])
async def test_as_many_as_are_due_are_started(store: Store, clock: FakeClock, due: int, later: int) -> None:
    hand = await Hand(store, "hand").register()
    await store.submit([new_run(f"due-{nth:02}", delay=1) for nth in range(due)])
    if later:
        await store.submit([new_run(f"later-{nth:02}", delay=2 + nth) for nth in range(later)])

    clock.step(1)
    reply = await hand.step(room=50)

    assert [run.id for run in reply.claimed] == [f"due-{nth:02}" for nth in range(due)]
    assert reply.due_in == (1_000_000 if later else None)
    await check_invariants(store)


async def test_a_session_need_not_be_written_to_be_known_as_started(store: Store, clock: FakeClock) -> None:
    hand = await Hand(store, "hand").register()
    await store.submit([new_run("a", session="s", max_concurrent=2)])
    [first] = await hand.claim(1)

    # The state is read again: if the first run were taken for unstarted, this one would be held back.
    await store.submit([new_run("b", session="s", max_concurrent=2)])
    [second] = await hand.claim(5)

    assert (first.id, second.id) == ("a", "b")
    await hand.release(first)
    await store.submit([new_run("c", session="s", max_concurrent=3)])
    assert [run.id for run in await hand.claim(5)] == ["a", "c"]
    await check_invariants(store)


class Table(Reader):
    """Rows as a table has them, of which a shelf reads pages."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = sorted(keys)

    def read(self, shelf: Shelf, after: Key, page: int) -> tuple[list[RunRow], bool]:
        found = [key for key in self.keys if key > after][:3]
        return [line(*key) for key in found], len(found) == 3


def line(rank: int, number: int) -> RunRow:
    return RunRow(0, rank, number, "", "", None, "main", None, None, 0)


@pytest.mark.parametrize("known", [0, 12])
@pytest.mark.parametrize("seed", range(30))
def test_a_shelf_gives_the_first_of_what_is_there(seed: int, known: int) -> None:
    random = Random(seed)
    table = Table([(random.randrange(20), number) for number in range(known)])
    shelf, there, last = Shelf("ready", ("main",)), table.keys.copy(), known
    if not known and seed % 2:
        shelf.know_empty()
    for _ in range(80):
        act = random.randrange(5)
        if act < 2:
            run = shelf.take(table)
            assert (None if run is None else (run.rank, run.number)) == (there.pop(0) if there else None)
        elif act < 4:
            last += 1
            put = line(random.randrange(20), random.choice((last, -last)))
            shelf.put(put)
            there = sorted([*there, (put.rank, put.number)])
        else:
            assert shelf.first(table) == (there[0] if there else None)

    taken = [key for key in table.keys if shelf.taken and key <= shelf.taken[-1]]
    assert taken == shelf.taken
    assert sorted([*table.keys[len(taken) :], *((run.rank, run.number) for run in shelf.fresh.values())]) == there
