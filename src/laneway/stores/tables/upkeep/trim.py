"""Replace the deltas of runs that ended some time ago by marks, a bounded number of runs at a time.

The table `transient` has the runs with deltas, so the cost grows with them alone. Chunks without deltas are not
touched. The last chunk of a run is stored with its outcome, and its events are numbered backwards from the run's last
event. So a mark never is in the last chunk, but in a chunk before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.core.lifecycle.trim import trimmed
from laneway.core.records.events import TRIMMED, Stamped, chunk
from laneway.stores.tables.runtime.move_state import is_still
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names

_SQL = sql_names("trim")
_rows = msgspec.json.Decoder(list[tuple[str, int, int, msgspec.Raw]]).decode


def trim(db: Database, older_than: int, limit: int, now: int) -> int:
    """Trim old logs; see `UpkeepStore.trim`."""
    if is_still(db):
        return 0
    db.execute(_SQL["note_ends"])
    numbers = [number for (number,) in db.execute(_SQL["outdated"], (now - older_than, max(0, limit)))]
    for number in numbers:
        _trim(db, number)
    # Crash here: one transaction, so a log is trimmed and its row in `transient` deleted, or neither.
    db.execute(_SQL["forget"], (as_json(numbers),))
    return len(numbers)


def _trim(db: Database, number: int) -> None:
    before = dict[int, str](db.execute(_SQL["chunks"], (number,)))
    last = db.execute(_SQL["last_chunk"], (number,)).fetchone()
    stored = [*before.items(), *([last] if last else [])]
    chunks = trimmed([(first, _opened(body)) for first, body in stored])
    if last:
        *chunks, (first, rows) = chunks
        head, tail = _split(rows)
        chunks += [(first, head)] if head else []
        db.execute(_SQL["put_last_chunk"], (chunk(tail), number))
    after = {first: chunk(rows) for first, rows in chunks}
    db.each(_SQL["drop_chunk"], [(number, first) for first, body in before.items() if after.get(first) != body])
    db.insert(_SQL["put_chunk"], [(number, first, body) for first, body in after.items() if before.get(first) != body])


def _opened(body: str) -> list[Stamped]:
    return [(kind, attempt, at, bytes(data).decode()) for kind, attempt, at, data in _rows(body)]


def _split(rows: Sequence[Stamped]) -> tuple[Sequence[Stamped], Sequence[Stamped]]:
    """Return the rows up to the last mark, and those after it."""
    marks = [index for index, (kind, *_) in enumerate(rows) if kind == TRIMMED]
    behind = marks[-1] + 1 if marks else 0
    return rows[:behind], rows[behind:]
