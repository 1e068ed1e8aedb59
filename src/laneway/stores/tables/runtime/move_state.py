"""The store's part in a move, and what it refuses because of it. The rules are in `core.transfer.move_state`."""

from __future__ import annotations

import msgspec

from laneway.core.transfer import move_state as core
from laneway.core.transfer.move_state import MovePhase, Moving
from laneway.core.transfer.pieces import Mark
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_STANDING = sql_names("phases")["standing"]
_mark = msgspec.json.Decoder(Mark).decode


def standing(db: Database) -> Moving | None:
    """Return the store's part in a move, None if it has none; see `MovingStore.moving`."""
    row = db.execute(_STANDING).fetchone()
    if row is None:
        return None
    phase, move, place, mark = row
    return Moving(phase=MovePhase(phase), move=move, place=place, mark=None if mark is None else _mark(mark))


def refuse(db: Database, *, new: bool) -> None:
    """Raise if the store's part in a move forbids any change or, with `new`, forbids new runs."""
    (core.refuse_new if new else core.refuse_change)(standing(db))


def is_still(db: Database) -> bool:
    """Tell whether a move lets nothing change: what can wait does."""
    return core.is_still(standing(db))
