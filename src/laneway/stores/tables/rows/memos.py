"""Memos of runs, in their table."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from laneway.core.records.memos import Memo, Recall
from laneway.errors import UnknownRun
from laneway.stores.tables.rows import waits
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("memos")
_NUMBER = sql_names("control")["number"]
_memo = msgspec.json.Decoder(Memo).decode


def put(db: Database, kept: Iterable[tuple[int, Memo]]) -> None:
    """Write memos, given with the numbers of their runs, in this order."""
    rows = [(number, memo.kind.value, memo.name, msgspec.json.encode(memo).decode()) for number, memo in kept]
    db.each(_SQL["put"], rows)


def returned(db: Database, number: int) -> list[Memo]:
    """Return the outcomes of a run's calls that have ended."""
    return [_memo(body) for (body,) in db.execute(_SQL["returned"], (number,))]


def recall(db: Database, run_id: str) -> Recall:
    """Return the memos of a run; see `RunStore.recall`."""
    row = db.execute(_NUMBER, (run_id,)).fetchone()
    if row is None:
        raise UnknownRun(run_id)
    return Recall([_memo(body) for (body,) in db.execute(_SQL["memos"], row)], waits.of(db, row[0]))
