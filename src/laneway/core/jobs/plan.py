"""When a job fires next: after its creation, and after each change of it."""

from __future__ import annotations

import msgspec

from laneway.core.common.instants import instant, micros
from laneway.core.jobs.record import Halt, JobRecord, JobSpec, JobState
from laneway.core.schedules import Every, Schedule
from laneway.errors import BadSetting


def created(job_id: str, spec: JobSpec, now: int, zone: str, call: str = "") -> JobRecord:
    """Return a new job. Raises BadSetting if it would never fire."""
    record = JobRecord(id=job_id, spec=spec, state=JobState(), created_at=now, changed_at=now, call=call)
    _must_fire(record, now, zone)
    return planned(record, now, zone, at_once=spec.run_on_start)


def planned(record: JobRecord, after: int, zone: str, *, at_once: bool = False) -> JobRecord:
    """Return the job with its first fire later than `after`, or `at_once`; without one if it is off."""
    if not record.is_on:
        return changed(record, next_at=None, fire_at=None, zone=zone)
    return with_next(record, after if at_once else next_of(record.spec.rule, after, zone), zone)


def patched(record: JobRecord, spec: JobSpec, now: int, zone: str) -> JobRecord:
    """Return the job with a new spec. Another schedule counts from now on: missed fires get no runs.

    Raises BadSetting if it would never fire again.
    """
    before, was_on = record.spec, record.is_on
    record = msgspec.structs.replace(record, spec=spec, changed_at=now)
    if spec.enabled_when != before.enabled_when:
        record = changed(record, verdict=None)  # it was another condition's
    if spec.schedule != before.schedule:
        if record.state.halted not in (None, Halt.BREAKER):
            record = changed(record, halted=None)
        _must_fire(record, now, zone)
        return planned(record, now, zone)
    if record.is_on and not was_on:
        _must_fire(record, now, zone)
    return planned(record, now, zone) if record.is_on is not was_on else record


def switched(record: JobRecord, now: int, zone: str, *, on: bool) -> JobRecord:
    """Return the job after an operator enabled or disabled it. Raises BadSetting if it has no fire left.

    Enabling a job that is on changes nothing. One that was off begins anew: missed fires get no runs, failures are
    reset.
    """
    if not on:
        return planned(changed(record, switch=False), now, zone)
    if record.is_on:
        return changed(record, switch=True)
    fresh = changed(
        record, switch=True, halted=None, failures=0, held_until=None, held_by=None, probe=None, verdict=None
    )
    _must_fire(fresh, now, zone)
    return planned(fresh, now, zone)


def next_of(rule: Schedule, after: int, zone: str) -> int | None:
    """Return the first nominal time later than `after`."""
    return rule.following(after, zone)


def awaits_end(rule: Schedule) -> bool:
    """Tell whether the next fire is counted from the end of the run before."""
    return isinstance(rule, Every) and rule.after == "end"


def spread(record: JobRecord, nominal: int) -> int:
    """Return when the fire of that nominal time is due: later by its jitter, but before the next one."""
    rule = record.spec.rule
    if isinstance(rule, Every) and not rule.jitter:
        return nominal
    at = micros(rule.spread(instant(nominal), record.id))
    following = None if at == nominal else next_of(rule, nominal, record.state.zone)
    # In a schedule of several rules, another one may fire before this one's jitter is over. Both must keep their place.
    return at if following is None else min(at, following - 1)


def with_next(record: JobRecord, next_at: int | None, zone: str) -> JobRecord:
    """Return the job with this next nominal time: due then, or when it is not held back any more."""
    fire_at = None
    if next_at is not None:
        fire_at = max(spread(record, next_at), record.state.held_until or 0)
    return changed(record, next_at=next_at, fire_at=fire_at, zone=zone)


def changed(record: JobRecord, **changes: object) -> JobRecord:
    """Return the job with these fields of its state changed."""
    return msgspec.structs.replace(record, state=msgspec.structs.replace(record.state, **changes))


def _must_fire(record: JobRecord, now: int, zone: str) -> None:
    if next_of(record.spec.rule, now, zone) is None:
        raise BadSetting(f"job {record.spec.name!r} would never fire: {record.spec.rule.describe()} has passed")
