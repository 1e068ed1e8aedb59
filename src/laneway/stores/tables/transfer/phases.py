"""The phase of a move, in its table; `core.transfer.move_state` tells which phase follows which."""

from __future__ import annotations

import msgspec

from laneway.core.records.policy import DEFAULT_LANES
from laneway.core.transfer.move_state import MovePhase, Moving, in_words
from laneway.core.transfer.pieces import Mark
from laneway.errors import StoreUnavailable
from laneway.ports.moves import Arrive, Freeze, Moved, OpenUp, Reopen, Shut, Transition
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


def move(db: Database, after_commit: AfterCommit, transition: Transition, now: int) -> Moved:
    """Make a transition; see `MovingStore.move`."""
    match transition:
        case Shut(move, place):
            return _shut(db, after_commit, move, place)
        case Freeze(move):
            return _freeze(db, move)
        case Reopen(move):
            return _reopen(db, after_commit, move, now)
        case Arrive(move, place):
            return _arrive(db, move, place)
        case OpenUp(move):
            return _open_up(db, move)


def _shut(db: Database, after_commit: AfterCommit, move: str, place: str) -> Moved:
    found = standing(db)
    if found is None or found.phase is MovePhase.ARRIVED:
        db.execute(_SQL["stand"], (MovePhase.SHUT.value, move, place))
        wake_everybody(db, after_commit)
        found = Moving(phase=MovePhase.SHUT, move=move, place=place)
    return Moved(found.move == move, found)


def _freeze(db: Database, move: str) -> Moved:
    found = standing(db)
    if found is None or found.move != move or not found.leaves:
        raise StoreUnavailable(f"this store is not the source of move {move} (any more)")
    [[busy]] = db.execute(_SQL["busy"]).fetchall()
    if not busy:
        db.execute(_SQL["stand"], (MovePhase.FROZEN.value, move, found.place))
    return Moved(not busy, leases=int(busy))


def _reopen(db: Database, after_commit: AfterCommit, move: str, now: int) -> Moved:
    found = standing(db)
    if found is None or found.move != move or found.phase is MovePhase.ARRIVED:
        return Moved(done=False)
    if found.phase is MovePhase.ARRIVING:
        _clear(db)
        settings.declare_lanes(db, after_commit, DEFAULT_LANES, now)
    db.execute(_SQL["forget"])
    wake_everybody(db, after_commit)
    return Moved(done=True)


def holds(db: Database) -> list[str]:
    """Return what the store has, in words; see `MovingStore.holds`."""
    return in_words(*db.execute(_SQL["holds"]).fetchone())


def _arrive(db: Database, move: str, place: str) -> Moved:
    found = standing(db)
    if found is not None and (found.move == move or found.phase is MovePhase.SHUT):
        return Moved(found.move == move, found)
    _clear(db)
    db.execute(_SQL["stand"], (MovePhase.ARRIVING.value, move, place))
    return Moved(True, Moving(phase=MovePhase.ARRIVING, move=move, place=place))


def _open_up(db: Database, move: str) -> Moved:
    found = standing(db)
    if found is None or found.move != move:
        raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
    if found.phase is MovePhase.ARRIVING:
        db.execute(_SQL["note_asides"])
        db.execute(_SQL["note_broken"])
        db.execute(_SQL["stand"], (MovePhase.ARRIVED.value, move, found.place))
    return Moved(done=True)


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
