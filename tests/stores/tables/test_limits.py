"""What a step leaves of users, sessions and their shelves for the next one is what the tables say."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from laneway.core.lifecycle.step import Step
from laneway.core.records.policy import Lane
from laneway.core.records.run import NewRun
from laneway.ports.gates import Held
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.stores.tables.rows import session_row
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import FRONT, Key, Shelf
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json
from laneway.stores.tables.verbs import steps
from laneway.testing import FakeClock, Hand, new_run
from tests.support.invariants import check_drains, check_invariants

LANES = [Lane("main", limit=6, per_user=2), Lane("side", limit=4, per_user=1)]
ALL = 10_000


def compare_shelf(shelf: Shelf, rows: list[Key]) -> None:
    read = [(run.rank, run.number) for run in reversed(shelf.read)]
    assert not shelf.fresh
    assert not shelf.taken
    assert read == rows[: len(read)]
    if shelf.runs_out(ALL) is None:
        assert len(read) == len(rows)
    else:
        assert all(key > shelf._read_to for key in rows[len(read) :])


def compare(db: Database, cache: StepCache) -> None:
    """Compare all that is remembered of users and sessions with the tables."""
    for (lane, gate), shelf in cache.parked.items():
        rows, _ = db.page("shelves.parked", (lane, gate, *FRONT), ALL)
        compare_shelf(shelf, [(rank, number) for _, rank, number, *_ in rows])
    for name, shelf in cache.held.items():
        rows, _ = db.page("shelves.held", (name, *FRONT), ALL)
        compare_shelf(shelf, [(rank, number) for _, rank, number, *_ in rows])
    books = cache.sessions.values
    stored = {row[0]: tuple(row) for row in db.execute("counts.sessions", (as_json(books),))}
    known = {name: session_row.row_of(name, book) for name, book in books.items()}
    assert stored == {name: row for name, row in known.items() if row is not None}
    for lane, seats in cache.seats.items():
        counts = {user: tuple(row) for user, *row in db.execute("counts.seats", (lane, as_json(seats.values)))}
        assert counts == {u: (s.active, s.parked, s.out) for u, s in seats.values.items() if not s.idle}
    for lane, turns in cache.turns.items():
        users = as_json({user or "" for user, _ in turns.values})
        rows = db.execute("counts.turns", (lane, users)).fetchall()
        # The turn of those without a user may stay where none waits.
        waiting = {(user or None, priority): counts for user, priority, *counts in rows if counts[1]}
        assert {key: counts for key, counts in waiting.items() if key in turns.values} == {
            key: [turn.last, turn.waiting] for key, turn in turns.values.items() if turn.waiting
        }


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Compare after each step; collects how many shelves were compared."""
    shelves: list[int] = []
    take_step = steps.take_step

    def step(db: Database, after_commit: AfterCommit, step: Step, now: int, cache: StepCache) -> object:
        reply = take_step(db, after_commit, step, now, cache)
        compare(db, cache)
        shelves.append(len(cache.parked) + len(cache.held))
        return reply

    monkeypatch.setattr(steps, "take_step", step)
    return shelves


def crowd(random: Random, prefix: str, number: int) -> list[NewRun]:
    made = []
    for nth in range(number):
        user = random.randrange(3)
        session = random.choice((None, f"{user}/0", f"{user}/1", f"{user}/2"))
        made.append(
            new_run(
                f"{prefix}-{nth}",
                lane=random.choice(("main", "main", "side")),
                user=f"user-{user}" if random.random() < 0.9 else None,
                session=session,
                max_concurrent=random.choice((None, 1, 2)) if session else None,
                priority=random.choice((0, 0, 5, 10)),
                delay=random.choice((0, 0, 0, 3)),
            )
        )
    return made


