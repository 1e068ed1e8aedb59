"""Jobs: durable, named links that say *this schedule starts that task with these arguments*.

A stored job has two parts. Its `JobSpec` is its definition: it changes only when somebody changes the job. Its
`JobState` is what happened to it: when it fires next, how its last run ended, why it is halted. The other modules here
decide how it changes. This one holds the records.

**A fire is identified** by its job and its nominal time. `next_at` is the nominal time. `fire_at` is when the fire is
due: later by jitter, or because the job is held back after failures.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import msgspec

from laneway.core.common.instants import SECOND
from laneway.core.records import codec
from laneway.core.records.breakers import Breaker
from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import RunLinks
from laneway.core.records.states import RunState
from laneway.core.schedules import Schedule
from laneway.core.schedules.form import from_dict

STALE_AFTER = 3600 * SECOND
FIRES_KEPT = 1000  # records of fires, per job
OUTPUT_LIMIT = 16 * 1024  # bytes shown of a fire's result
CRON = "cron"  # the lane of a job's runs if neither job nor task names one


class Misfire(StrEnum):
    """What happens to fires that were missed, because no worker was up or the clock jumped."""

    SKIP = "skip"  # none gets a run
    ONCE = "once"  # the newest gets a run, unless it is older than `max_staleness`
    ALL = "all"  # the newest 100 get runs, one after the other


class Source(StrEnum):
    """Where a job is defined."""

    CALL = "call"  # by a call of `app.jobs`
    CODE = "code"  # `schedule=` on a task, or `app.jobs.declare`
    FILE = "file"  # laneway.toml


class Halt(StrEnum):
    """Why a job does not fire any more, though nobody has disabled it."""

    BREAKER = "breaker"  # too many failures in a row
    DONE = "done"  # it has no fire left
    FAILED = "failed"  # it has no fire left, and its last run failed
    MISSED = "missed"  # it has no fire left, and missed its last one
    CANCELLED = "cancelled"  # it has no fire left, and its last run was cancelled or dropped
    SKIPPED = "skipped"  # it has no fire left, and its last one was skipped


class Verdict(StrEnum):
    """The answer of `enabled_when`, other than yes."""

    GATED = "gated"
    GATING_ERROR = "gating_error"  # it raised


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A job's definition, checked. Durations are microseconds; `args` and `schedule` are JSON text."""

    name: str
    task: str
    schedule: str  # in the form of `core.schedules.form`
    args: str = "{}"
    lane: str = CRON
    user: str | None = None
    session: str | None = None  # None: a session of its own
    priority: int = 0
    owner: str | None = None
    description: str = ""
    enabled: bool = True
    misfire: Misfire = Misfire.ONCE
    max_staleness: int = STALE_AFTER  # 0: no fire is too old
    overlap: Overlap = Overlap.SKIP
    delete_after_run: bool = False  # after a run of it has succeeded
    run_on_start: bool = False  # fire when it is created, too
    timeout: int | None = None  # instead of the task's
    retry: Retry | None = None  # instead of the task's
    breaker: Breaker | None = None
    backoff: int = 0  # how long a failure holds it back, doubled with each in a row; 0: not at all
    backoff_cap: int = 0  # 0: no cap
    alert_after: int = 3  # after so many failures in a row, record it; 0: never
    enabled_when: str | None = None  # the name of a condition
    source: Source = Source.CALL
    origin: str = ""  # of a job from a file: the file
    declared: str = ""  # of a declared job: a digest of the declaration

    @property
    def rule(self) -> Schedule:
        """Its schedule."""
        return rule_of(self.schedule)

    @property
    def runs_as(self) -> str | None:
        """The user of its runs."""
        return self.owner if self.user is None else self.user


@lru_cache(maxsize=2**17)  # parsing costs as much as the rest of a fire
def rule_of(text: str) -> Schedule:
    """Return the schedule that is stored as this text."""
    return from_dict(codec.from_json(text))


class JobState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What happened to a job so far."""

    switch: bool | None = None  # set by an operator: enabled, disabled, or nothing
    halted: Halt | None = None
    next_at: int | None = None
    fire_at: int | None = None
    zone: str = "UTC"  # in which `next_at` was computed, if the schedule names no zone
    held_until: int | None = None  # held back until then after failures
    held_by: str | None = None  # backoff, breaker_open
    probe: str | None = None  # the run that is tried while its breaker is half open
    verdict: Verdict | None = None  # the last answer of `enabled_when`
    last_at: int | None = None  # the nominal time of the newest fire that made a run
    last_run: str | None = None
    last_state: RunState | None = None
    last_error: str | None = None
    failures: int = 0  # in a row
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    records: int = 0  # how many records were ever written


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as a store keeps it. A change names the `version` that it was made from."""

    id: str
    spec: JobSpec
    state: JobState
    created_at: int
    changed_at: int  # when the spec changed
    version: int = 1
    call: str = ""  # the id of the newest call that changed it

    @property
    def is_on(self) -> bool:
        """Whether it fires."""
        switch = self.state.switch
        return self.state.halted is None and (self.spec.enabled if switch is None else switch)

    @property
    def session(self) -> str:
        """The session of its runs."""
        return self.spec.session or f"job:{self.id}"


class FireKind(StrEnum):
    """What a record of a job is about."""

    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"
    CLOCK_STEPPED = "clock_stepped"
    FAILING = "failing"  # many of its runs in a row have failed


class FireRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A fire, or a stretch of fires from `first` to `last`. `nth` counts a job's records from 1.

    When the clock was set back, `first` and `last` are the new and the old next fire. When a job is failing, `count` is
    how many runs in a row have failed, and `reason` is the last error.
    """

    kind: FireKind
    first: int
    last: int
    count: int = 1
    more: bool = False  # there were more than were counted
    reason: str | None = None
    run_id: str | None = None
    at: int = 0  # when it was written
    nth: int = 0


def terms(policy: TaskPolicy, ties: RunLinks | None) -> TaskPolicy:
    """Return the policy for a run: its task's, with the values that its job sets."""
    job = None if ties is None else ties.job
    if job is None or (job.timeout is None and job.retry is None):
        return policy
    return msgspec.structs.replace(
        policy,
        timeout=policy.timeout if job.timeout is None else job.timeout,
        retry=policy.retry if job.retry is None else job.retry,
    )
