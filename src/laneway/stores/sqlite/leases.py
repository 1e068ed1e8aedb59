"""Leases as workers are told of them: what they hold, and what is requested of it."""

from __future__ import annotations

import sqlite3

from laneway.core.run import Claimed, Request
from laneway.core.step import Requested
from laneway.stores.sqlite.lines import decode_ties
from laneway.stores.sqlite.statements import Row, load

_SQL = load("stepping")
_TIES = Claimed.__struct_fields__.index("ties")


def requests(db: sqlite3.Connection, incarnation: str) -> list[Requested]:
    """Return what is requested of the runs that the incarnation executes."""
    rows = db.execute(_SQL["requests"], (incarnation,))
    return [Requested(number, fence, Request(request), messages) for number, fence, request, messages in rows]


def as_claimed(row: Row) -> Claimed:
    """Return a row of a lease that is read again."""
    run = Claimed(*row)
    run.lapsed, run.timed_out = bool(run.lapsed), bool(run.timed_out)
    run.ties = None if row[_TIES] is None else decode_ties(row[_TIES])
    return run
