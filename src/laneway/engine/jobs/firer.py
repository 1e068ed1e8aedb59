"""The firer: reads due jobs from the store, lets the core decide about them, and writes the decisions in batches.

**Several processes.** Every process fires the due jobs that it finds. A firing names the version of the job that it was
decided on, so the store takes one of them. The others lose nothing and look again.

**Left aside** is what this process cannot fire now: a job that only other processes know, one that cannot be decided
(it is reported), and one whose condition has not answered yet. It stays due in the store and blocks no other job.

**Conditions** are evaluated concurrently, each once for all jobs that name it, so one that hangs delays only those. A
pass adds later due jobs to a running evaluation. Otherwise each pass would fire a thousand jobs, and find all others
again in the next.

**A clock that was set back** leaves jobs planned too far ahead. If the store's time is before the time of earlier
writes, all jobs are checked, and set back where needed, before anything else is fired.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from laneway.core.common.instants import SECOND
from laneway.core.jobs.fire_decision import Firing, decide, set_back
from laneway.core.jobs.record import JobRecord
from laneway.engine.common.threads import result_on_thread
from laneway.engine.jobs.environment import JobEnvironment
from laneway.errors import StoreError
from laneway.ports.clock import Clock
from laneway.ports.jobs import DueJobs, JobFilter, JobStore

log = logging.getLogger("laneway.ticker")
Decision = Callable[[JobRecord, int, str], Firing | None]
Decided = tuple[JobRecord, Firing]  # a job, and the decision about it

PAGE = 1000  # jobs that are fired in one call
TOGETHER = 10 * PAGE  # jobs that one answer of a condition decides
BEHIND = SECOND  # a store's clock that is further behind than this was set back
AT_ONCE = 50  # jobs that are decided on the loop; more would block it
LONG_AGO = 60 * SECOND  # a job that has been due for so long may have many slots, which take time to count


class FireResult(msgspec.Struct, frozen=True):
    """What is left after a firing: when the next job is due, and whether any due job was left aside.

    `fires_in` is counted from `asked_at`, in monotonic time.
    """

    fires_in: int | None
    asked_at: float
    aside: bool


class ConditionCheck(NamedTuple):
    """A running evaluation of a condition: when it began, and the jobs that were due then and wait for it."""

    now: int
    jobs: list[JobRecord]

    def takes(self, job: JobRecord) -> bool:
        """Tell whether the answer is for this job, too: it was due when the evaluation began."""
        return len(self.jobs) < TOGETHER and (job.state.fire_at or 0) <= self.now


class Firer:
    """Fires the jobs of a store. `answered` is called when jobs were fired after a condition's answer."""

    def __init__(
        self, store: JobStore, clock: Clock, environment: JobEnvironment, answered: Callable[[], None] = lambda: None
    ) -> None:
        self._store, self._clock, self._environment, self._answered = store, clock, environment, answered
        self._asking: dict[str, asyncio.Task[None]] = {}  # by condition
        self._bad: dict[str, tuple[str, str]] = {}  # by id: the name, and why it cannot be fired
        self._failed: StoreError | None = None  # raised by a firing after a condition's answer
        self.won = 0

    @property
    def bad(self) -> dict[str, str]:
        """The jobs that are due and cannot be fired, by name, with the reason; any thread may read it."""
        return dict(list(self._bad.values()))

    async def fire(self) -> FireResult:
        """Fire until nothing is due except what is left aside, without waiting for conditions."""
        while True:
            left = await self._pass()
            if left is not None:
                return left
            await asyncio.sleep(0)  # a store in memory lets nobody else run

    async def fire_all(self) -> int:
        """Fire until nothing is due except what is left aside, conditions included; return how many were won."""
        before = self.won
        await self.fire()
        while self._asking:
            await asyncio.wait(list(self._asking.values()))
            if self._failed is not None:
                raise self._failed
            await self.fire()
        return self.won - before

    def close(self) -> None:
        """Cancel the running conditions."""
        for task in self._asking.values():
            task.cancel()

    # Passes

    async def _pass(self) -> FireResult | None:
        """Go through all due jobs once; return what is left, or None if something was written: then look again."""
        after, wrote, seen, asked = (0, ""), False, set[str](), dict[str, ConditionCheck]()
        while True:
            asked_at = self._clock.monotonic()
            page = await self._store.due_jobs(limit=PAGE, after=after)
            if page.behind > BEHIND:
                await self._set_back(page.now)
                return None
            seen.update([job.id for job in page.jobs])
            decided = await self._decided(self._plain(page, asked), decide, page.now)
            wrote = await self._write(decided) or wrote
            if len(page.jobs) < PAGE:
                break
            after = (page.jobs[-1].state.fire_at or 0, page.jobs[-1].id)
        for job_id in self._bad.keys() - seen:
            del self._bad[job_id]
        if wrote:
            return None
        return FireResult(None if page.next_at is None else page.next_at - page.now, asked_at, bool(seen))

    def _plain(self, page: DueJobs, asked: dict[str, ConditionCheck]) -> list[JobRecord]:
        """Return the jobs that can be decided now; start the conditions of the others, or add them to a running one."""
        plain, asking, fires = [], self._asking, self._environment.fires
        for job in page.jobs:
            if not fires(job.spec):
                continue
            condition = job.spec.enabled_when
            if condition is None:
                plain.append(job)
            elif condition not in asking:
                check = asked[condition] = ConditionCheck(page.now, [job])
                asking[condition] = asyncio.create_task(self._evaluate(condition, check))
            elif (known := asked.get(condition)) is not None and known.takes(job):
                known.jobs.append(job)
        return plain

    async def _evaluate(self, condition: str, check: ConditionCheck) -> None:
        now, jobs = check
        wrote, first = False, 0
        try:
            verdict = await self._environment.verdict(jobs[0].spec)
            while some := jobs[first : first + PAGE]:
                first += len(some)  # Race: the pass may add to the list meanwhile
                decided = await self._decided(some, partial(decide, verdict=verdict), now)
                wrote = await self._write(decided) or wrote
            self._failed = None
        except StoreError as error:
            log.warning("cannot fire jobs that %r decides about: %s; trying again", condition, error)
            wrote, self._failed = False, error
        finally:
            del self._asking[condition]
        if wrote:
            self._answered()

    # Deciding

    async def _decided(self, jobs: Sequence[JobRecord], decision: Decision, now: int) -> list[Decided]:
        """Decide about these jobs; report and leave out those that cannot be decided."""
        long = len(jobs) > AT_ONCE or any(now - (job.state.next_at or now) > LONG_AGO for job in jobs)
        work = partial(_decided, jobs, self._zones(jobs), decision, now)
        decided, bad = await result_on_thread("laneway-ticker", work) if long else work()
        for job, error in bad:
            self._complain(job, error)
        return decided

    def _zones(self, jobs: Sequence[JobRecord]) -> dict[str | None, str]:
        """Return the time zones of these jobs, by owner."""
        specs = {job.spec.owner: job.spec for job in jobs}
        return {owner: self._environment.zone(spec) for owner, spec in specs.items()}

    def _complain(self, job: JobRecord, error: Exception) -> None:
        said = (job.spec.name, f"{type(error).__name__}: {error}")
        if self._bad.get(job.id) != said:
            self._bad[job.id] = said
            log.error("job %s (%s) cannot be fired, and is left aside: %s", job.spec.name, job.id, said[1])

    # Writing

    async def _write(self, decided: Sequence[Decided]) -> bool:
        """Write the decisions; tell whether any was written, won or lost. One that cannot be written is reported."""
        if not decided:
            return False
        try:
            fired = await self._store.fire([firing for _, firing in decided])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001  # one bad job must not keep the others from firing
            if len(decided) > 1:
                return any([await self._write([one]) for one in decided])
            self._complain(decided[0][0], error)
            return False
        self.won += sum([one.won for one in fired])
        for job, _ in decided if self._bad else ():
            self._bad.pop(job.id, None)
        return True

    async def _set_back(self, now: int) -> None:
        """Set back jobs that are planned too far ahead, and accept the store's time as it is."""
        log.warning("the clock was set back; jobs are planned anew")
        after = ("", "")
        while jobs := await self._store.jobs(JobFilter(on=True), limit=PAGE, after=after):
            decided = await self._decided(jobs, set_back, now)
            # A job that has changed meanwhile must not be skipped, so the page is read again until nothing is left in
            # it.
            if not await self._write(decided):
                after = (jobs[-1].spec.name, jobs[-1].id)
        await self._store.restart_time()


def _decided(
    jobs: Sequence[JobRecord], zones: Mapping[str | None, str], decision: Decision, now: int
) -> tuple[list[Decided], list[tuple[JobRecord, Exception]]]:
    decided, bad = list[Decided](), list[tuple[JobRecord, Exception]]()
    for job in jobs:
        try:
            firing = decision(job, now, zones[job.spec.owner])
        except Exception as error:  # noqa: BLE001  # one bad job must not keep the others from firing
            bad.append((job, error))
        else:
            if firing is not None:
                decided.append((job, firing))
    return decided, bad
