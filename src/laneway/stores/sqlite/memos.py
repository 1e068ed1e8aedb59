"""Memos in their table, and what a run has kept as people and its next attempt see it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from laneway.core.memos import Memo, Recall
from laneway.errors import UnknownRun
from laneway.stores.sqlite import waits
from laneway.stores.sqlite.statements import each, load

_SQL = load("memos")
_NUMBER = load("control")["number"]
_memo = msgspec.json.Decoder(Memo).decode


def put(db: sqlite3.Connection, kept: Iterable[tuple[int, Memo]]) -> None:
    """Keep memos of the runs of these numbers, in this order."""
    rows = [(number, memo.kind.value, memo.name, msgspec.json.encode(memo).decode()) for number, memo in kept]
    each(db, _SQL["put"], rows)


def returned(db: sqlite3.Connection, number: int) -> list[Memo]:
    """Return what a run keeps of those that it called and that have ended."""
    return [_memo(body) for (body,) in db.execute(_SQL["returned"], (number,))]


def recall(db: sqlite3.Connection, run_id: str) -> Recall:
    """Return what a run has kept; see `MemoStore.recall`."""
    row = db.execute(_NUMBER, (run_id,)).fetchone()
    if row is None:
        raise UnknownRun(run_id)
    return Recall([_memo(body) for (body,) in db.execute(_SQL["memos"], row)], waits.of(db, row[0]))
