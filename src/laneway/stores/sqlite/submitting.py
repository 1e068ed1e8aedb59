"""Submitting: accept a batch, each run at most once.

The batch is written in the belief that its ids are new, which the unique index checks for nothing. If one is not, all
of it is undone and done again without the runs that are there: a repeated submission is rare and may cost more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from laneway.core.policy import MAIN
from laneway.core.run import NewRun, Receipt, ReceiptOutcome
from laneway.core.turns import FRESH
from laneway.stores.sqlite.effects import Effects
from laneway.stores.sqlite.lines import Line
from laneway.stores.sqlite.statements import Row, as_json, insert, load
from laneway.stores.sqlite.transaction import Transaction
from laneway.stores.sqlite.waking import wake_for_work

_SQL = load("submitting")


def submit(db: sqlite3.Connection, effects: Effects, batch: Sequence[NewRun], now: int) -> list[Receipt]:
    """Accept the batch; see `RunStore.submit`."""
    db.execute("SAVEPOINT submit")
    try:
        receipts = _accept(Transaction(db, now), batch)
    except sqlite3.IntegrityError:
        db.execute("ROLLBACK TO submit")
        receipts = _accept_the_rest(Transaction(db, now), batch)
    db.execute("RELEASE submit")
    wake_for_work(db, effects)
    return receipts


def _accept_the_rest(transaction: Transaction, batch: Sequence[NewRun]) -> list[Receipt]:
    ids = as_json(new.id for new in batch)
    known: dict[str, str] = dict(transaction.db.execute(_SQL["known"], (ids,)).fetchall())
    fresh: dict[str, NewRun] = {}
    for new in batch:
        if new.id not in known:
            fresh.setdefault(new.id, new)
    accepted = {receipt.run_id: receipt for receipt in _accept(transaction, list(fresh.values()))}
    # A copy within the batch is a repeat of its first: it has the same lane, and no position.
    known |= {new.id: _lane(transaction, new.lane) for new in fresh.values()}
    again = [_receipt(new, known[new.id], None) for new in batch]
    return [accepted.pop(new.id, receipt) for new, receipt in zip(batch, again, strict=True)]


def _accept(transaction: Transaction, batch: Sequence[NewRun]) -> list[Receipt]:
    db, now = transaction.db, transaction.now
    more_due = transaction.make_due()
    lines = _lines(transaction, batch)
    transaction.books.fetch(lines)
    due = [now + new.delay if new.due_at is None else max(now, new.due_at) for new in batch]
    receipts = [
        _receipt(new, line.lane, _place(transaction, line, due_at, more_due=more_due))
        for new, line, due_at in zip(batch, lines, due, strict=True)
    ]
    # Where a run is, is known only now: one that came later may have let it go on.
    insert(db, _SQL["insert"], [_row(*placed, now) for placed in zip(batch, lines, due, strict=True)])
    transaction.write()
    return receipts


def _lines(transaction: Transaction, batch: Sequence[NewRun]) -> list[Line]:
    [[last]] = transaction.db.execute(_SQL["accept"], (len(batch),)).fetchall()
    lanes = {name: _lane(transaction, name) for name in {new.lane for new in batch}}
    return [
        Line(
            FRESH,
            0,
            number,
            new.id,
            new.task,
            None,
            lanes[new.lane],
            new.user,
            new.session,
            new.priority,
            new.max_concurrent,
            new=True,
        )
        for number, new in enumerate(batch, last - len(batch) + 1)
    ]


def _lane(transaction: Transaction, name: str) -> str:
    return name if transaction.books.lanes.knows(name) else MAIN


def _place(transaction: Transaction, line: Line, due_at: int, *, more_due: bool) -> int | None:
    # While runs that are due wait to be moved, a session's newcomer lines up behind them.
    if due_at <= transaction.now and not (more_due and line.session is not None):
        return transaction.flow.join(line, line.max_concurrent)
    transaction.shelves.put_due(line, due_at)
    return None


def _receipt(new: NewRun, lane: str, position: int | None) -> Receipt:
    return Receipt(ReceiptOutcome.ACCEPTED, new.id, None if lane == new.lane else "lane_unknown", position)


def _row(new: NewRun, line: Line, due_at: int, now: int) -> Row:
    return (
        line.number,
        new.id,
        new.task,
        line.lane,
        new.user,
        new.session,
        new.priority,
        new.max_concurrent,
        now,
        due_at,
        line.place,
        line.rank,
        new.args,
    )
