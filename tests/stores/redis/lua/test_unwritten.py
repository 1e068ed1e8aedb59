"""What a limited run on Redis leaves unwritten, everybody finds all the same: it is as the memory store has it.

A run of a busy session that is admitted, parked behind its user and started changes its user's seat alone, and its
record when it starts. What its record and its session's book say meanwhile is older.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from laneway.core.policy import Lane, Mode, Rule, SessionPolicy
from laneway.core.run import Claimed
from laneway.core.states import RunState
from laneway.ports.gates import Held
from laneway.ports.store import Store
from laneway.stores.memory import MemoryStore
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, all_runs, check_invariants, new_run
from tests.stores.redis.behind import Behind

LANE = Lane("main", limit=8, per_user=2)
ROOM, STEPS = 8, 9
PRIORITIES = (-100, -1, 0, 10, 100)
PATIENT = SessionPolicy(cap=1000)
SESSIONS = [f"{user}/{nth}" for user in range(3) for nth in range(5)]

Deed = Callable[[Store, Hand, str], Awaitable[object]]


async def crowd(store: Store) -> None:
    """Submit runs of users who will be at their caps, each with five busy sessions."""
    random = Random(3)
    await store.declare_lanes([LANE])
    for nth in range(90):
        user, of_user = nth % 3, random.randrange(5)
        await store.submit(
            [
                new_run(
                    f"run-{nth:03}",
                    user=f"user-{user}",
                    session=f"{user}/{of_user}",
                    policy=PATIENT,
                    priority=random.choice(PRIORITIES),
                )
            ]
        )


def message(session: str, mode: Mode, user: str | None = None, **rule: Any) -> Deed:
    """Let a message come to the session, of its user or another one."""

    async def come(store: Store, hand: Hand, id_: str) -> object:
        policy = SessionPolicy(mode=mode, **{"cap": 1000} | rule)
        return await store.submit([new_run(id_, user=user or f"user-{session[0]}", session=session, policy=policy)])

    return come


def of_run(find: Callable[[list[Any]], Any], deed: Callable[[Store, str, str], Awaitable[object]]) -> Deed:
    """Do something to a pending run that `find` chooses."""

    async def do(store: Store, hand: Hand, id_: str) -> object:
        pending = [run for run in await all_runs(store) if run.state is RunState.PENDING and run.session == "1/2"]
        return await deed(store, id_, find(pending).id) if pending else None

    return do


async def pause_and_resume(store: Store, id_: str, run_id: str) -> None:
    await store.pause(id_, run_id)
    await store.resume(f"{id_}-again", run_id)


async def held_and_let_go(store: Store, what: Held, name: str) -> None:
    await store.hold(what, name, held=True)
    await check_invariants(store)
    await store.hold(what, name, held=False)


def everywhere(deed: Callable[[str], Deed]) -> Deed:
    """Do it to every session."""

    async def do(store: Store, hand: Hand, id_: str) -> None:
        for session in SESSIONS:
            await deed(session)(store, hand, f"{id_}-{session}")

    return do


async def unthrottle(store: Store, hand: Hand, id_: str) -> None:
    for throttled in (True, False):
        for session in SESSIONS:
            await store.set_session(session, Rule(max_concurrent=2), throttled=throttled)


DEEDS: dict[str, Deed] = {
    "nothing": lambda store, hand, id_: store.sessions(),
    "more at a time, by an operator": lambda store, hand, id_: store.set_session("1/2", Rule(max_concurrent=2)),
    "more at a time for all, by an operator": everywhere(
        lambda session: lambda store, hand, id_: store.set_session(session, Rule(max_concurrent=2))
    ),
    "more at a time for all, by messages": everywhere(lambda session: message(session, Mode.QUEUE, max_concurrent=2)),
    "all throttled, and not any more": unthrottle,
    "throttled, and not any more": lambda store, hand, id_: store.set_session(
        "1/2", Rule(max_concurrent=3), throttled=int(id_[-1]) % 2 == 0
    ),
    "more at a time, by a message": message("1/2", Mode.QUEUE, max_concurrent=2),
    "a message that is collected": message("1/2", Mode.COLLECT),
    "a message that steers": message("1/2", Mode.STEER),
    "a message that interrupts": message("1/2", Mode.INTERRUPT),
    "a message that would be rejected": message("1/2", Mode.REJECT),
    "a message of another user": message("1/2", Mode.QUEUE, "somebody"),
    "a message of a user who waits": message("1/2", Mode.QUEUE, "user-2"),
    "a message that drops others": message("1/2", Mode.QUEUE, cap=2),
    "cancel the first": of_run(lambda runs: runs[0], lambda store, id_, run: store.cancel(id_, run)),
    "cancel the last": of_run(lambda runs: runs[-1], lambda store, id_, run: store.cancel(id_, run)),
    "pause the first": of_run(lambda runs: runs[0], lambda store, id_, run: store.pause(id_, run)),
    "pause the second": of_run(lambda runs: runs[len(runs) > 1], lambda store, id_, run: store.pause(id_, run)),
    "pause the first, and resume it": of_run(lambda runs: runs[0], pause_and_resume),
    "pause the last, and resume it": of_run(lambda runs: runs[-1], pause_and_resume),
    "pause the session": lambda store, hand, id_: held_and_let_go(store, Held.SESSION, "1/2"),
    "pause the user": lambda store, hand, id_: held_and_let_go(store, Held.USER, "user-1"),
    "pause the lane": lambda store, hand, id_: held_and_let_go(store, Held.LANE, "main"),
    "a higher cap": lambda store, hand, id_: store.set_cap("user-1", "main", 3),
    "stop the session": lambda store, hand, id_: store.stop(id_, "1/2"),
    "stop all of the session": lambda store, hand, id_: store.stop_all(id_, "1/2"),
    "repair": lambda store, hand, id_: store.check(repair=True),
}


async def told(store: Store) -> list[Any]:
    """Return what everybody may ask about runs, sessions and why they wait."""
    runs = await all_runs(store)
    whys = [await store.why(run.id) for run in runs if run.state is RunState.PENDING and run.session == "1/2"]
    return [runs, await store.sessions(), await store.depths(), whys]


async def worked(store: Store, deed: Deed, *, each: int, snoozes: bool = False) -> list[Any]:
    """Execute the crowd, do the deed after every so many steps, and return all that was seen."""
    await crowd(store)
    hand = await Hand(store, "hand").register()
    seen = list[Any]()
    claimed = await hand.claim(ROOM)
    for step in range(60):
        if step % each == each - 1 and step < STEPS:
            await deed(store, hand, f"deed-{step}")
            seen.append(await told(store))
            await check_invariants(store, logs=False)
        seen.append([(run.id, run.fence, run.messages) for run in claimed])
        claimed = await gone_on(hand, claimed, snoozes=snoozes and step < STEPS)
        if not claimed:
            break
    seen.append(await told(store))
    await check_invariants(store)
    return seen


async def gone_on(hand: Hand, claimed: list[Claimed], *, snoozes: bool) -> list[Claimed]:
    """Let all succeed but for one in three, which comes back in the next step."""
    again = [run for run in claimed if snoozes and run.number % 3 == 0 and run.fence == 1]
    await hand.snooze(*again, delay=0)
    return (await hand.succeed(*(run for run in claimed if run not in again), room=ROOM)).claimed


@pytest.mark.parametrize("each", [1, 4])
@pytest.mark.parametrize("name", DEEDS)
async def test_it_is_as_in_memory_whatever_comes_between(
    name: str, each: int, redis_store: RedisStore, clock: FakeClock
) -> None:
    memory = MemoryStore(clock)
    await memory.open()

    assert await worked(redis_store, DEEDS[name], each=each) == await worked(memory, DEEDS[name], each=each)


async def test_it_is_as_in_memory_where_runs_come_back(redis_store: RedisStore, clock: FakeClock) -> None:
    memory = MemoryStore(clock)
    await memory.open()

    seen = [await worked(store, DEEDS["nothing"], each=1, snoozes=True) for store in (redis_store, memory)]

    assert seen[0] == seen[1]


async def test_it_is_left_unwritten(redis_store: RedisStore) -> None:
    behind, hand = Behind(redis_store), await Hand(redis_store).register()
    await crowd(redis_store)
    claimed = await hand.claim(ROOM)
    for _ in range(3):
        claimed = (await hand.succeed(*claimed, room=ROOM)).claimed

    books, records = await behind.unpacked("sessions"), await behind.unpacked("runs")
    admitted = [records[b"%d" % book[1]] for book in books.values() if book[1]]

    assert any(record[5] > 0 for record in admitted)  # a fence: it has started
    assert any(record[4] == "held" for record in admitted)  # it is parked
    await check_invariants(redis_store)


async def test_the_first_that_a_session_holds_stand_in_its_book_alone(redis_store: RedisStore) -> None:
    behind, hand = Behind(redis_store), await Hand(redis_store).register()
    runs = [new_run(f"run-{nth:03}", session="chat", policy=PATIENT) for nth in range(80)]
    waiting, started, sets = iter(runs[13:]), list[str](), 0

    await redis_store.submit(runs[:13])
    assert await behind.do("EXISTS", "held:chat") == 0
    claimed = await hand.claim()
    while claimed:
        started += [run.id for run in claimed]
        assert await redis_store.check() == []
        # Behind some that are held no more, until the book is full, and beyond; in the end none are left.
        await redis_store.submit([run for _, run in zip(range(2), waiting, strict=False)])
        sets += await behind.do("EXISTS", "held:chat")
        claimed = (await hand.succeed(*claimed, room=1)).claimed

    assert started == [run.id for run in runs]
    assert 0 < sets < len(runs)
    assert await behind.do("EXISTS", "held:chat", "sessions") == 0
