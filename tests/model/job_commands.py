"""The model test's commands about jobs: how often each comes, what it is given, and what it does to both stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from laneway.core.common.instants import SECOND, instant
from laneway.core.jobs.fire_decision import Firing, by_hand, set_back
from laneway.core.jobs.plan import created, patched, switched
from laneway.core.jobs.record import JobRecord, JobSpec, Misfire, Verdict
from laneway.core.records.breakers import Breaker
from laneway.core.records.job_tie import Overlap
from laneway.core.schedules import At, Cron, Every, Schedule
from laneway.errors import BadSetting
from laneway.ports.jobs import AddJob, EditJob, RemoveJob
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from tests.model.commands import LANES, SESSIONS, TASKS
from tests.model.pair import Pair
from tests.support.jobs import UTC, all_jobs, decided, spec_of

Say = dict[str, Any]

RULES = ("each 5", "each 7, spread", "after the end", "each minute", "once")
SAID: dict[str, st.SearchStrategy[Any]] = {
    "rule": st.sampled_from(["each 5", *RULES]),
    "name": st.sampled_from(["a", "b", "c", "d"]),
    "owner": st.sampled_from([None, None, "ann"]),
    "task": st.sampled_from(["work", "work", *TASKS]),
    "lane": st.sampled_from([*LANES, "nowhere"]),
    "session": st.sampled_from([None, None, *SESSIONS]),
    "priority": st.sampled_from([0, 0, 5]),
    "enabled": st.sampled_from([True] * 5 + [False]),
    "misfire": st.sampled_from([*Misfire, Misfire.ALL]),
    "max_staleness": st.sampled_from([0, 20 * SECOND]),
    "overlap": st.sampled_from(Overlap),
    "delete_after_run": st.sampled_from([False] * 5 + [True]),
    "run_on_start": st.sampled_from([False, False, True]),
    "breaker": st.sampled_from([None, None, Breaker(1, 5), Breaker(2, 5, disable=True)]),
    "backoff": st.sampled_from([0, 0, 3 * SECOND]),
    "backoff_cap": st.sampled_from([0, 10 * SECOND]),
}
WHICH = st.integers(0, 9)
ENDS = st.sampled_from(["succeed", "succeed", "hopeless", "hopeless", "fail", "heed", "ask", "keep"])
WEIGHTS = {
    "make_job": 6,
    "tick": 18,
    "fire_jobs": 4,
    "fire_again": 1,
    "fire_by_hand": 1,
    "patch_job": 2,
    "switch_job": 1,
    "change_again": 1,
    "remove_job": 1,
    "take_time": 1,
}
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "make_job": st.tuples(st.fixed_dictionaries(SAID)),
    "tick": st.tuples(st.sampled_from([5, 5, 10, 40]), st.integers(0, 3), st.lists(ENDS, min_size=2, max_size=6)),
    "fire_jobs": st.tuples(st.sampled_from([1, 2, 100]), st.sampled_from([None] * 8 + [*Verdict])),
    "fire_again": st.tuples(),
    "fire_by_hand": st.tuples(WHICH),
    "patch_job": st.tuples(WHICH, st.fixed_dictionaries({}, optional=SAID), st.sampled_from([0, 0, 0, 1])),
    "switch_job": st.tuples(WHICH, st.sampled_from([True, True, False])),
    "change_again": st.tuples(st.integers(1, 3)),
    "remove_job": st.tuples(WHICH),
    "take_time": st.tuples(),
}


class JobCommands:
    """What the model's machine can do with jobs; it gives the pair, the clock, and ids of calls."""

    pair: Pair
    clock: FakeClock

    def __init__(self) -> None:
        super().__init__()
        self.firings: Sequence[Firing] = ()  # the newest
        self.changes: list[JobRecord] = []  # the jobs as they were sent to be changed

    def _call(self) -> str:
        raise NotImplementedError

    async def _advance(self, seconds: float) -> None:
        raise NotImplementedError

    async def _renew_all(self) -> None:
        raise NotImplementedError

    async def _step(self, who: int, outcomes: list[str], room: int, park: bool) -> None:
        raise NotImplementedError

    async def _tick(self, seconds: int, who: int, outcomes: list[str]) -> None:
        """Let time go by while all are alive, fire what is due then, and let one execute some of it."""
        for _ in range(0, seconds, 5):
            await self._advance(5)
            await self._renew_all()
        await self._fire_jobs(100, None)
        await self._step(who, [], len(outcomes), False)
        await self._step(who, outcomes, 0, False)

    async def _make_job(self, said: Say) -> None:
        call = self._call()
        job = created(call.replace("call ", "j"), self._spec(said), self.clock.now(), UTC, call)
        await self.pair.same(lambda store: store.change_job(AddJob(job)))

    async def _fire_jobs(self, limit: int, verdict: Verdict | None) -> None:
        due = await self.pair.same(lambda store: store.due_jobs(limit=limit))
        if due is not None:
            await self._fire(decided(due.jobs, due.now, UTC, verdict))

    async def _fire_again(self) -> None:
        await self._fire(self.firings)

    async def _fire_by_hand(self, which: int) -> None:
        job = await self._some_job(which)
        if job is not None:
            await self._fire([by_hand(job, self._call().replace("call ", "h"), self.clock.now())])

    async def _patch_job(self, which: int, said: Say, behind: int) -> None:
        await self._change(which, lambda job: patched(job, self._spec(said, job.spec), self.clock.now(), UTC), behind)

    async def _switch_job(self, which: int, on: bool) -> None:
        await self._change(which, lambda job: switched(job, self.clock.now(), UTC, on=on))

    async def _change_again(self, back: int) -> None:
        if self.changes:
            job = self.changes[-min(back, len(self.changes))]
            await self.pair.same(lambda store: store.change_job(EditJob(job)))

    async def _remove_job(self, which: int) -> None:
        job = await self._some_job(which)
        if job is not None:
            await self.pair.same(_forgets(job.id))

    async def _take_time(self) -> None:
        """Set jobs back if the clock was, as a ticker does."""
        due = await self.pair.same(lambda store: store.due_jobs())
        if due is not None and due.behind > SECOND:
            found = [set_back(job, due.now, UTC) for job in await all_jobs(self.pair.memory)]
            await self._fire([firing for firing in found if firing is not None])
            await self.pair.same(lambda store: store.restart_time())

    async def _fire(self, firings: Sequence[Firing]) -> None:
        self.firings = firings
        await self.pair.same(lambda store: store.fire(firings))

    async def _change(self, which: int, change: Callable[[JobRecord], JobRecord], behind: int = 0) -> None:
        job = await self._some_job(which)
        if job is None:
            return
        try:
            changed = change(job)
        except BadSetting:
            return  # it would never fire
        changed = msgspec.structs.replace(changed, version=job.version - behind, call=self._call())
        self.changes.append(changed)
        await self.pair.same(lambda store: store.change_job(EditJob(changed)))

    async def _some_job(self, which: int) -> JobRecord | None:
        jobs = await all_jobs(self.pair.memory)
        return jobs[which % len(jobs)] if jobs else None

    def _spec(self, said: Say, before: JobSpec | None = None) -> JobSpec:
        fields = dict(said)
        rule = fields.pop("rule", None)
        if before is None:
            return spec_of(self._rule(rule), **fields)
        if rule is not None:
            fields["schedule"] = spec_of(self._rule(rule)).schedule
        return msgspec.structs.replace(before, **fields)

    def _rule(self, words: str) -> Schedule:
        match words:
            case "each 5":
                return Every(5)
            case "each 7, spread":
                return Every(7, jitter=4)
            case "after the end":
                return Every(6, after="end")
            case "each minute":
                return Cron("* * * * *")
            case _:
                return At(instant(self.clock.now() + 8 * SECOND))


def _forgets(job_id: str) -> Callable[[Store], Awaitable[JobRecord | None]]:
    return lambda store: store.change_job(RemoveJob(job_id))
