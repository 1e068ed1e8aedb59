"""Incarnations: register, renew, leave, and take over from dead ones; `core.records.liveness` tells which are dead."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.core.lifecycle.step import ReclaimReply, RenewReply
from laneway.core.records.liveness import Heartbeat, Incarnation
from laneway.errors import LeaseLost
from laneway.stores.tables.rows.leases import as_claimed, requests
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.move_state import refuse
from laneway.stores.tables.runtime.wakeups import wake_for_work
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("workers")


def register(db: Database, incarnation: Incarnation, socket: str | None, now: int) -> None:
    """Register the incarnation; see `WorkerStore.register`."""
    # An incarnation without tasks claims nothing: it may take over from dead ones while the store is shut.
    refuse(db, new=bool(incarnation.tasks))
    text = msgspec.json.encode(incarnation).decode()
    row = (incarnation.id, text, incarnation.lease, now, socket)
    if db.execute(_SQL["register"], row).rowcount:
        _beat(db, incarnation.lease, now)


def renew(db: Database, incarnation: str, now: int) -> RenewReply:
    """Keep the incarnation alive; see `WorkerStore.renew`."""
    _renew(db, incarnation, now)
    return RenewReply(now, db.execute(_SQL["holds"], (incarnation,)).fetchall(), requests(db, incarnation))


def reclaim(
    db: Database, after_commit: AfterCommit, incarnation: str, gone: Sequence[str], limit: int, now: int
) -> ReclaimReply:
    """Take over from dead incarnations; see `WorkerStore.reclaim`."""
    heartbeat = _renew(db, incarnation, now)
    for other, lease, renewed_at, left in db.execute(_SQL["others"], (incarnation,)).fetchall():
        if left or other in gone or heartbeat.lapsed(renewed_at, lease, now):
            db.execute(_SQL["bury"], (other,))
            _hand_over(db, other, incarnation, limit)
    wake_for_work(db, after_commit, now)
    lapsed = [as_claimed(row) for row in db.execute(_SQL["lapsed"], (incarnation,))]
    [[more]] = db.execute(_SQL["unburied"])
    return ReclaimReply(lapsed, bool(more))


def leave(db: Database, after_commit: AfterCommit, incarnation: str, now: int) -> None:
    """Mark the incarnation as left; see `WorkerStore.leave`."""
    db.execute(_SQL["bury"], (incarnation,))
    db.execute(_SQL["forget"], (incarnation,))
    # The worker that leaves may have been woken up for runs that it did not claim.
    wake_for_work(db, after_commit, now)


def _renew(db: Database, incarnation: str, now: int) -> Heartbeat:
    row = db.execute(_SQL["alive"], (incarnation,)).fetchone()
    if row is None:
        raise LeaseLost(f"incarnation {incarnation} is not alive in this store")
    db.execute(_SQL["renew"], (now, incarnation))
    return _beat(db, row[0], now)


def _beat(db: Database, lease: int, now: int) -> Heartbeat:
    [row] = db.execute(_SQL["heartbeat"]).fetchall()
    heartbeat = Heartbeat(*row).after_renewal(now, lease)
    db.execute(_SQL["beat"], (heartbeat.renewed_at, heartbeat.grace_until))
    return heartbeat


def _hand_over(db: Database, dead: str, heir: str, limit: int) -> None:
    [[held]] = db.execute(_SQL["lapsed_count"], (heir,))
    db.execute(_SQL["inherit"], (heir, dead, max(0, limit - held)))
    db.execute(_SQL["forget"], (dead,))
