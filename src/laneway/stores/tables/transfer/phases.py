"""The phase of a move, in its table; `core.transfer.move_state` tells which phase follows which."""

from __future__ import annotations

import msgspec

from laneway.core.records.policy import DEFAULT_LANES
from laneway.core.transfer.move_state import MovePhase, Moving, in_words
from laneway.core.transfer.pieces import Mark
from laneway.errors import StoreUnavailable
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.move_state import standing
from laneway.stores.tables.runtime.wakeups import wake_everybody
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.verbs import settings

_SQL = sql_names("phases")
_EMPTYING = sql_names("clear")

# All tables with data of users. Not among them: the heartbeat, and the phase itself.
TABLES = (
    *("inbox", "run", "outcome", "event", "ready", "parked", "held", "due", "aside", "lease", "lane", "pace", "turn"),
    *("seat", "session", "worker", "checkpoint", "prepared", "control", "message", "key", "memo", "wait", "transient"),
    *("cap", "paused", "disabled", "session_rule", "lane_count", "circuit", "broken", "job", "fire", "counter"),
)


def shut_for(db: Database, after_commit: AfterCommit, move: str, place: str) -> Moving:
    """Be the source of a move; see `MovingStore.shut_for`."""
    found = standing(db)
    if found is None or found.phase is MovePhase.ARRIVED:
        db.execute(_SQL["stand"], (MovePhase.SHUT.value, move, place))
        wake_everybody(db, after_commit)
        return Moving(phase=MovePhase.SHUT, move=move, place=place)
    return found


def freeze(db: Database, move: str) -> int:
    """Refuse all changes from now on; see `MovingStore.freeze`."""
    found = standing(db)
    if found is None or found.move != move or not found.leaves:
        raise StoreUnavailable(f"this store is not the source of move {move} (any more)")
    [[busy]] = db.execute(_SQL["busy"]).fetchall()
    if not busy:
        db.execute(_SQL["stand"], (MovePhase.FROZEN.value, move, found.place))
    return int(busy)


def reopen(db: Database, after_commit: AfterCommit, move: str, now: int) -> bool:
    """End the store's part in a move; see `MovingStore.reopen`."""
    found = standing(db)
    if found is None or found.move != move or found.phase is MovePhase.ARRIVED:
        return False
    if found.phase is MovePhase.ARRIVING:
        _clear(db)
        settings.declare_lanes(db, after_commit, DEFAULT_LANES, now)
    db.execute(_SQL["forget"])
    wake_everybody(db, after_commit)
    return True


def holds(db: Database) -> list[str]:
    """Return what the store has, in words; see `MovingStore.holds`."""
    return in_words(*db.execute(_SQL["holds"]).fetchone())


def arrive(db: Database, move: str, place: str) -> Moving:
    """Be the target of a move; see `MovingStore.arrive`."""
    found = standing(db)
    if found is not None and (found.move == move or found.phase is MovePhase.SHUT):
        return found
    _clear(db)
    db.execute(_SQL["stand"], (MovePhase.ARRIVING.value, move, place))
    return Moving(phase=MovePhase.ARRIVING, move=move, place=place)


def open_up(db: Database, move: str) -> None:
    """Become an ordinary store; see `MovingStore.open_up`."""
    found = standing(db)
    if found is None or found.move != move:
        raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
    if found.phase is MovePhase.ARRIVING:
        db.execute(_SQL["note_asides"])
        db.execute(_SQL["note_broken"])
        db.execute(_SQL["stand"], (MovePhase.ARRIVED.value, move, found.place))


def remember(db: Database, move: str, mark: Mark | None) -> None:
    """Write how far the pieces of a move have arrived. Raises StoreUnavailable if the store is not its target."""
    found = standing(db)
    if found is None or found.move != move or found.phase is not MovePhase.ARRIVING:
        raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
    if mark is not None:
        db.execute(_SQL["mark"], (msgspec.json.encode(mark).decode(),))


def _clear(db: Database) -> None:
    for table in TABLES:
        db.execute(_EMPTYING[f"clear_{table}"])
