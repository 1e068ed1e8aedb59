"""Changing lanes: their limits, and what a higher one lets go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from laneway.core.policy import Lane
from laneway.stores.sqlite.effects import Effects
from laneway.stores.sqlite.statements import load
from laneway.stores.sqlite.transaction import Transaction
from laneway.stores.sqlite.waking import wake_for_work

_SQL = load("ledgers")


def set_lanes(db: sqlite3.Connection, effects: Effects, lanes: Sequence[Lane], now: int) -> None:
    """Create or change lanes; see `LaneStore.set_lanes`."""
    db.executemany(_SQL["set_lane"], [(lane.name, lane.limit, lane.per_user) for lane in lanes])
    transaction = Transaction(db, now)
    for lane in lanes:
        transaction.flow.reopen(lane.name, transaction.books.lanes.users_parked(lane.name))
    transaction.write()
    if transaction.glance.resting:
        wake_for_work(db, effects)
