"""Submitting: accept a batch, each run at most once.

The batch is written in the belief that its ids are new, which the unique index checks for nothing. If one is not, all
of it is undone and done again, this time with a look at what is there: a repeated submission is rare and may cost more.
What the index cannot tell, because nothing would be written, or would be before the index is asked, is made sure of
first: see `Batch.sure`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from laneway.core.acceptance import note
from laneway.core.policy import MAIN
from laneway.core.run import Alike, NewRun, Receipt, ReceiptOutcome
from laneway.core.turns import FRESH
from laneway.stores.tables.arriving import Arriving, known
from laneway.stores.tables.database import Database, DuplicateError, Question
from laneway.stores.tables.effects import Ahead, Effects
from laneway.stores.tables.expiring import begin
from laneway.stores.tables.lines import encode_ties
from laneway.stores.tables.plain import is_alone, look_for, submit_plain
from laneway.stores.tables.remembering import Memory
from laneway.stores.tables.standing import refuse
from laneway.stores.tables.starting import who_takes
from laneway.stores.tables.statements import Row, as_json, sql_names
from laneway.stores.tables.steering import Steering
from laneway.stores.tables.transaction import Transaction, glancing
from laneway.stores.tables.waking import wake_for_work

_SQL = sql_names("submitting")
_PUT_READY = sql_names("shelves")["put_ready"]
_KNOWN = sql_names("arriving")["known"]

_ACCEPTED = ReceiptOutcome.ACCEPTED
_REMEMBERED = {ReceiptOutcome.ACCEPTED, ReceiptOutcome.MERGED, ReceiptOutcome.STEERED}
_SURE = 16  # ids of so few are looked for ahead: to wait for the index takes longer
SHORT = 256  # so many runs that are alike are written in less time than it takes to hand them over
SMALL = 256 * 1024  # characters of arguments: more take a loop longer than it should be held up
FEW = 4  # so many runs that are alike are not worth a statement of their own


def ahead(batch: Sequence[NewRun]) -> Ahead:
    """Return what the submission will ask first, if all are like the first of them."""

    def questions(_: Memory | None, __: Collection[str]) -> Iterator[Question]:
        if batch and (look := look_for(batch[0])) is not None:
            yield look
            if is_alone(batch):
                yield who_takes(batch[0].lane)
            if len(batch) <= _SURE:
                yield Question(_KNOWN, (as_json([new.id for new in batch]),))
        else:
            yield from glancing()

    return questions


def is_short(batch: Sequence[NewRun]) -> bool:
    """Tell whether this is soon done: runs that are alike, with little to write, and go to the end of a lane."""
    if isinstance(batch, Alike):
        short = 0 < len(batch) <= SHORT and sum(map(len, batch.args)) <= SMALL
    else:
        short = len(batch) == 1 and len(batch[0].args) <= SMALL
    return short and look_for(batch[0]) is not None


class _RepeatedError(Exception):
    """An id was seen before; nothing of the batch is written."""


def submit(db: Database, effects: Effects, batch: Sequence[NewRun], now: int, *, posted: bool = False) -> list[Receipt]:
    """Accept the batch; see `RunStore.submit`. What was `posted` before a move began is still taken in."""
    receipts = submit_plain(db, effects, batch, now)
    if receipts is not None:
        return receipts
    transaction = begin(db, effects, now)
    if transaction.glance.moving and not posted:
        refuse(db, new=True)
    try:
        receipts = Batch(transaction, effects, batch).accept()
    except (DuplicateError, _RepeatedError):
        # Invariant: the runs are written before anything else, so they are all there is to undo.
        db.execute(_SQL["undo"], (transaction.glance.accepted + 1,))
        receipts = Batch(Transaction(db, now), effects, batch, known(db, batch)).accept()
    if transaction.glance.resting:
        wake_for_work(db, effects, now)
    return receipts


class Batch:
    """One batch on its way in. Most runs need no session, no delay and no parked set: they go straight to a lane.

    `known` are the receipts of what was submitted before; None while nobody has looked.
    """

    def __init__(
        self,
        transaction: Transaction,
        effects: Effects,
        batch: Sequence[NewRun],
        known: dict[str, Receipt] | None = None,
    ) -> None:
        self._transaction, self._batch, self._known = transaction, batch, known
        self._careful = known is not None
        steering = Steering(transaction, effects, flush=self.flush)
        behind = transaction.make_due()
        self._arriving = Arriving(transaction, steering, batch, self.sure, self.flush, behind=behind)
        self._lanes = {name: _lane(transaction, name) for name in {new.lane for new in batch}}
        self._books = {lane: transaction.books.lanes[lane] for lane in self._lanes.values()}
        self._fetch(batch)
        self._alike: list[tuple[int, int, int, int]] = []  # the first one's index, number and rank, and how many follow
        self._rows: list[Row] = []
        self._ready: list[Row] = []
        self._retries: list[Row] = []
        self._receipts: list[Receipt] = []

    def accept(self) -> list[Receipt]:
        """Give each its place and its receipt, in order, and write it all."""
        batch, index = self._batch, 0
        if self._transaction.glance.taken and any(new.session is not None for new in batch):
            # A message that was taken is no run, so the index does not know its id.
            self.sure()
        while index < len(batch):
            if self._careful:
                self._receipts.append(self.accept_one(batch[index]))
                index += 1
            elif self._is_plain(batch[index]):
                end = self._alike_up_to(index)
                self._enter(index, end)
                index = end
            else:
                self._receipts.append(self._arriving.accept(batch[index], self._lanes[batch[index].lane]))
                index += 1
        self.write()
        return self._receipts

    def accept_one(self, new: NewRun) -> Receipt:
        """Give one of the batch its place and its receipt, once somebody has looked what is `known`."""
        assert self._known is not None
        receipt = self._known.get(new.id)
        if receipt is None:
            receipt = self._arriving.accept(new, self._lanes[new.lane])
            if receipt.outcome in _REMEMBERED:
                self._known[new.id] = msgspec.structs.replace(receipt, position=None)
        return receipt

    def write(self) -> None:
        """Write what was accepted, and all that it changed."""
        self._write_runs()
        self._transaction.write()

    def sure(self) -> None:
        """Make sure that no id of the batch was seen before, in the store or in the batch; raise if one was."""
        if self._known is None:
            self._known = known(self._transaction.db, self._batch)
            if self._known or len({new.id for new in self._batch}) < len(self._batch):
                raise _RepeatedError

    def flush(self) -> None:
        """Write what was accepted so far, so that the tables say where each run is, and go on; the counts can wait."""
        self.sure()
        self._write_runs()
        self._transaction.write_shelves()

    def _is_plain(self, new: NewRun) -> bool:
        if new.session is not None or new.delay or new.due_at is not None or new.key is not None:
            return False
        book = self._books[self._lanes[new.lane]]
        most = book.lane.max_pending
        if (most is not None and book.pending >= most) or new.task in self._arriving.disabled:
            return False
        return new.user is None or not book.seats[new.user].parked

    def _enter(self, start: int, end: int) -> None:
        transaction, new, count = self._transaction, self._batch[start], end - start
        lane, number = self._lanes[new.lane], transaction.accepted + 1
        book = self._books[lane]
        said, ahead = note(lane, new), book.pending
        self._receipts += [
            Receipt(_ACCEPTED, new.id, said, before or None) for before, new in enumerate(self._batch[start:end], ahead)
        ]
        rank = book.enter_fresh(new.user, new.priority, count)
        book.pending += count
        transaction.accepted += count
        if count >= FEW:
            self._alike.append((start, number, rank, count))
        for nth, new in enumerate(self._batch[start:end]):
            if new.retry_of is not None:
                self._retries.append((new.retry_of, number + nth))
            if count < FEW:
                facts = (new.task, lane, new.user, None, new.priority, None, transaction.now, transaction.now)
                self._rows.append((number + nth, new.id, *facts, rank + nth, new.args, encode_ties(new)))
                self._ready.append((lane, rank + nth, number + nth, FRESH))

    def _alike_up_to(self, start: int) -> int:
        """Return where the runs end that are like the one at `start`, but for ids and arguments, and have room."""
        batch = self._batch
        new = batch[start]
        if new.ties is not None:
            return start + 1
        task, lane, user, priority = new.task, new.lane, new.user, new.priority
        book = self._books[self._lanes[lane]]
        most = book.lane.max_pending
        last = len(batch) if most is None else min(len(batch), start + most - book.pending)
        end = start + 1
        while end < last:
            new = batch[end]
            if new.task != task or new.user != user or new.lane != lane or new.priority != priority:
                break
            if new.session is not None or new.delay or new.due_at is not None or new.key is not None:
                break
            if new.ties is not None:
                break
            end += 1
        return end

    def _write_runs(self) -> None:
        """Write the runs and their places."""
        db, now = self._transaction.db, self._transaction.now
        db.insert_new(_SQL["insert"], self._rows)
        for index, number, rank, count in self._alike:
            new = self._batch[index]
            shared = (new.task, self._lanes[new.lane], new.user, new.priority, now)
            own = [text for new in self._batch[index : index + count] for text in (new.id, new.args)]
            db.insert_alike(_SQL["insert_alike"], count, number, rank, shared, own)
        db.each(_SQL["set_retry"], self._retries)
        self._arriving.write()
        db.insert(_PUT_READY, self._ready)
        for index, number, rank, count in self._alike:
            lane = self._lanes[self._batch[index].lane]
            db.insert_alike(_SQL["ready_alike"], count, number, rank, (lane,))
        self._rows, self._ready, self._retries, self._alike = [], [], [], []

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
