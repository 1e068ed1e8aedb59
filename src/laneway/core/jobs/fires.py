"""A job's fires as people see them: past ones with the state of their runs, and future ones."""

from __future__ import annotations

from datetime import datetime

import msgspec

from laneway.core.common.instants import instant
from laneway.core.jobs.job import Job
from laneway.core.jobs.record import OUTPUT_LIMIT, FireKind, FireRecord
from laneway.core.records.run import Run
from laneway.core.records.states import RunState
from laneway.core.schedules.notes import Note


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """A past fire, or a stretch of `count` of them (`more`: at least) from `first_at` to `last_at`.

    `kind` is fired, skipped or missed; clock_stepped, when the clock was set back; or failing, when `count` runs in a
    row have failed. `reason` says why. `at` is when it was recorded; `first_at` and `last_at` are nominal. The fields
    after `run_id` are the run's, as long as the run is kept. `output` is its result as JSON text, cut at 16 KiB.
    """

    number: int
    kind: FireKind
    reason: str | None
    at: datetime
    first_at: datetime
    last_at: datetime
    count: int
    more: bool
    run_id: str | None = None
    state: RunState | None = None
    attempt: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None
    output: str | None = None

    @classmethod
    def of(cls, record: FireRecord, run: Run | None) -> Fire:
        """Return a record as people see it, with its run if that is still kept."""
        fire = cls(
            number=record.nth,
            kind=record.kind,
            reason=record.reason,
            at=instant(record.at),
            first_at=instant(record.first),
            last_at=instant(record.last),
            count=record.count,
            more=record.more,
            run_id=record.run_id,
        )
        if run is None:
            return fire
        return msgspec.structs.replace(
            fire,
            state=run.state,
            attempt=run.attempt,
            started_at=run.started_at,
            ended_at=run.ended_at,
            error=None if run.error is None else run.error.message,
            output=None if run.result is None else output_of(run.result),
        )


class NextFire(msgspec.Struct, frozen=True, kw_only=True):
    """A future fire: `at` is when it is due (in UTC, with jitter and holding back), `local` is its wall-clock time."""

    job: Job
    at: datetime
    local: datetime
    note: Note | None = None


def output_of(result: object) -> str:
    """Return a result as JSON text, cut at 16 KiB with a mark that says so.

    >>> output_of({"pages": 3})
    '{"pages":3}'
    >>> output_of("x" * 40_000)[-32:]
    'xxx... (cut at 16 KiB of 40 KiB)'
    """
    data = msgspec.json.encode(result)
    if len(data) <= OUTPUT_LIMIT:
        return data.decode()
    kept = data[:OUTPUT_LIMIT].decode(errors="ignore")
    return f"{kept}... (cut at {OUTPUT_LIMIT // 1024} KiB of {-(-len(data) // 1024)} KiB)"
