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
_PUT_READY = load("shelves")["put_ready"]


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
    desk = _Acceptance(transaction, batch)
    for number, new in enumerate(batch, desk.first):
        desk.accept(number, new)
    desk.write()
    return desk.receipts


class _Acceptance:
    """One batch on its way in. Most runs need no session, no delay and no parked set: they go straight to a lane."""

    def __init__(self, transaction: Transaction, batch: Sequence[NewRun]) -> None:
        self._transaction = transaction
        self._more_due = transaction.make_due()
        [[last]] = transaction.db.execute(_SQL["accept"], (len(batch),)).fetchall()
        self.first = last - len(batch) + 1
        self._lanes = {name: _lane(transaction, name) for name in {new.lane for new in batch}}
        self._books = {lane: transaction.books.lanes[lane] for lane in self._lanes.values()}
        self._fetch(batch)
        self._rows: list[Row] = []
        self._ready: list[Row] = []
        self._placed: list[tuple[NewRun, Line, int]] = []
        self.receipts: list[Receipt] = []

    def accept(self, number: int, new: NewRun) -> None:
        """Give the run its place and its receipt."""
        lane, user, now = self._lanes[new.lane], new.user, self._transaction.now
        book = self._books[lane]
        position = None
        if new.session is not None or new.delay or new.due_at is not None or (user and book.seats[user].parked):
            position = self._place(number, new, lane)
        else:
            rank = book.enter_fresh(user, new.priority)
            self._rows.append(
                (number, new.id, new.task, lane, user, None, new.priority, None, now, now, "ready", rank, new.args)
            )
            self._ready.append((lane, rank, number, FRESH))
        self.receipts.append(_receipt(new, lane, position))

    def write(self) -> None:
        """Write the runs, and what the rules changed."""
        # Where a run is, is known only now: one that came later may have let it go on.
        rows = self._rows + [_row(*placed, self._transaction.now) for placed in self._placed]
        insert(self._transaction.db, _SQL["insert"], sorted(rows) if self._placed else rows)
        self._transaction.shelves.write()
        insert(self._transaction.db, _PUT_READY, self._ready)
        self._transaction.books.write()

    def _place(self, number: int, new: NewRun, lane: str) -> int | None:
        now = self._transaction.now
        due_at = now + new.delay if new.due_at is None else max(now, new.due_at)
        facts = (new.id, new.task, None, lane, new.user, new.session, new.priority, new.max_concurrent)
        line = Line(FRESH, 0, number, *facts, new=True)
        self._placed.append((new, line, due_at))
        # While runs that are due wait to be moved, a session's newcomer lines up behind them.
        if due_at <= now and not (self._more_due and line.session is not None):
            return self._transaction.flow.join(line, line.max_concurrent)
        self._transaction.shelves.put_due(line, due_at)
        return None

    def _fetch(self, batch: Sequence[NewRun]) -> None:
        """Load what the rules will ask about these runs, in a few queries instead of some per run."""
        users: dict[str, set[str]] = {}
        turns: dict[str, set[tuple[str | None, int]]] = {}
        for new in batch:
            if new.user is not None:
                users.setdefault(self._lanes[new.lane], set()).add(new.user)
                turns.setdefault(self._lanes[new.lane], set()).add((new.user, new.priority))
        self._transaction.books.lanes.fetch(users, turns)
        self._transaction.books.sessions.fetch({new.session for new in batch if new.session is not None})


def _lane(transaction: Transaction, name: str) -> str:
    return name if transaction.books.lanes.knows(name) else MAIN


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
