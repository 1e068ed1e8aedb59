"""Leases: what a worker holds and what is requested of it, and whether the worker is dead."""

from __future__ import annotations

from laneway.core.lifecycle.step import Requested
from laneway.core.records.liveness import Heartbeat
from laneway.core.records.run import Claimed, Request
from laneway.stores.tables.rows.run_row import decode_ties
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, sql_names

_SQL = sql_names("steps")
_WORKERS = sql_names("workers")
_TIES = Claimed.__struct_fields__.index("ties")


def requests(db: Database, incarnation: str) -> list[Requested]:
    """Return the requests on the runs that the incarnation executes."""
    rows = db.execute(_SQL["requests"], (incarnation,))
    return [Requested(number, fence, Request(request), messages) for number, fence, request, messages in rows]


def as_claimed(row: Row) -> Claimed:
    """Return the claim that the row of a lease stands for."""
    run = Claimed(*row)
    run.lapsed, run.timed_out = bool(run.lapsed), bool(run.timed_out)
    run.ties = None if row[_TIES] is None else decode_ties(row[_TIES])
    return run


def is_dead(db: Database, incarnation: str, now: int) -> bool:
    """Return whether an incarnation that holds leases has left or lapsed."""
    [[lease, renewed_at, left]] = db.execute(_WORKERS["holder"], (incarnation,)).fetchall()
    [row] = db.execute(_WORKERS["heartbeat"]).fetchall()
    return bool(left) or Heartbeat(*row).lapsed(renewed_at, lease, now)


def lose(db: Database, incarnation: str, number: int) -> None:
    """Delete a lease, and its holder if that has left and holds no others."""
    db.execute(_WORKERS["lose"], (number,))
    db.execute(_WORKERS["forget"], (incarnation,))
