"""Firing what is due: reads it from the store, lets the core decide, and writes what was decided, in large batches.

**Several at once.** Every process fires what it finds. A firing names the version of the job that it was decided on, so
the store takes one of them; whoever comes second has lost nothing, and looks again.

**Left aside** is what this process cannot fire now: a job that only another one knows, one that cannot be decided about
(it is reported), one whose condition has not answered yet. It stays due in the store, and holds nobody up.

**Conditions** are asked beside everything else, each once for all jobs that name it, so that one that hangs makes only
those late. A pass adds to a question what it finds due later on; else a thousand jobs would be fired in each pass, and
all the others found again in the next one.

**A clock that was set back** leaves jobs planned too far ahead. When the store's time is behind what was written, all
jobs are gone through, and set back where that is so, before anything else is fired.
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
Deed = tuple[JobRecord, Firing]  # a job, and what was decided about it

PAGE = 1000  # jobs that are fired in one call
TOGETHER = 10 * PAGE  # jobs that one answer of a condition decides about
BEHIND = SECOND  # a store whose time is further behind than this was set back
AT_ONCE = 50  # jobs that are decided on the loop; more would hold it up
LONG_AGO = 60 * SECOND  # what has been due for so long may have many slots, which take time to count


class FireResult(msgspec.Struct, frozen=True):
    """What is left once everything was fired that could be: in how long the next is due, and whether any is aside.

    `fires_in` is counted from `asked_at`, in monotonic time.
    """

    fires_in: int | None
    asked_at: float
    aside: bool


class ConditionCheck(NamedTuple):
    """What a condition was asked at this time, and the jobs that were due then and wait for the answer."""

    now: int
    jobs: list[JobRecord]

    def takes(self, job: JobRecord) -> bool:
        """Tell whether the answer may be for this job, too: it was due when the condition was asked."""
        return len(self.jobs) < TOGETHER and (job.state.fire_at or 0) <= self.now


class Firer:
    """Fires the jobs of a store. `answered` is called when jobs were fired because of what a condition said."""

    def __init__(
        self, store: JobStore, clock: Clock, environment: JobEnvironment, answered: Callable[[], None] = lambda: None
    ) -> None:
        self._store, self._clock, self._environment, self._answered = store, clock, environment, answered
        self._asking: dict[str, asyncio.Task[None]] = {}  # by condition
        self._bad: dict[str, tuple[str, str]] = {}  # by id: name, and why it cannot be fired
        self._failed: StoreError | None = None  # while it fired what conditions decided about
        self.won = 0

    @property
    def bad(self) -> dict[str, str]:
        """The jobs that are due and cannot be fired, by name, and why; may be asked from any thread."""
        return dict(list(self._bad.values()))

    async def fire(self) -> FireResult:
        """Fire until nothing is due but what is left aside, without waiting for conditions."""
        while True:
            left = await self._pass()
            if left is not None:
                return left
            await asyncio.sleep(0)  # a store in memory lets nobody else have a turn

    async def fire_all(self) -> int:
        """Fire until nothing is due but what is left aside, what conditions say included; return how many were won."""
        before = self.won
        await self.fire()
        while self._asking:
            await asyncio.wait(list(self._asking.values()))
            if self._failed is not None:
                raise self._failed
            await self.fire()
        return self.won - before

    def close(self) -> None:
        """Wait for no condition any more."""
        for task in self._asking.values():
            task.cancel()

    # Passes

    async def _pass(self) -> FireResult | None:
        """Go through all that is due, once; return what is left, None if something was written: then look again."""
        after, wrote, seen, asked = (0, ""), False, set[str](), dict[str, ConditionCheck]()
        while True:
            asked_at = self._clock.monotonic()
            page = await self._store.due_jobs(limit=PAGE, after=after)
            if page.behind > BEHIND:
                await self._set_back(page.now)
                return None
            seen.update([job.id for job in page.jobs])
            deeds = await self._decided(self._plain(page, asked), decide, page.now)
            wrote = await self._write(deeds) or wrote
            if len(page.jobs) < PAGE:
                break
            after = (page.jobs[-1].state.fire_at or 0, page.jobs[-1].id)
        for job_id in self._bad.keys() - seen:
            del self._bad[job_id]
        if wrote:
            return None
        return FireResult(None if page.next_at is None else page.next_at - page.now, asked_at, bool(seen))

    def _plain(self, page: DueJobs, asked: dict[str, ConditionCheck]) -> list[JobRecord]:
        """Return those that can be decided at once; ask the conditions of the others, or add to what was `asked`."""
        plain, asking, fires = [], self._asking, self._environment.fires
        for job in page.jobs:
            if not fires(job.spec):
                continue
            condition = job.spec.enabled_when
            if condition is None:
                plain.append(job)
            elif condition not in asking:
                question = asked[condition] = ConditionCheck(page.now, [job])
                asking[condition] = asyncio.create_task(self._ask(condition, question))
            elif (known := asked.get(condition)) is not None and known.takes(job):
                known.jobs.append(job)
        return plain

    async def _ask(self, condition: str, question: ConditionCheck) -> None:
        now, jobs = question
        wrote, first = False, 0
        try:
            verdict = await self._environment.verdict(jobs[0].spec)
            while some := jobs[first : first + PAGE]:
                first += len(some)  # Race: the pass may add to them meanwhile
                deeds = await self._decided(some, partial(decide, verdict=verdict), now)
                wrote = await self._write(deeds) or wrote
            self._failed = None
        except StoreError as error:
            log.warning("cannot fire jobs that %r decides about: %s; trying again", condition, error)
            wrote, self._failed = False, error
        finally:
            del self._asking[condition]
        if wrote:
            self._answered()

    # Deciding

    async def _decided(self, jobs: Sequence[JobRecord], decision: Decision, now: int) -> list[Deed]:
        """Decide about these jobs; report those that cannot be decided about, and leave them out."""
        long = len(jobs) > AT_ONCE or any(now - (job.state.next_at or now) > LONG_AGO for job in jobs)
        work = partial(_decided, jobs, self._zones(jobs), decision, now)
        deeds, bad = await result_on_thread("laneway-ticker", work) if long else work()
        for job, error in bad:
            self._complain(job, error)
        return deeds

    def _zones(self, jobs: Sequence[JobRecord]) -> dict[str | None, str]:
        """Return the zones that these jobs are in, by owner."""
        specs = {job.spec.owner: job.spec for job in jobs}
        return {owner: self._environment.zone(spec) for owner, spec in specs.items()}

    def _complain(self, job: JobRecord, error: Exception) -> None:
        said = (job.spec.name, f"{type(error).__name__}: {error}")
        if self._bad.get(job.id) != said:
            self._bad[job.id] = said
            log.error("job %s (%s) cannot be fired, and is left aside: %s", job.spec.name, job.id, said[1])

    # Writing

    async def _write(self, deeds: Sequence[Deed]) -> bool:
        """Write what was decided; tell whether anything was, won or lost. One that cannot be written is reported."""
        if not deeds:
            return False
        try:
            fired = await self._store.fire([firing for _, firing in deeds])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001  # one bad job must not keep the others from firing
            if len(deeds) > 1:
                return any([await self._write([deed]) for deed in deeds])
            self._complain(deeds[0][0], error)
            return False
        self.won += sum([one.won for one in fired])
        for job, _ in deeds if self._bad else ():
            self._bad.pop(job.id, None)
        return True

    async def _set_back(self, now: int) -> None:
        """Set back what is planned too far ahead, and take the store's time as it is."""
        log.warning("the clock was set back; jobs are planned anew")
        after = ("", "")
        while jobs := await self._store.jobs(JobFilter(on=True), limit=PAGE, after=after):
            deeds = await self._decided(jobs, set_back, now)
            # A job that has changed meanwhile must not be passed by, so the page is looked at until nothing is left.
            if not await self._write(deeds):
                after = (jobs[-1].spec.name, jobs[-1].id)
        await self._store.restart_time()


def _decided(
    jobs: Sequence[JobRecord], zones: Mapping[str | None, str], decision: Decision, now: int
) -> tuple[list[Deed], list[tuple[JobRecord, Exception]]]:
    deeds, bad = list[Deed](), list[tuple[JobRecord, Exception]]()
    for job in jobs:
        try:
            firing = decision(job, now, zones[job.spec.owner])
        except Exception as error:  # noqa: BLE001  # one bad job must not keep the others from firing
            bad.append((job, error))
        else:
            if firing is not None:
                deeds.append((job, firing))
    return deeds, bad
