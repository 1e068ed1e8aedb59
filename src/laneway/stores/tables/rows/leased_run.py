"""A leased run, and the chunks of events that are appended to its log.

A claim writes no events. Readers derive the `started` event of a lease from the lease's row, and the next chunk that is
written under the lease begins with it. So a run that starts and ends costs one row of events, not two.
"""

from __future__ import annotations

from functools import lru_cache

from laneway.core.common.structs import written_often
from laneway.core.records.events import STARTED, Draft, chunk, draft, opened
from laneway.core.records.memos import Wait
from laneway.core.records.run import Request
from laneway.stores.tables.rows import waits
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, sql_names

_APPEND, _NOTE, _KEEP_LOG = (
    sql_names("settlements")["append"],
    sql_names("settlements")["note"],
    sql_names("inboxes")["keep_log"],
)

NO_EVENTS = chunk(())  # must not be written: the row would take the number of the next event


@written_often
class LeasedRun(RunRow, gc=False):
    """A leased run: `worker` executes it, or did; `noted` is True once its `started` event is written.

    `request` is the request on it. `cleared`: its unread messages are dropped when it ends. `waited` is what it waits
    for, or waited for last, as JSON. A run without a lease is `noted`.
    """

    worker: str = ""
    started_at: int | None = None
    noted: bool = False
    request: str | None = None
    cleared: bool = False
    waited: str | None = None

    @property
    def requested(self) -> Request | None:
        """The request on it."""
        return None if self.request is None else Request(self.request)

    @property
    def wait(self) -> Wait | None:
        """What it waits for, or waited for last."""
        return None if self.waited is None else waits.opened(self.waited)


def logged(run: LeasedRun, drafts: tuple[Draft, ...], now: int) -> str:
    """Number the events, after the `started` of the lease if that is not written yet; return them as a chunk."""
    run.events += len(drafts)
    if run.noted:
        return _chunk(drafts, run.attempt, now)
    run.events += 1
    run.noted = True
    return _first_chunk(run.worker, run.started_at or 0, drafts, run.attempt, now)


def append(db: Database, run: LeasedRun, text: str) -> None:
    """Write a chunk that ends with the run's last event."""
    db.execute(_APPEND, appended(run, text))


def log_on(db: Database, run: LeasedRun, drafts: tuple[Draft, ...], now: int, *, leased: bool) -> None:
    """Write events of a run, leased or not, of which nothing else is written; and their number."""
    append(db, run, logged(run, drafts, now))
    if leased:
        db.execute(_NOTE, (run.events, run.number))
    else:
        db.execute(_KEEP_LOG, (run.number, run.events, None))


def appended(run: LeasedRun, text: str) -> Row:
    """Return the row of a chunk that ends with the run's last event."""
    return run.number, run.events - len(opened(text)) + 1, text


# Cached: the runs that one step settles were often started together and end alike.


@lru_cache(maxsize=256)
def _first_chunk(worker: str, started_at: int, drafts: tuple[Draft, ...], attempt: int, at: int) -> str:
    kind, data = draft(STARTED, {"worker": worker})
    return chunk([(kind, attempt, started_at, data), *((kind, attempt, at, data) for kind, data in drafts)])


@lru_cache(maxsize=256)
def _chunk(drafts: tuple[Draft, ...], attempt: int, at: int) -> str:
    return chunk([(kind, attempt, at, data) for kind, data in drafts])
