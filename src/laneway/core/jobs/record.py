"""Jobs: durable, named links that say *this schedule starts that task with these arguments*.

A stored job has two parts. Its `JobSpec` is what somebody said: it changes only when somebody says something else. Its
`JobState` is what became of it: when it fires next, what its last run came to, why it is halted. The modules beside
this one say how the one moves the other; here is what they are.

**A fire's identity** is the job and its nominal time. `next_at` is that time; `fire_at` is when it is really due, later
by jitter or because the job is held back after failures.
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
OUTPUT_LIMIT = 16 * 1024  # of what is shown of a fire's result, in bytes
CRON = "cron"  # the lane of fires whose job and task name none


class Misfire(StrEnum):
    """What becomes of fires that were missed, because nobody was there or the clock jumped."""

    SKIP = "skip"  # none is made up for
    ONCE = "once"  # the newest is, unless it is older than `max_staleness`
    ALL = "all"  # the newest 100 are, one after the other


class Source(StrEnum):
    """Who says what a job is."""

    CALL = "call"  # somebody who called `app.jobs`
    CODE = "code"  # `schedule=` on a task, or `app.jobs.declare`
    FILE = "file"  # laneway.toml


class Halt(StrEnum):
    """Why a job fires no more, though nobody has disabled it."""

    BREAKER = "breaker"  # too many failures in a row
    DONE = "done"  # it has no fire left
    FAILED = "failed"  # it has no fire left, and its last run failed
    MISSED = "missed"  # it has no fire left, and missed its last one
    CANCELLED = "cancelled"  # it has no fire left, and its last run was cancelled or dropped
    SKIPPED = "skipped"  # it has no fire left, and its last one was skipped


class Verdict(StrEnum):
    """What `enabled_when` says, other than yes."""

    GATED = "gated"
    GATING_ERROR = "gating_error"  # it raised


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What somebody said of a job, checked. Durations are microseconds, `args` and `schedule` JSON text."""

    name: str
    task: str
    schedule: str  # as `core.schedules.form` writes it
    args: str = "{}"
    lane: str = CRON
    user: str | None = None
    session: str | None = None  # None: one of its own
    priority: int = 0
    owner: str | None = None
    description: str = ""
    enabled: bool = True
    misfire: Misfire = Misfire.ONCE
    max_staleness: int = STALE_AFTER  # 0: nothing is too old
    overlap: Overlap = Overlap.SKIP
    delete_after_run: bool = False  # once a run of it has succeeded
    run_on_start: bool = False  # fire at once when it is made, too
    timeout: int | None = None  # instead of the task's
    retry: Retry | None = None  # instead of the task's
    breaker: Breaker | None = None
    backoff: int = 0  # how long it is held back after a failure, doubled with each in a row; 0: not at all
    backoff_cap: int = 0  # 0: none
    alert_after: int = 3  # failures in a row that are put on record; 0: never
    enabled_when: str | None = None  # the name of a condition
    source: Source = Source.CALL
    origin: str = ""  # of a job from a file: which
    declared: str = ""  # of one that is declared: a digest of the declaration

    @property
    def rule(self) -> Schedule:
        """Its schedule."""
        return rule_of(self.schedule)

    @property
    def runs_as(self) -> str | None:
        """The user of its runs."""
        return self.owner if self.user is None else self.user


@lru_cache(maxsize=2**17)  # reading one costs as much as the rest of a fire
def rule_of(text: str) -> Schedule:
    """Return the schedule that is stored as this text."""
    return from_dict(codec.from_json(text))


class JobState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of a job so far."""

    switch: bool | None = None  # what an operator said: enabled, disabled, nothing
    halted: Halt | None = None
    next_at: int | None = None
    fire_at: int | None = None
    zone: str = "UTC"  # that `next_at` was found in, if the schedule names none
    held_until: int | None = None  # it is held back after failures
    held_by: str | None = None  # backoff, breaker_open
    probe: str | None = None  # the run that is tried while the breaker is half open
    verdict: Verdict | None = None  # of the last fire's `enabled_when`
    last_at: int | None = None  # the nominal time of the newest fire that made a run
    last_run: str | None = None
    last_state: RunState | None = None
    last_error: str | None = None
    failures: int = 0  # in a row
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    records: int = 0  # how many records of fires were ever written


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as a store keeps it. Who changes it names the `version` that the change was made of."""

    id: str
    spec: JobSpec
    state: JobState
    created_at: int
    changed_at: int  # of the spec
    version: int = 1
    call: str = ""  # the newest call from outside that changed it

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
    """What a record of a job tells."""

    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"
    CLOCK_STEPPED = "clock_stepped"
    FAILING = "failing"  # so many of its runs in a row have failed


class FireRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of a fire, or of a stretch of them from `first` to `last`. `nth` counts a job's records from 1.

    Of a clock that was set back, `first` and `last` are the new and the old next fire. Of a job that is failing,
    `count` says how often in a row it has, and `reason` the last error.
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
    """Return the policy for a run: its task's, but for what its job says otherwise."""
    job = None if ties is None else ties.job
    if job is None or (job.timeout is None and job.retry is None):
        return policy
    return msgspec.structs.replace(
        policy,
        timeout=policy.timeout if job.timeout is None else job.timeout,
        retry=policy.retry if job.retry is None else job.retry,
    )
