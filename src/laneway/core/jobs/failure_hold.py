"""Failing jobs: held back for a while, by backoff or by their breaker, or halted for good."""

from __future__ import annotations

from laneway.core.common.instants import LONGEST
from laneway.core.jobs.plan import changed
from laneway.core.jobs.record import Halt, JobRecord

BACKOFF, BREAKER_OPEN = "backoff", "breaker_open"  # why a job is held back


def charged(record: JobRecord, now: int) -> JobRecord:
    """Return the job after one more failure in a row."""
    record = changed(record, failures=record.state.failures + 1)
    if _is_open(record):
        if record.spec.breaker is not None and record.spec.breaker.disable:
            return changed(record, halted=Halt.BREAKER)
        return changed(record, held_until=now + held_for(record), held_by=BREAKER_OPEN)
    if record.spec.backoff:
        return changed(record, held_until=now + held_for(record), held_by=BACKOFF)
    return record


def held_for(record: JobRecord) -> int:
    """Return how long the job is held back after its failures so far."""
    spec, failures = record.spec, record.state.failures
    if spec.breaker is not None and _is_open(record):
        return spec.breaker.length
    # The exponent is bounded to keep the numbers small.
    return min(spec.backoff << min(max(failures - 1, 0), 40), spec.backoff_cap or LONGEST)


def untried(record: JobRecord, now: int) -> JobRecord:
    """Return the job after a probe that neither succeeded nor failed: the next fire is the probe."""
    return changed(record, probe=None, held_until=now, held_by=BREAKER_OPEN)


def _is_open(record: JobRecord) -> bool:
    breaker = record.spec.breaker
    return breaker is not None and record.state.failures >= breaker.failures
