"""Steps of runs with users, sessions and limits do what the memory store does."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import NewRun
from laneway.ports.gates import Held
from laneway.ports.sessions import Extent
from laneway.ports.settings import Hold
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock, Hand, new_run
from tests.support.invariants import check_drains, check_invariants

LANES = [Lane("main", limit=6, per_user=2), Lane("side", limit=4, per_user=1)]


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
    """Change the store, then work for some steps; return the started runs."""
    what = random.randrange(10)
    if what < 3:
        await store.submit(crowd(random, str(at), random.randrange(1, 30)))
    elif what == 3:
        await store.set(Hold(Held.SESSION, f"{random.randrange(3)}/0", held=random.random() < 0.4))
    elif what == 4:
        await store.set(Hold(Held.USER, f"user-{random.randrange(3)}", held=random.random() < 0.4))
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
async def test_steps_start_what_the_memory_store_starts(
    open_store: Callable[[], Store], clock: FakeClock, seed: int
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


async def test_steps_of_two_processes_leave_the_tables_right(open_store: Callable[[], Store], clock: FakeClock) -> None:
    random, stores = Random(3), [open_store(), open_store()]
    for store in stores:
        await store.open()
    await stores[0].declare_lanes(LANES)
    hands = [await Hand(store, f"hand{nth}").register() for nth, store in enumerate(stores)]

    for at in range(25):
        for nth in random.choice(([0], [0], [1], [0, 1])):
            await live(stores[nth], hands[nth], random, clock, at * 2 + nth)
        await check_invariants(stores[0])


async def test_a_message_that_displaces_the_last_of_a_session_is_held_by_it(
    open_store: Callable[[], Store], clock: FakeClock
) -> None:
    store = open_store()
    await store.open()
    hand = await Hand(store).register()
    await store.submit([new_run(f"a{nth}", session="s", user="u") for nth in range(3)])
    [first] = await hand.claim()
    await store.stop("c", "s", Extent.ALL)
    await store.submit([new_run(f"b{nth}", session="s", user="u") for nth in range(3)])

    assert await hand.claim(5) == []
    reply = await hand.stop(first, room=5)

    assert [run.id for run in reply.claimed] == ["b0"]
    await check_drains(store, clock)
