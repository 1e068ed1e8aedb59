"""Delete ended runs that are old, a bounded number at a time.

The cost grows with the number of deleted runs, not with the size of the history. Later rows reuse the emptied pages;
the file does not shrink.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest

from laneway.core.common.keys import KEPT
from laneway.core.records.states import RunState
from laneway.stores.tables.runtime.move_state import is_still
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names

_SQL = sql_names("prune")
_BELONGINGS = (
    *("drop_events", "drop_checkpoints", "drop_prepared", "drop_memos", "drop_waits", "drop_controls"),
    *("drop_messages", "leave_keys", "drop_transient", "drop_outcomes", "drop_runs"),
)


def prune(db: Database, keep: Mapping[RunState, int], limit: int, now: int) -> int:
    """Delete old runs; see `UpkeepStore.prune`."""
    if is_still(db):
        return 0
    old: list[tuple[int, int]] = []
    for state, length in keep.items():
        old += db.execute(_SQL["outdated"], (state.value, now - length, max(0, limit)))
    numbers = [number for _, number in nsmallest(limit, old)]
    if numbers:
        db.execute(_SQL["keep_number"])
        # Crash here: one transaction, so no run is left without its events, and no events without their run.
        for statement in _BELONGINGS:
            db.execute(_SQL[statement], (as_json(numbers),))
    db.execute(_SQL["drop_keys"], (now - KEPT,))
    return len(numbers)
