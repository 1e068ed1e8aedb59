"""Submissions: accept a batch, each run at most once.

**A uniform batch** has plain runs of one task for one lane. No run needs a decision of its own, so one read of the
lane, one place in its order for all runs, and a handful of statements are enough. In some cases (no such lane, a bound,
a disabled task, a part in a move, runs that are due, a question past its deadline, an id that exists) it is accepted
like any other batch.

**Any other batch** is accepted run by run and written as if all ids were new; the unique index checks this at no cost.
If an id exists, everything is undone and repeated with a look at the existing ids: a repeated submission is rare and
may cost more. Some cases look first, see `Batch.sure`: those that write no run, and those that write something before
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat

import msgspec

from laneway.core.queue.turns import LaneBook, Ledger, Seat, Turn, VirtualTime
from laneway.core.records.policy import MAIN
from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome, UniformBatch
from laneway.stores.tables.rules.acceptance import TableIntake, known
from laneway.stores.tables.rules.late_questions import begin
from laneway.stores.tables.rules.run_control import RunControl
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.commit_options import Prefetch
from laneway.stores.tables.runtime.move_state import refuse
from laneway.stores.tables.runtime.wakeups import wake_for_work
from laneway.stores.tables.sql.database import Database, DuplicateError, Query
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.lane_counts import lane_of
from laneway.stores.tables.state.transaction import Transaction, header_queries

_SQL, _LEDGERS = sql_names("submissions"), sql_names("counts")
_KNOWN = sql_names("acceptance")["known"]

_ACCEPTED = ReceiptOutcome.ACCEPTED
_REMEMBERED = {ReceiptOutcome.ACCEPTED, ReceiptOutcome.MERGED, ReceiptOutcome.STEERED}
_SURE = 16  # ids of a batch up to this size are prefetched: to wait for the index takes longer


def prefetch(batch: Sequence[NewRun]) -> Prefetch:
    """Return the first queries of the submission, if all its runs are like the first one."""

    def questions() -> Iterator[Query]:
        if batch and batch[0].is_plain:
            yield Query(_SQL["look"], (batch[0].lane, batch[0].task))
            if len(batch) <= _SURE:
                yield Query(_KNOWN, (as_json([new.id for new in batch]),))
        else:
            yield from header_queries()

    return questions


def submit_uniform(db: Database, after_commit: AfterCommit, batch: Sequence[NewRun], now: int) -> list[Receipt] | None:
    """Accept a uniform batch; None, with nothing written, if it is not uniform or has to be accepted run by run."""
    if not batch or not _is_uniform(batch):
        return None
    task, lane = batch[0].task, batch[0].lane
    rows = db.execute(_SQL["look"], (lane, task)).fetchall()
    if not rows:
        return None
    accepted, due_at, until, resting, limit, active, pending, last, waiting, *_ = rows[0]
    if (due_at is not None and due_at <= now) or (until is not None and until <= now):
        return None
    turns: Ledger[tuple[str | None, int], Turn] = Ledger(Turn)
    turn = turns[None, 0] = Turn() if last is None else Turn(last, waiting)
    paces = {row[-3]: VirtualTime(*row[-2:]) for row in rows if row[-3] is not None}
    count, first = len(batch), accepted + 1
    rank = LaneBook(lane_of(lane, limit), paces, turns, Ledger(Seat), active, pending).enter_fresh(None, 0, count)
    ids, args = [new.id for new in batch], [new.args for new in batch]
    try:
        db.insert_uniform(_SQL["insert_uniform"], first, rank, (task, lane, now), ids, args)
    except DuplicateError:
        # Invariant: the runs are written before anything else, so they are all there is to undo.
        db.execute(_SQL["undo"], (first,))
        return None
    db.execute(_SQL["ready_uniform"], (first,))
    db.execute(_LEDGERS["set_turn"], (lane, "", 0, turn.last, turn.waiting))
    db.execute(_LEDGERS["set_runs"], (active, pending + count, lane))
    db.execute(_LEDGERS["set_pace"], (lane, 0, paces[0].v, paces[0].ready))
    if resting:
        wake_for_work(db, after_commit, now)
    before = chain([pending or None], range(pending + 1, pending + count))
    return list(map(Receipt, repeat(_ACCEPTED), ids, repeat(None), before))


def _is_uniform(batch: Sequence[NewRun]) -> bool:
    task, lane = batch[0].task, batch[0].lane
    return isinstance(batch, UniformBatch) or all(
        new.is_plain and new.task == task and new.lane == lane for new in batch
    )


class _RepeatedError(Exception):
    """An id exists; nothing of the batch is written."""


def submit(
    db: Database, after_commit: AfterCommit, batch: Sequence[NewRun], now: int, *, posted: bool = False
) -> list[Receipt]:
    """Accept the batch; see `RunStore.submit`. Submissions `posted` before a move began are still accepted."""
    receipts = submit_uniform(db, after_commit, batch, now)
    if receipts is not None:
        return receipts
    transaction = begin(db, after_commit, now)
    if transaction.header.moving and not posted:
        refuse(db, new=True)
    try:
        receipts = Batch(transaction, after_commit, batch).accept()
    except (DuplicateError, _RepeatedError):
        # Invariant: the runs are written before anything else, so they are all there is to undo.
        db.execute(_SQL["undo"], (transaction.header.accepted + 1,))
        receipts = Batch(Transaction(db, now), after_commit, batch, known(db, batch)).accept()
    if transaction.header.resting:
        wake_for_work(db, after_commit, now)
    return receipts


class Batch:
    """A batch that is accepted run by run.

    `known` are the receipts of submissions whose ids exist; None before they were looked up.
    """

    def __init__(
        self,
        transaction: Transaction,
        after_commit: AfterCommit,
        batch: Sequence[NewRun],
        known: dict[str, Receipt] | None = None,
    ) -> None:
        self._transaction, self._batch, self._known = transaction, batch, known
        self._careful = known is not None
        run_control = RunControl(transaction, after_commit, flush=self.flush)
        behind = transaction.make_due()
        self._intake = TableIntake(transaction, run_control, batch, self.sure, self.flush, behind=behind)
        self._lanes = {name: _lane(transaction, name) for name in {new.lane for new in batch}}
        self._fetch(batch)

    def accept(self) -> list[Receipt]:
        """Accept all in order, write them, and return their receipts."""
        batch = self._batch
        if self._transaction.header.taken and any(new.session is not None for new in batch):
            # A message is no run, so its id is not in the index.
            self.sure()
        accept = self.accept_one if self._careful else self._accept_new
        receipts = [accept(new) for new in batch]
        self.write()
        return receipts

    def _accept_new(self, new: NewRun) -> Receipt:
        return self._intake.accept(new, self._lanes[new.lane])

    def accept_one(self, new: NewRun) -> Receipt:
        """Accept one submission of the batch, after `known` was looked up; return its receipt."""
        assert self._known is not None
        receipt = self._known.get(new.id)
        if receipt is None:
            receipt = self._intake.accept(new, self._lanes[new.lane])
            if receipt.outcome in _REMEMBERED:
                self._known[new.id] = msgspec.structs.replace(receipt, position=None)
        return receipt

    def write(self) -> None:
        """Write the accepted runs, and everything they changed."""
        self._intake.write()
        self._transaction.write()

    def sure(self) -> None:
        """Raise _RepeatedError if an id of the batch exists, or is in the batch twice."""
        if self._known is None:
            self._known = known(self._transaction.db, self._batch)
            if self._known or len({new.id for new in self._batch}) < len(self._batch):
                raise _RepeatedError

    def flush(self) -> None:
        """Write the runs accepted so far, so that the tables show where each is; counts are written at the end."""
        self.sure()
        self._intake.write()
        self._transaction.write_shelves()

    def _fetch(self, batch: Sequence[NewRun]) -> None:
        """Load what the rules need for these runs, in a few queries instead of several per run."""
        users: dict[str, set[str]] = {}
        turns: dict[str, set[tuple[str | None, int]]] = {}
        for new in batch:
            turns.setdefault(self._lanes[new.lane], set()).add((new.user, new.priority))
            if new.user is not None:
                users.setdefault(self._lanes[new.lane], set()).add(new.user)
        self._transaction.counts.lanes.fetch(users, turns)
        self._transaction.counts.sessions.fetch({new.session for new in batch if new.session is not None})


def _lane(transaction: Transaction, name: str) -> str:
    return name if transaction.counts.lanes.knows(name) else MAIN
