"""Counting, per lane, what became of submissions and runs that were not simply accepted."""

from __future__ import annotations

import sqlite3

from laneway.stores.sqlite.statements import load

_SQL = load("counts")


def count(db: sqlite3.Connection, lane: str, what: str, n: int = 1) -> None:
    """Count so many more of it, such as "merged" or "dropped session_full"; see `LaneState.counts`."""
    db.execute(_SQL["count"], (lane, what, n))


def counts(db: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Return all counts, by lane."""
    found: dict[str, dict[str, int]] = {}
    for lane, what, n in db.execute(_SQL["counts"]):
        found.setdefault(lane, {})[what] = n
    return found