async def live(store: Store, hand: Hand, random: Random, clock: FakeClock, at: int) -> list[str]:
    """Let something happen to the store, then work for some steps; return what was started."""
    what = random.randrange(10)
    if what < 3:
        await store.submit(crowd(random, str(at), random.randrange(1, 30)))
    elif what == 3:
        await store.hold(Held.SESSION, f"{random.randrange(3)}/0", held=random.random() < 0.4)
    elif what == 4:
        await store.hold(Held.USER, f"user-{random.randrange(3)}", held=random.random() < 0.4)
    started: list[str] = []
    for _ in range(random.randrange(1, 6)):
        claimed = await hand.claim(random.randrange(1, 7))
        started += [run.id for run in claimed]
        random.shuffle(claimed)
        cut = random.randrange(len(claimed) + 1)
        for run in claimed[cut:]:
            how = random.randrange(4)
            if how == 0:
                await hand.release(run)
            elif how == 1:
                await hand.snooze(run, delay=2)
            else:
                await hand.fail(run)
        reply = await hand.succeed(*claimed[:cut], room=random.choice((0, 3, 8)))
        started += [run.id for run in reply.claimed]
        await clock.advance(random.choice((0, 1)))
        await hand.succeed(*reply.claimed, room=0)
    return started


@pytest.mark.parametrize("seed", range(3))
async def test_steps_remember_what_the_tables_say(
    open_store: Callable[[], Store], clock: FakeClock, compared: list[int], seed: int
) -> None:
    started: list[list[str]] = []
    for store in (MemoryStore(FakeClock(clock.now())), open_store()):
        random, time = Random(seed), store._clock if isinstance(store, MemoryStore) else clock
        assert isinstance(time, FakeClock)
        await store.open()
        await store.declare_lanes(LANES)
        hand = await Hand(store).register()
        started.append([])
        for at in range(25):
            started[-1] += await live(store, hand, random, time, at)
        await check_invariants(store)

    assert started[0] == started[1]
    assert max(compared) > 5


async def test_two_processes_remember_what_the_tables_say(
    open_store: Callable[[], Store], clock: FakeClock, compared: list[int]
) -> None:
    random, stores = Random(3), [open_store(), open_store()]
    for store in stores:
        await store.open()
    await stores[0].declare_lanes(LANES)
    hands = [await Hand(store, f"hand{nth}").register() for nth, store in enumerate(stores)]

    for at in range(25):
        for nth in random.choice(([0], [0], [1], [0, 1])):
            await live(stores[nth], hands[nth], random, clock, at * 2 + nth)
        await check_invariants(stores[0])
    assert max(compared) > 5


async def test_a_message_that_displaces_the_last_of_a_session_is_held_by_it(
    open_store: Callable[[], Store], clock: FakeClock
) -> None:
    store = open_store()
    await store.open()
    hand = await Hand(store).register()
    await store.submit([new_run(f"a{nth}", session="s", user="u") for nth in range(3)])
    [first] = await hand.claim()
    await store.stop_all("c", "s")
    await store.submit([new_run(f"b{nth}", session="s", user="u") for nth in range(3)])

    assert await hand.claim(5) == []
    reply = await hand.stop(first, room=5)

    assert [run.id for run in reply.claimed] == ["b0"]
    await check_drains(store, clock)


class Table:
    """Rows as the table of a ready order has them."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = sorted(keys)

    def read(self, shelf: Shelf, after: Key, page: int) -> tuple[list[RunRow], bool]:
        found = [key for key in self.keys if key > after][:3]
        return [line(*key) for key in found], len(found) == 3


def line(rank: int, number: int) -> RunRow:
    return RunRow(0, rank, number, "", "", None, "main", None, None, 0)


@pytest.mark.parametrize("known", [0, 12])
@pytest.mark.parametrize("seed", range(30))
def test_a_ready_order_gives_the_first_of_what_is_there(seed: int, known: int) -> None:
    random = Random(seed)
    table = Table([(random.randrange(20), number) for number in range(known)])
    order, there, last = Shelf("ready", ("main",)), table.keys.copy(), known
    if not known and seed % 2:
        order.know_empty()
    for _ in range(80):
        act = random.randrange(5)
        if act < 2:
            run = order.take(table)
            assert (None if run is None else (run.rank, run.number)) == (there.pop(0) if there else None)
        elif act < 4:
            last += 1
            put = line(random.randrange(20), random.choice((last, -last)))
            order.put(put)
            there = sorted([*there, (put.rank, put.number)])
        else:
            assert order.first(table) == (there[0] if there else None)

    taken = [key for key in table.keys if order.taken and key <= order.taken[-1]]
    assert taken == order.taken
    assert sorted([*table.keys[len(taken) :], *((run.rank, run.number) for run in order.fresh.values())]) == there
