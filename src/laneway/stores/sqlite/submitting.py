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
from laneway.stores.sqlite.statements import Row, as_json, each, insert, insert_alike, load
from laneway.stores.sqlite.transaction import Transaction
from laneway.stores.sqlite.waking import wake_for_work

_SQL = load("submitting")
_PUT_READY = load("shelves")["put_ready"]

_ACCEPTED = ReceiptOutcome.ACCEPTED
UNKNOWN = "lane_unknown"  # the note on a receipt whose run was sent to another lane
FEW = 4  # so many runs that are alike are not worth a statement of their own


def submit(db: sqlite3.Connection, effects: Effects, batch: Sequence[NewRun], now: int) -> list[Receipt]:
    """Accept the batch; see `RunStore.submit`."""
    transaction = Transaction(db, now)
    try:
        receipts = _accept(transaction, batch)
    except sqlite3.IntegrityError:
        # Invariant: the runs are written before anything else, so they are all there is to undo.
        db.execute(_SQL["undo"], (transaction.glance.accepted + 1,))
        receipts = _accept_the_rest(Transaction(db, now), batch)
    if transaction.glance.resting:
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
    acceptance = _Acceptance(transaction, batch)
    acceptance.accept_all()
    acceptance.write()
    return acceptance.receipts


class _Acceptance:
    """One batch on its way in. Most runs need no session, no delay and no parked set: they go straight to a lane."""

    def __init__(self, transaction: Transaction, batch: Sequence[NewRun]) -> None:
        self._transaction, self._batch = transaction, batch
        self._more_due = transaction.make_due()
        self._first = transaction.glance.accepted + 1
        self._lanes = {name: _lane(transaction, name) for name in {new.lane for new in batch}}
        self._books = {lane: transaction.books.lanes[lane] for lane in self._lanes.values()}
        self._fetch(batch)
        self._alike: list[tuple[int, int, int]] = []  # the first one's index and rank, and how many follow alike
        self._rows: list[Row] = []
        self._ready: list[Row] = []
        self._placed: list[tuple[NewRun, Line, int]] = []
        self.receipts: list[Receipt] = []

    def accept_all(self) -> None:
        """Give each run its place and its receipt, in order."""
        batch, index = self._batch, 0
        while index < len(batch):
            new = batch[index]
            lane = self._lanes[new.lane]
            if self._is_plain(new, lane):
                end = _alike_up_to(batch, index)
                self._enter(index, end, lane)
                note = None if lane == new.lane else UNKNOWN
                self.receipts += [Receipt(_ACCEPTED, new.id, note) for new in batch[index:end]]
                index = end
            else:
                self.receipts.append(_receipt(new, lane, self._place(self._first + index, new, lane)))
                index += 1

    def write(self) -> None:
        """Write the runs, and what the rules changed."""
        db, now = self._transaction.db, self._transaction.now
        insert(db, _SQL["insert"], self._rows + [_row(*placed, now) for placed in self._placed])
        for index, rank, count in self._alike:
            new = self._batch[index]
            shared = (new.task, self._lanes[new.lane], new.user, new.priority, now)
            own = [text for new in self._batch[index : index + count] for text in (new.id, new.args)]
            insert_alike(db, _SQL["insert_alike"], count, self._first + index, rank, shared, own)
        retries = [(new.retry_of, number) for number, new in enumerate(self._batch, self._first) if new.retry_of]
        each(db, _SQL["set_retry"], retries)
        self._transaction.shelves.write()
        insert(db, _PUT_READY, self._ready)
        for index, rank, count in self._alike:
            lane = self._lanes[self._batch[index].lane]
            insert_alike(db, _SQL["ready_alike"], count, self._first + index, rank, (lane,))
        self._transaction.books.write()

    def _is_plain(self, new: NewRun, lane: str) -> bool:
        if new.session is not None or new.delay or new.due_at is not None:
            return False
        return new.user is None or not self._books[lane].seats[new.user].parked

    def _enter(self, start: int, end: int, lane: str) -> None:
        new, now = self._batch[start], self._transaction.now
        rank = self._books[lane].enter_fresh(new.user, new.priority, end - start)
        if end - start >= FEW:
            self._alike.append((start, rank, end - start))
            return
        for nth, new in enumerate(self._batch[start:end]):
            number = self._first + start + nth
            facts = (new.task, lane, new.user, None, new.priority, None, now, now, rank + nth, new.args)
            self._rows.append((number, new.id, *facts))
            self._ready.append((lane, rank + nth, number, FRESH))

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


def _alike_up_to(batch: Sequence[NewRun], start: int) -> int:
    """Return where the runs end that are like the one at `start`, but for their ids and arguments."""
    new = batch[start]
    task, lane, user, priority = new.task, new.lane, new.user, new.priority
    end = start + 1
    while end < len(batch):
        new = batch[end]
        if new.task != task or new.user != user or new.lane != lane or new.priority != priority:
            break
        if new.session is not None or new.delay or new.due_at is not None:
            break
        end += 1
    return end


def _lane(transaction: Transaction, name: str) -> str:
    return name if transaction.books.lanes.knows(name) else MAIN


def _receipt(new: NewRun, lane: str, position: int | None) -> Receipt:
    return Receipt(_ACCEPTED, new.id, None if lane == new.lane else UNKNOWN, position)


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
        line.rank,
        new.args,
    )
