"""A job as people see it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from laneway.core.common.instants import instant
from laneway.core.jobs.record import JobRecord, JobSpec, Source
from laneway.core.records import codec
from laneway.core.records.states import RunState
from laneway.core.schedules import Schedule
from laneway.errors import LanewayError

UNREADABLE = "unreadable"  # the reason of a job whose schedule this process cannot read


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was when it was read.

    `enabled` says whether it fires. `reason` says why it does not: disabled, breaker, done, failed, missed, cancelled,
    skipped. For an enabled job it is what its condition said last: gated, gating_error; or `unreadable` if this process
    cannot read its schedule, and then `schedule` says why. `failures` counts failures in a row. `held_until` is until
    when it is held back because of them, and `held_by` says whether by backoff or by its breaker. `orphaned`: the job
    is declared in code, and no live worker declares it, so nobody fires it.
    """

    id: str
    name: str
    task: str
    schedule: Schedule
    args: dict[str, Any]
    zone: str
    enabled: bool
    reason: str | None
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    last_run_id: str | None
    last_state: RunState | None
    last_error: str | None
    failures: int
    held_until: datetime | None
    held_by: str | None
    fired: int
    skipped: int
    missed: int
    created_at: datetime
    changed_at: datetime
    spec: JobSpec
    orphaned: bool = False

    @property
    def owner(self) -> str | None:
        """The user it belongs to."""
        return self.spec.owner

    @property
    def source(self) -> Source:
        """Where it is defined: by a call, in code or in a file."""
        return self.spec.source

    @classmethod
    def of(cls, record: JobRecord, *, orphaned: bool = False) -> Job:
        """Return a stored job as people see it."""
        spec, state = record.spec, record.state
        verdict = None if state.verdict is None else state.verdict.value
        reason = state.halted.value if state.halted is not None else verdict if record.is_on else "disabled"
        try:
            rule = spec.rule
        except LanewayError as error:  # an unreadable job must not hide the others
            rule = Unreadable(spec.schedule, str(error))
            reason = UNREADABLE if record.is_on else reason
        return cls(
            id=record.id,
            name=spec.name,
            task=spec.task,
            schedule=rule,
            args=codec.from_json(spec.args),
            zone=rule.tz or state.zone,
            enabled=record.is_on,
            reason=reason,
            next_fire_at=_instant(state.fire_at),
            last_fire_at=_instant(state.last_at),
            last_run_id=state.last_run,
            last_state=state.last_state,
            last_error=state.last_error,
            failures=state.failures,
            held_until=_instant(state.held_until),
            held_by=state.held_by,
            fired=state.fired,
            skipped=state.skipped,
            missed=state.missed,
            created_at=instant(record.created_at),
            changed_at=instant(record.changed_at),
            spec=spec,
            orphaned=orphaned,
        )


def _instant(at: int | None) -> datetime | None:
    return None if at is None else instant(at)


class Unreadable(Schedule):
    """A schedule that this process cannot read: its time zone is gone, or a newer laneway wrote it."""

    __slots__ = ("_text", "_why", "tz")

    def __init__(self, text: str, why: str) -> None:
        self._text, self._why, self.tz = text, why, None

    def next_after(self, instant: datetime, tz: str | None = None) -> datetime | None:
        """Return None: it is not known."""
        return None

    def describe(self) -> str:
        """Return why it cannot be read."""
        return f"cannot be read: {self._why}"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as it is stored."""
        plain: dict[str, Any] = codec.from_json(self._text)
        return plain
