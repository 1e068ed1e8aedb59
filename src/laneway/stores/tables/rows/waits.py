"""What runs wait for, in a table. A run that goes on, or ends, leaves its row there: it is what it waited for last."""

from __future__ import annotations

import msgspec

from laneway.core.records.memos import Wait
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("waits")
opened = msgspec.json.Decoder(Wait).decode


def put(db: Database, number: int, wait: Wait, request: str | None, *, over: bool) -> None:
    """Keep what a run waits for and what is requested of it meanwhile; neither has its time if that is `over`."""
    stands = (None, None) if over else (wait.until, request)
    db.execute(_SQL["put"], (number, *stands, msgspec.json.encode(wait).decode()))


def leave(db: Database, number: int) -> None:
    """Let a run wait no more."""
    db.execute(_SQL["leave"], (number,))


def take_back(db: Database, number: int) -> None:
    """Forget what was requested of a run that waits."""
    db.execute(_SQL["take_back"], (number,))


def late(db: Database, now: int, limit: int) -> list[int]:
    """Return the numbers of runs whose questions nobody has answered in time."""
    return [number for (number,) in db.execute(_SQL["late"], (now, limit))]


def of(db: Database, number: int) -> Wait | None:
    """Return what a run waits for, or waited for last."""
    row = db.execute(_SQL["wait"], (number,)).fetchone()
    return None if row is None else opened(row[0])
