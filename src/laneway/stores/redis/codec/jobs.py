"""Encoding and decoding jobs, firings and fire records: arrays with False for None.

The fields have the order of STATE and FACTS in lua/state/job_records.lua. A job's spec is JSON text that no script
reads; the facts that rules in Lua need stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from laneway.core.common.instants import duration
from laneway.core.jobs.fire_decision import Firing
from laneway.core.jobs.plan import awaits_end, spread
from laneway.core.jobs.record import FireRecord, JobRecord, JobSpec, JobState
from laneway.core.schedules import Every
from laneway.errors import LanewayError

UNKNOWN = -1  # the period of a schedule that this version cannot read: the stored facts stay

_SWITCHES = (None, True, False)
_STATE = JobState.__struct_fields__
_RECORD = FireRecord.__struct_fields__

read_spec = msgspec.json.Decoder(JobSpec).decode


def written(job: JobRecord) -> list[object]:
    """Return the record of a job: version, call, times, state, and facts of its spec."""
    state = written_state(job.state, spread_at(job))
    return [job.version, job.call, job.created_at, job.changed_at, state, _facts(job)]


def spec_text(spec: JobSpec) -> str:
    """Return a spec as JSON text."""
    return msgspec.json.encode(spec).decode()


def written_state(state: JobState, spread_at: int | None) -> list[object]:
    """Return a job's state, with when its next fire is due if nothing holds it back."""
    values = [_SWITCHES.index(state.switch), *msgspec.structs.astuple(state)[1:], spread_at]
    return [False if value is None else value for value in values]


def spread_at(job: JobRecord) -> int | None:
    """Return when the job's next fire is due if nothing holds it back."""
    state = job.state
    if is_spread(state):
        return state.fire_at
    try:
        return None if state.next_at is None else spread(job, state.next_at)
    except LanewayError:  # this version cannot read its schedule
        return state.fire_at


def is_spread(state: JobState) -> bool:
    """Tell whether nothing holds the next fire back, or there is none: then `fire_at` says when it is due."""
    return state.fire_at is None or state.held_until is None or state.fire_at > state.held_until


def job_of(row: Sequence[Any]) -> JobRecord:
    """Return a job from `job_records.shown` in lua/state/job_records.lua."""
    job_id, version, call, created_at, changed_at, values, spec = row
    state = {name: None if value is False else value for name, value in zip(_STATE, values, strict=False)}
    return JobRecord(
        id=job_id,
        spec=read_spec(spec),
        state=msgspec.convert(state | {"switch": _SWITCHES[values[0]]}, JobState),
        created_at=created_at,
        changed_at=changed_at,
        version=version,
        call=call,
    )


def written_record(record: FireRecord) -> list[object]:
    """Return a fire record."""
    return [False if value is None else value for value in msgspec.structs.astuple(record)]


def record_of(row: Sequence[Any]) -> FireRecord:
    """Return a fire record from its stored form."""
    values = dict(zip(_RECORD, row, strict=True))
    for name in ("reason", "run_id"):
        values[name] = None if values[name] is False else values[name]
    return msgspec.convert(values, FireRecord)


def written_firing(firing: Firing, spread_at: int | None, runs: Sequence[object]) -> list[object]:
    """Return a firing; `runs` are its runs in the form of submissions."""
    return [
        firing.job_id,
        False if firing.version is None else firing.version,
        False if firing.state is None else written_state(firing.state, spread_at),
        runs,
        [written_record(record) for record in firing.records],
    ]


def _facts(job: JobRecord) -> list[object]:
    spec, switch = job.spec, job.state.switch
    breaker = spec.breaker
    return [
        spec.enabled if switch is None else switch,
        spec.name,
        False if spec.owner is None else spec.owner,
        spec.task,
        spec.source,
        spec.delete_after_run,
        *((0, 0, False) if breaker is None else (breaker.failures, breaker.length, breaker.disable)),
        spec.backoff,
        spec.backoff_cap,
        spec.alert_after,
        *_lengths(spec),
    ]


def _lengths(spec: JobSpec) -> tuple[int | bool, int]:
    """Return period and jitter of a schedule whose fires are counted from the end of runs, else False and 0."""
    try:
        rule = spec.rule
    except LanewayError:
        return UNKNOWN, 0
    if not isinstance(rule, Every) or not awaits_end(rule):
        return False, 0
    return duration(rule.period, "period"), duration(rule.jitter, "jitter")
