"""What must hold of jobs that nobody fires any more: their nominal times, records of fires and runs.

- one fire each: no nominal time has two runs or two records;
- none in silence: from a job's first nominal time to the one it would fire next, each is on record as fired, skipped or
  missed, and as fired exactly if it has a run;
- jobs keep to their overlap rule by the store's own times: what is accepted was not accepted too early;
- what a job counts is what its records say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from laneway import Run
from laneway.core.common.instants import MICRO, instant
from laneway.core.jobs.plan import awaits_end
from laneway.core.jobs.record import FireKind, FireRecord, JobRecord
from laneway.core.records.job_tie import Overlap
from laneway.core.schedules import Every
from laneway.ports.store import Store
from tests.support.invariants import all_runs
from tests.support.jobs import all_fires, all_jobs
from tests.system.oracle.grouped import grouped

STRETCHES = (FireKind.SKIPPED, FireKind.MISSED)


@dataclass(frozen=True)
class JobFires:
    """A job of a period, its records that are kept, oldest first, and its runs by nominal time."""

    job: JobRecord
    records: Sequence[FireRecord]
    runs: Sequence[Run]

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.spec.name

    @property
    def rule(self) -> Every:
        """The job's schedule."""
        rule = self.job.spec.rule
        assert isinstance(rule, Every)
        return rule

    @property
    def period(self) -> int:
        """The time between two of its nominal times."""
        assert isinstance(self.rule.period, timedelta)
        return self.rule.period // MICRO

    @property
    def whole(self) -> bool:
        """Whether no record has been deleted."""
        return not self.records or self.records[0].nth == 1


async def read_jobs(store: Store) -> list[JobFires]:
    """Read the jobs of a store, their records and their runs."""
    jobs = await all_jobs(store)
    runs = await all_runs(store) if jobs else []
    by_job = grouped((run for run in runs if run.job is not None), lambda run: run.job and run.job.id)
    return [JobFires(job, await all_fires(store, job.id), sorted(by_job.get(job.id, []), key=nominal)) for job in jobs]


async def runs_of(store: Store, job_id: str) -> list[Run]:
    """Return the runs of a job, also of one that is gone."""
    return [run for run in await all_runs(store) if run.job is not None and run.job.id == job_id]


def nominal(run: Run) -> int:
    """Return the nominal time of a run."""
    assert run.job is not None
    return run.job.at


def wrong(jobs: Sequence[JobFires]) -> list[str]:
    """Return what is wrong with these jobs."""
    return [f"job {job.name}: {line}" for job in jobs for rule in RULES for line in rule(job)]


def count(jobs: Sequence[JobFires]) -> Counter[FireKind]:
    """Return how many fires there were of each kind."""
    kinds: Counter[FireKind] = Counter()
    for job in jobs:
        for record in job.records:
            kinds[record.kind] += record.count
    return kinds


def fired_twice(job: JobFires) -> Iterator[str]:
    """Yield each nominal time that made more than one run."""
    for at, times in Counter(map(nominal, job.runs)).items():
        if times > 1:
            yield f"{times} runs for the nominal time {at}"
    for run_id, times in Counter(record.run_id for record in job.records if record.run_id).items():
        if times > 1:
            yield f"{times} records of run {run_id}"


def passed_in_silence(job: JobFires) -> Iterator[str]:
    """Yield nominal times without a record, records that overlap, and records that do not add up."""
    if awaits_end(job.rule) or not job.records:
        return
    expected = job.job.created_at + job.period if job.whole else job.records[0].first
    for record in sorted(job.records, key=lambda record: record.first):
        if record.first != expected:
            what = "has no record" if record.first > expected else "is on record twice"
            yield f"{expected} {what}: {record}"
        if record.last - record.first != (record.count - 1) * job.period or (
            record.count > 1 and record.kind not in STRETCHES
        ):
            yield f"a record that does not add up: {record}"
        expected = record.last + job.period
    if job.job.state.next_at not in (None, expected):
        yield f"{expected} has no record, and {job.job.state.next_at} would be fired next"


def recorded_differently(job: JobFires) -> Iterator[str]:
    """Yield runs without a record, and records without a run."""
    recorded = {record.run_id: record.first for record in job.records if record.kind is FireKind.FIRED}
    since = min((record.first for record in job.records), default=0)
    made = {run.id: nominal(run) for run in job.runs if job.whole or nominal(run) >= since}
    if made != recorded:
        yield f"runs without a record: {made.items() - recorded.items()}"
        yield f"records without a run: {recorded.items() - made.items()}"


def overlapped(job: JobFires) -> Iterator[str]:
    """Yield runs that were accepted or started before the overlap rule allowed it."""
    runs, overlap = sorted(job.runs, key=lambda run: run.number), job.job.spec.overlap
    # By `queue` at most one run waits: so an accepted run finds the last but one ended.
    apart = {Overlap.SKIP: 1, Overlap.QUEUE: 2}.get(overlap)
    if apart is not None:
        for before, after in zip(runs, runs[apart:], strict=False):
            if _is_live(after) and not _has_ended(before, after.accepted_at):
                yield f"{after.id} was accepted {after.accepted_at}, {before.id} ended {before.ended_at}"
    if overlap is not Overlap.ALLOW:
        for before, after in pairwise(runs):
            if after.started_at is not None and not _has_ended(before, after.started_at):
                yield f"{after.id} was started {after.started_at}, {before.id} ended {before.ended_at}"


def fired_too_soon(job: JobFires) -> Iterator[str]:
    """Yield fires of a job that waits for ends, less than a period after the end of the run before."""
    for before, after in pairwise(job.runs) if awaits_end(job.rule) else ():
        if not _has_ended(before, instant(nominal(after) - job.period)):
            yield f"{after.id} was fired {nominal(after)}, {before.id} ended {before.ended_at}"


def _has_ended(run: Run, by: datetime) -> bool:
    return run.ended_at is not None and run.ended_at <= by


def _is_live(run: Run) -> bool:
    """Tell whether the overlap rule applied to the run: a missed fire only waits its turn."""
    return run.job is not None and run.job.overlap is not None


def miscounted(job: JobFires) -> Iterator[str]:
    """Yield counts of a job that differ from its records."""
    if not job.whole:
        return
    kinds, state = count([job]), job.job.state
    for kind, counted in zip((FireKind.FIRED, *STRETCHES), (state.fired, state.skipped, state.missed), strict=True):
        if kinds[kind] != counted:
            yield f"{counted} counted as {kind.value}, {kinds[kind]} on record"


RULES: Sequence[Callable[[JobFires], Iterator[str]]] = (
    fired_twice,
    passed_in_silence,
    recorded_differently,
    overlapped,
    fired_too_soon,
    miscounted,
)
