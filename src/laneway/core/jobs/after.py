"""How a fire, and the end of a run, change a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from laneway.core.jobs.failure_hold import charged, untried
from laneway.core.jobs.fire_decision import Firing
from laneway.core.jobs.plan import awaits_end, changed, next_of, planned, with_next
from laneway.core.jobs.record import FireKind, FireRecord, Halt, JobRecord, JobState
from laneway.core.records.job_tie import JobTie
from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState

# Module variables: looking up an enum's member costs more than what is done with it.
_FIRED, _SKIPPED, _MISSED, _ACCEPTED = FireKind.FIRED, FireKind.SKIPPED, FireKind.MISSED, ReceiptOutcome.ACCEPTED

ERROR_LIMIT = 4000  # characters kept of a job's last error
BY_HAND, MADE_UP_FOR, OVERLAP = "by_hand", "caught_up", "overlap"  # reasons in records

_ENDINGS = {
    RunState.SUCCEEDED: Halt.DONE,
    RunState.FAILED: Halt.FAILED,
    RunState.CANCELLED: Halt.CANCELLED,
    RunState.DROPPED: Halt.CANCELLED,
}


def applied(
    record: JobRecord, firing: Firing, receipts: Sequence[Receipt | None], now: int, before: FireRecord | None
) -> tuple[JobRecord, list[FireRecord]]:
    """Return the job after a firing, and the records to write, by `nth`; `before` is its newest record.

    `receipts` are those of the firing's runs, None for a fire that was there before. A skip or a miss is added to the
    record before it if that one says the same of earlier fires.
    """
    state = record.state if firing.state is None else firing.state
    records: Sequence[FireRecord] = firing.records
    if firing.runs:
        state, made = _with_runs(replace(record, state=state), firing, receipts, now)
        records = [*records, *made]
    numbered = _numbered(records, state.records, before, now)
    if numbered:
        state = _counted(state, records, numbered[-1].nth)
    return replace(record, state=state, version=record.version + 1), numbered


def ended(
    record: JobRecord, run_id: str, state: RunState, error: str | None, now: int, *, by_hand: bool = False
) -> JobRecord | None:
    """Return the job after a run of it has ended; None if the job ends with it.

    A run that somebody started `by_hand` does not end a job that has a fire left, or was disabled before it could fire.
    """
    spec, is_newest = record.spec, run_id == record.state.last_run
    after = replace(record, version=record.version + 1)
    if record.state.probe == run_id:
        after = changed(after, probe=None) if state in (RunState.SUCCEEDED, RunState.FAILED) else untried(after, now)
    if is_newest:
        after = changed(after, last_state=state, last_error=None if error is None else error[:ERROR_LIMIT])
    if state is RunState.SUCCEEDED:
        if spec.delete_after_run and not (by_hand and _has_fires_left(record)):
            return None
        after = changed(after, failures=0, held_until=None, held_by=None)
    elif state is RunState.FAILED:
        after = charged(after, now)
        if after.state.failures == spec.alert_after:
            after = changed(after, records=after.state.records + 1)
    next_at, zone = after.state.next_at, after.state.zone
    if not after.is_on:
        is_over = after.state.halted not in (None, Halt.BREAKER)
        halted = _ENDINGS[state] if is_over and is_newest else after.state.halted
        return changed(after, next_at=None, fire_at=None, halted=halted)
    if next_at is None and awaits_end(spec.rule):
        return with_next(after, next_of(spec.rule, now, zone), zone)
    if next_at is None and is_newest:
        return changed(after, halted=_ENDINGS[state])
    return with_next(after, next_at, zone)


def alarm(before: JobRecord, after: JobRecord, error: str | None, now: int) -> FireRecord | None:
    """Return the record that the job is failing, if the end of a run has just made it so (`alert_after`)."""
    if after.state.records == before.state.records:
        return None
    failures, said = after.state.failures, None if error is None else error[:ERROR_LIMIT]
    nth = after.state.records
    return FireRecord(kind=FireKind.FAILING, first=now, last=now, count=failures, reason=said, at=now, nth=nth)


def _with_runs(
    after: JobRecord, firing: Firing, receipts: Sequence[Receipt | None], now: int
) -> tuple[JobState, list[FireRecord]]:
    """Return the job's state after the runs of a firing, except its counts, and the records of these runs."""
    records, changes = list[FireRecord](), dict[str, Any]()
    for run, receipt in zip(firing.runs, receipts, strict=True):
        tie = None if run.ties is None else run.ties.job
        is_made = receipt is not None and receipt.outcome is _ACCEPTED
        if after.state.probe == run.id and not is_made:
            after = untried(after, now)  # no run of it will end
        if receipt is None or tie is None:
            continue
        records.append(_record(run, tie, receipt, by_hand=firing.version is None))
        if is_made:
            changes = {"last_at": tie.at, "last_run": run.id, "last_state": None, "last_error": None}
    if not changes:
        return _left_alone(after, now).state, records
    return replace(after.state, **changes), records


def _has_fires_left(record: JobRecord) -> bool:
    return record.state.next_at is not None or (not record.is_on and record.state.halted is None)


def _left_alone(record: JobRecord, now: int) -> JobRecord:
    """Return the job after a fire that made no run, so no run of it will end."""
    state = record.state
    if not record.is_on or state.next_at is not None or (state.last_run is not None and state.last_state is None):
        return record  # it has a next fire, or an earlier run whose end will decide
    if awaits_end(record.spec.rule):
        return planned(record, now, state.zone)
    return changed(record, halted=Halt.SKIPPED)


def _record(run: NewRun, tie: JobTie, receipt: Receipt, *, by_hand: bool) -> FireRecord:
    if receipt.outcome is _ACCEPTED:
        reason = BY_HAND if by_hand else MADE_UP_FOR if tie.overlap is None else None
        return FireRecord(kind=FireKind.FIRED, first=tie.at, last=tie.at, reason=reason, run_id=run.id)
    busy = receipt.reason in (Why.SESSION_BUSY, Why.SESSION_FULL)
    return FireRecord(kind=FireKind.SKIPPED, first=tie.at, last=tie.at, reason=OVERLAP if busy else receipt.reason)


def _numbered(records: Sequence[FireRecord], written: int, before: FireRecord | None, now: int) -> list[FireRecord]:
    numbered: list[FireRecord] = []
    for record in records:
        last = numbered[-1] if numbered else before
        if last is not None and _goes_on(last, record):
            joined = replace(
                last, last=record.last, count=last.count + record.count, more=last.more or record.more, at=now
            )
            numbered = [*numbered[:-1], joined]
        else:
            written += 1
            numbered.append(replace(record, nth=written, at=now))
    return numbered


def _counted(state: JobState, records: Sequence[FireRecord], nth: int) -> JobState:
    """Return the job's state with its counts after these records are written, up to the `nth` of all."""
    fired, skipped, missed = state.fired, state.skipped, state.missed
    for record in records:
        kind = record.kind
        if kind is _FIRED:
            fired += record.count
        elif kind is _SKIPPED:
            skipped += record.count
        elif kind is _MISSED:
            missed += record.count
    return replace(state, fired=fired, skipped=skipped, missed=missed, records=max(nth, state.records))


def _goes_on(last: FireRecord, record: FireRecord) -> bool:
    if record.kind is not _SKIPPED and record.kind is not _MISSED:
        return False
    return (last.kind, last.reason) == (record.kind, record.reason) and last.last < record.first
