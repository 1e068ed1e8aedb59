"""Whether a run costs more when there is much else in the store: pending, blocked, future, finished.

A scripted worker (`laneway.testing.Hand`) claims 100 runs a step and settles them with the next; only its calls to the
store are timed. Both sides of a row are filled first and then take turns step by step, because a round is short; after
each round both are refilled.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from time import perf_counter

import msgspec

from bench.plan import Plan
from bench.rows import Experiment, Round, Row, Turn, duel, experiment
from bench.subjects import IN_FLIGHT, STORES, Subject, drain_rate, fill, payload, subject, submissions
from bench.throughput import draining
from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.run import Claimed, NewRun
from laneway.engine.common.ids import new_run_id
from laneway.ports.store import Store
from laneway.testing.hand import Hand

BATCH = 1000  # runs a call when filling
USERS = 100
DAY = 86_400 * 1_000_000
ARGS = msgspec.json.encode(payload(0)).decode()
DONE = Succeeded("0")
Prepare = Callable[[Plan, Store], Awaitable[None]]


class Claimer:
    """A scripted worker on a filled store. It times its calls to the store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._hand = Hand(store, "claimer", tasks=["noop"], lease=DAY)
        self._claimed: list[Claimed] = []

    async def register(self) -> None:
        await self._hand.register()

    async def step(self, room: int) -> float:
        """Settle what the last step claimed, claim `room` more, return the seconds that took."""
        results = [self._hand.result(run, DONE) for run in self._claimed]
        start = perf_counter()
        self._claimed = (await self._hand.step(results=results, room=room)).claimed
        taken = perf_counter() - start
        assert len(self._claimed) == room, f"{room} runs were asked for and {len(self._claimed)} came"
        return taken


async def costs(plan: Plan, base: Claimer, ours: Claimer) -> Round:
    """Let both claim and settle runs, step by step in turns; return the cost of a run for each, in microseconds."""
    gc.collect()
    spent = [0.0, 0.0]
    for room in [IN_FLIGHT] * (plan.claims // IN_FLIGHT) + [0]:
        for side, claimer in enumerate((base, ours)):
            spent[side] += await claimer.step(room)
    for claimer in (base, ours):
        await put(claimer.store, plan.claims)
    per_base, per_ours = (seconds / plan.claims * 1_000_000 for seconds in spent)
    return Round(per_ours, per_base)


async def put(store: Store, number: int, *, user: str | None = None, delay: int = 0) -> None:
    """Submit so many runs of one user, or of a hundred in turns."""
    for first in range(0, number, BATCH):
        batch = range(first, min(first + BATCH, number))
        await store.submit([new_run(user=user or f"user-{index % USERS}", delay=delay) for index in batch])


def new_run(*, user: str | None = None, session: str | None = None, delay: int = 0) -> NewRun:
    return NewRun(id=new_run_id(), task="noop", args=ARGS, lane="main", user=user, session=session, delay=delay)


def compared(name: str, title: str, store: str, prepare: Prepare) -> Experiment:
    """Compare the cost per run in a store that was prepared with that in one that was not."""

    @experiment(
        Row(name=f"{name}.{store}", title=f"{title}: {STORES[store]}", unit="us", better="less", must=1.5, aim=1.1)
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        async with AsyncExitStack() as stack:
            plain = await stack.enter_async_context(claimer(plan, store))
            full = await stack.enter_async_context(claimer(plan, store, prepare))
            return [[await costs(plan, plain, full) for _ in range(plan.rounds)]]

    return measure


@asynccontextmanager
async def claimer(plan: Plan, store: str, prepare: Prepare | None = None) -> AsyncIterator[Claimer]:
    async with subject(plan, store) as laneway:
        if prepare is not None:
            await prepare(plan, laneway.store)
        await put(laneway.store, plan.few + plan.claims)
        claimer = Claimer(laneway.store)
        await claimer.register()
        yield claimer


async def many_pending(plan: Plan, store: Store) -> None:
    await put(store, plan.many - plan.few)


async def blocked_sessions(plan: Plan, store: Store) -> None:
    """Make sessions of two runs each: the first is running and does not end, the second waits behind it."""
    holder = await Hand(store, "holder", tasks=["noop"], lease=DAY).register()
    for first in range(0, plan.crowd, BATCH):
        names = [f"session-{index}" for index in range(first, min(first + BATCH, plan.crowd))]
        await store.submit([new_run(session=name) for name in names for _ in range(2)])
        assert len(await holder.claim(room=BATCH)) == len(names)


async def future_runs(plan: Plan, store: Store) -> None:
    await put(store, plan.crowd, delay=DAY)


def finished(store: str) -> Experiment:
    """Whether finished runs make draining slower."""
    title = f"drain after {{finished:,}} finished / fresh: {STORES[store]}"

    @experiment(Row(name=f"finished.{store}", title=title, unit="/s", must=0.7, aim=0.95))
    async def measure(plan: Plan) -> list[list[Round]]:
        async with subject(plan, store) as old:
            await finish(old.store, plan.finished)
            return [await duel(plan, partial(draining, plan, store), partial(draining_old, plan, old))]

    return measure


@asynccontextmanager
async def draining_old(plan: Plan, old: Subject) -> AsyncIterator[Turn]:
    async def turn() -> float:
        await fill(old, submissions(plan.runs))
        return await drain_rate(old, plan.runs)

    yield turn


async def finish(store: Store, number: int) -> None:
    """Submit, claim and settle so many runs in large batches."""
    hand = await Hand(store, "finisher", tasks=["noop"], lease=DAY).register()
    for _ in range(number // BATCH):
        await store.submit([new_run() for _ in range(BATCH)])
        await hand.settle(await hand.claim(room=BATCH), DONE)
    await hand.leave()


def place(store: str) -> Experiment:
    """The place of another user's single run when one user has very many waiting."""
    title = "place of another's single run, one user with {crowd:,} waiting"

    @experiment(
        Row(
            name=f"place.{store}", title=f"{title}: {STORES[store]}", unit="place", better="less", must=IN_FLIGHT, aim=2
        )
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        async with subject(plan, store) as laneway:
            await put(laneway.store, plan.crowd, user="crowd")
            hand = await Hand(laneway.store, "hand", tasks=["noop"], lease=DAY).register()
            return [[Round(max([await place_of_a_guest(hand, f"guest-{number}") for number in range(10)]))]]

    return measure


async def place_of_a_guest(hand: Hand, guest: str) -> int:
    """Return the place, from 1, at which a new user's run is claimed; the worker is in the middle of its work."""
    await hand.settle(await hand.claim(room=IN_FLIGHT), DONE)
    await hand.store.submit([new_run(user=guest)])
    for first in count(0, IN_FLIGHT):
        claimed = await hand.claim(room=IN_FLIGHT)
        await hand.settle(claimed, DONE)
        users = [run.user for run in claimed]
        if guest in users:
            return first + users.index(guest) + 1
    raise AssertionError("count never ends")


EXPERIMENTS = (
    *(compared("pending", "cost per run, {many:,} pending / {few:,}", store, many_pending) for store in STORES),
    *(
        compared("blocked", "cost per run behind {crowd:,} blocked sessions / none", store, blocked_sessions)
        for store in STORES
    ),
    *(compared("future", "cost per run with {crowd:,} future runs / none", store, future_runs) for store in STORES),
    finished("sqlite"),
    finished("redis"),
    finished("postgres"),
    *map(place, STORES),
)
