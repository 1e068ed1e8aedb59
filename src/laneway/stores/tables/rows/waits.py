"""What runs wait for, in a table. The row stays when the wait is over: it is what the run waited for last."""

from __future__ import annotations

import msgspec

from laneway.core.records.memos import Wait
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("waits")
opened = msgspec.json.Decoder(Wait).decode


def put(db: Database, number: int, wait: Wait, request: str | None, *, over: bool) -> None:
    """Write what a run waits for, with its deadline and the request on it; without both if the wait is `over`."""
    stands = (None, None) if over else (wait.until, request)
    db.execute(_SQL["put"], (number, *stands, msgspec.json.encode(wait).decode()))


def leave(db: Database, number: int) -> None:
    """End the wait of a run."""
    db.execute(_SQL["leave"], (number,))


def take_back(db: Database, number: int) -> None:
    """Delete the request on a run that waits."""
    db.execute(_SQL["take_back"], (number,))


def late(db: Database, now: int, limit: int) -> list[int]:
    """Return the numbers of runs whose questions were not answered in time."""
    return [number for (number,) in db.execute(_SQL["late"], (now, limit))]


def of(db: Database, number: int) -> Wait | None:
    """Return what a run waits for, or waited for last."""
    row = db.execute(_SQL["wait"], (number,)).fetchone()
    return None if row is None else opened(row[0])
