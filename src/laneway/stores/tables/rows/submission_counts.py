"""Counts per lane of submissions that were not simply accepted, and of dropped runs."""

from __future__ import annotations

from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("submission_counts")


def count(db: Database, lane: str, what: str, n: int = 1) -> None:
    """Add to a count such as "merged" or "dropped session_full"; see `LaneState.counts`."""
    db.execute(_SQL["count"], (lane, what, n))


def counts(db: Database) -> dict[str, dict[str, int]]:
    """Return all counts, by lane."""
    found: dict[str, dict[str, int]] = {}
    for lane, what, n in db.execute(_SQL["counts"]):
        found.setdefault(lane, {})[what] = n
    return found
