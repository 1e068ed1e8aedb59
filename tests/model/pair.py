"""A store and the memory store: both receive the same calls and must return and contain the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from laneway.core.jobs.record import FireRecord
from laneway.core.lifecycle.step import ReclaimReply, RenewReply, StepReply
from laneway.core.records.events import ANSWERED, MERGED, STEERED, Event
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.memos import Recall
from laneway.core.records.run import Run
from laneway.core.records.states import RunState
from laneway.errors import BadSetting, JobExists, LeaseLost, NotWaiting, UnknownLane, UnknownRun, WrongState
from laneway.ports.sessions import SessionState
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from tests.model.commands import SESSIONS
from tests.support.invariants import all_runs, check_counts, check_drains, check_somebody_is_awake, check_waits
from tests.support.jobs import all_fires, all_jobs, check_jobs

EVERY = 16  # of so many runs, one is asked after each command what it has kept and, unless it has ended, why it waits

NOTHING = Recall()

T = TypeVar("T")
Refusal = BadSetting | JobExists | LeaseLost | NotWaiting | UnknownLane | UnknownRun | WrongState

_REFUSALS = (BadSetting, JobExists, LeaseLost, NotWaiting, UnknownLane, UnknownRun, WrongState)


class Pair:
    """Two stores, compared: `memory` says what is right."""

    def __init__(self, memory: Store, store: Store) -> None:
        self.memory, self.store = memory, store
        self._seen: dict[str, int] = {}  # per run: how many of its events were compared
        self._kept: dict[str, Recall] = {}  # per run: what it had kept, or waited for, when that was compared last
        self._turn = 0

    async def same(self, call: Callable[[Store], Awaitable[T]], plain: Callable[[T], object] | None = None) -> T | None:
        """Send a call to both, assert that the answers are the same, and return it; None if it was refused.

        `plain` gives the part of an answer that is compared, in an order that both can have.
        """
        expected, found = await _answer(call, self.memory), await _answer(call, self.store)
        if isinstance(expected, _REFUSALS) or isinstance(found, _REFUSALS):
            assert (type(found), str(found)) == (type(expected), str(expected))
            return None
        _assert_same(found if plain is None else plain(found), expected if plain is None else plain(expected))
        return expected

    async def compare(self) -> None:
        """Assert that both show the same of runs, lanes and events and, in turns, of what follows from these."""
        runs = await all_runs(self.memory)
        _assert_same(await all_runs(self.store), runs)
        lanes = await self.same(lambda store: store.lanes())
        check_somebody_is_awake(lanes or [], await self.store.workers())
        await check_counts(self.memory, runs)
        assert await self.memory.check() == []
        await check_waits(self.memory, runs)
        await self._compare_jobs(runs)
        # All at once: what they cost is mostly the way to the store and back.
        await asyncio.gather(*(self._compare_own(run) for run in runs))
        await self._compare_in_turns([run for run in runs if not run.ended])

    async def compare_to_the_end(self, clock: FakeClock) -> None:
        """Assert that the whole logs are the same, and that both bring everything to its end."""
        for run_id in self._seen:
            await self.same(partial(_whole_log, run_id))
        for store in (self.memory, self.store):
            await check_drains(store, clock)

    async def forget_pruned(self) -> None:
        """Compare no more logs of runs that were deleted."""
        left = {run.id for run in await all_runs(self.memory)}
        self._seen = {run_id: events for run_id, events in self._seen.items() if run_id in left}

    async def _compare_jobs(self, runs: list[Run]) -> None:
        jobs = await self.same(all_jobs) or []
        await check_jobs(self.memory, runs)
        for job in jobs[self._turn % 2 :: 2]:
            await self.same(partial(_records, job.id))

    async def _compare_own(self, run: Run) -> None:
        await self._compare_new_events(run)
        await self._compare_kept(run)

    async def _compare_new_events(self, run: Run) -> None:
        after = self._seen.setdefault(run.id, 0)
        news = await self.memory.events(run.id, after=after)
        if news:
            _assert_same(await self.store.events(run.id, after=after), news)
            self._seen[run.id] = news[-1].seq
        if any(event.kind in (ANSWERED, MERGED, STEERED) for event in news):
            await self.same(lambda store: store.messages(run.id))

    async def _compare_kept(self, run: Run) -> None:
        kept = await self.memory.recall(run.id)
        # After most commands it is what it was: to be told so by both, the runs take turns.
        if kept != self._kept.get(run.id, NOTHING) or (run.number + self._turn) % EVERY == 0:
            _assert_same(await self.store.recall(run.id), kept)
            self._kept[run.id] = kept

    async def _compare_in_turns(self, waiting: list[Run]) -> None:
        """Compare a part of the rest after each command: all of it would take most of the time."""
        self._turn += 1
        turn = self._turn % len(_VIEWS)
        await self.same(*_VIEWS[turn])
        await self.same(partial(_session, SESSIONS[self._turn % len(SESSIONS)]))
        if self._turn % 4 == 0:
            assert await self.store.check() == []
        for run in waiting[self._turn % EVERY :: EVERY]:
            await self._compare_reasons(run)

    async def _compare_reasons(self, run: Run) -> None:
        reasons = await self.same(lambda store: store.why(run.id))
        assert reasons or run.state is not RunState.PENDING, run


def plain_step(reply: StepReply) -> object:
    """Return what is compared of a step's reply."""
    return reply.claimed, sorted(reply.refused), reply.due_in, reply.more, reply.now, reply.requests, reply.fires_in


def plain_renewal(reply: RenewReply) -> object:
    """Return what is compared of a renewal's reply."""
    return reply.now, sorted(reply.leases), reply.requests


def plain_reclaim(reply: ReclaimReply) -> object:
    """Return what is compared of a reclaim's reply."""
    return sorted(reply.lapsed, key=lambda run: run.number), reply.more


def _plain_workers(workers: list[WorkerInfo]) -> object:
    return [(worker.incarnation, worker.renewed_at, worker.running, worker.left) for worker in workers]


_VIEWS: list[tuple[Callable[[Store], Awaitable[Any]], Callable[[Any], object] | None]] = [
    (lambda store: store.sessions(), None),
    (lambda store: store.users(limit=1000), None),
    (lambda store: store.tasks(), None),
    (lambda store: store.depths(), None),
    (lambda store: store.due_jobs(limit=2), None),
    (lambda store: store.workers(), _plain_workers),
]


def _assert_same(found: object, expected: object) -> None:
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for one, other in zip(found, expected, strict=True):
            assert one == other, f"the store has {one}\nmemory has    {other}"
    assert found == expected, f"the store has {found}\nmemory has    {expected}"


async def _answer(call: Callable[[Store], Awaitable[T]], store: Store) -> T | Refusal:
    try:
        return await call(store)
    except _REFUSALS as refused:
        return refused


async def _whole_log(run_id: str, store: Store) -> list[Event]:
    return await store.events(run_id, limit=100_000)


async def _records(job_id: str, store: Store) -> list[FireRecord]:
    return await all_fires(store, job_id)


async def _session(name: str, store: Store) -> list[SessionState]:
    return await store.sessions(named=name)
