"""Accepts submissions one by one, for those that are not simply put into a lane.

Such a submission is merged, steers, is refused, displaces others, or has a key. The rules are in
`core.lifecycle.acceptance`. They read and change other runs through `RunControl`, after the part of the batch that was
accepted before is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from laneway.core.common.keys import KeyEntry
from laneway.core.lifecycle.acceptance import Acceptance, note
from laneway.core.queue.turns import FRESH
from laneway.core.records.policy import SessionIntent
from laneway.core.records.run import COME_AGAIN, MessageKind, NewRun, Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import submission_counts
from laneway.stores.tables.rows.controlled_run import ControlledRun
from laneway.stores.tables.rows.keys import Keys
from laneway.stores.tables.rows.messages import takers
from laneway.stores.tables.rows.run_row import RunRow, encode_ties, row_of
from laneway.stores.tables.rows.settings import disabled_tasks
from laneway.stores.tables.rules.inboxes import Inboxes
from laneway.stores.tables.rules.run_control import RunControl
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.transaction import Transaction

_SQL = sql_names("acceptance")
_INSERT, _SET_RETRY = sql_names("submissions")["insert"], sql_names("submissions")["set_retry"]


def known(db: Database, batch: Sequence[NewRun]) -> dict[str, Receipt]:
    """Return, by id, the first receipts of those that were submitted before."""
    ids = as_json({new.id for new in batch})
    lanes: dict[str, str] = dict(db.execute(_SQL["known"], (ids,)).fetchall())
    taken = takers(db, (new.id for new in batch))
    receipts: dict[str, Receipt] = {}
    for new in batch:
        # An unread message may have become a run since: its first receipt is that of the message.
        if new.id in taken:
            kind, lane, taker = taken[new.id]
            receipts[new.id] = _taken_by(taker, kind, note(lane, new))
        elif new.id in lanes:
            receipts[new.id] = Receipt(ReceiptOutcome.ACCEPTED, new.id, note(lanes[new.id], new))
    return receipts


def _taken_by(taker: str, kind: MessageKind, said: str | None) -> Receipt:
    if kind is MessageKind.ANSWERED:
        return Receipt(ReceiptOutcome.STEERED, taker, Why.ANSWERED.value)
    return Receipt(ReceiptOutcome(kind.value), taker, said)


class AcceptedRun(msgspec.Struct, gc=False):
    """A run that was accepted; `arrival` is its session intent, as JSON, if it joins later."""

    row: RunRow
    due_at: int
    retry_of: str | None
    arrival: str | None = None


class TableIntake:
    """Implements `core.lifecycle.acceptance.Intake`: what the rules read and write during acceptance.

    `sure` makes sure that no id of the batch was seen before, and `flush` also that the tables hold what was `made`.
    `behind`: see `is_behind`.
    """

    def __init__(
        self,
        transaction: Transaction,
        run_control: RunControl,
        batch: Sequence[NewRun],
        sure: Callable[[], None],
        flush: Callable[[], None],
        *,
        behind: bool,
    ) -> None:
        self._transaction, self._db, self._now = transaction, transaction.db, transaction.now
        self._run_control, self._sure, self._flush, self._behind = run_control, sure, flush, behind
        self._acceptance: Acceptance[RunRow, ControlledRun] = Acceptance(transaction.flow, run_control, self)
        self.disabled = disabled_tasks(transaction.db) if transaction.header.disabled else set()
        self.keys = Keys(transaction.db, batch)
        self.made: list[AcceptedRun] = []

    def accept(self, new: NewRun, lane: str) -> Receipt:
        """Return the receipt; see `RunStore.submit`. The id is taken for new unless `sure` finds otherwise."""
        return self._acceptance.accept(new, lane, self._now)

    def write(self) -> None:
        """Write the accepted runs and their keys."""
        self._db.insert_new(_INSERT, [row_of(run.row, run.arrival, self._now, run.due_at) for run in self.made])
        self._db.each(_SET_RETRY, [(run.retry_of, run.row.number) for run in self.made if run.retry_of is not None])
        self.keys.write()
        self.made.clear()

    # For the core

    def key(self, new: NewRun) -> KeyEntry | None:
        """Return the entry of the submission's key; see `Intake`."""
        entry = self.keys.find(new)
        if entry is not None:
            self._flush()
        return entry

    def remember(self, new: NewRun, run_id: str, number: int) -> None:
        """Let the submission's key stand for a run; see `Intake`."""
        self.keys.remember(new, run_id, number, self._now)

    def state_of(self, run_id: str) -> RunState | None:
        """Return the state of a run; see `Intake`."""
        row = self._db.execute(_SQL["state"], (run_id,)).fetchone()
        return None if row is None else RunState(row[0])

    def is_disabled(self, task: str) -> bool:
        """Return whether the task is disabled; see `Intake`."""
        return task in self.disabled

    def oldest(self, lane: str, most: int) -> Sequence[ControlledRun]:
        """Return the oldest runs that were never started; see `Intake`."""
        self._flush()
        return self._run_control.read([number for (number,) in self._db.execute(_SQL["oldest"], (lane, most))])

    def append(self, taker: ControlledRun, new: NewRun, lane: str, kind: MessageKind) -> None:
        """Append a message to a run; see `Intake`."""
        self._run_control.take(taker, new, lane, kind)

    def put_off(self, taker: ControlledRun, due_at: int) -> None:
        """Postpone a run; see `Intake`."""
        shelves = self._transaction.shelves
        shelves.remove(taker, taker.hint, taker.due_at)
        taker.due_at = due_at
        shelves.put_due(taker, due_at)
        Inboxes(self._transaction).put_off(taker, due_at)

    def make(self, new: NewRun, lane: str, due_at: int) -> RunRow:
        """Make a run; see `Intake`."""
        facts = (new.id, new.task, new.args, lane, new.user, new.session, new.priority)
        row = RunRow(FRESH, 0, self._transaction.next_number(), *facts, tied=encode_ties(new))
        if new.retry_of is not None:
            self._sure()
            Inboxes(self._transaction).inherit(row, new.retry_of)
        self._transaction.counts.lanes[lane].pending += 1
        self.made.append(AcceptedRun(row, due_at, new.retry_of))
        return row

    def keep(self, run: RunRow, due_at: int, arrival: SessionIntent | None) -> None:
        """Put a run on the due shelf; see `Intake`."""
        self._transaction.shelves.put_due(run, due_at)
        if arrival is not None:
            self.made[-1].arrival = msgspec.json.encode(arrival).decode()

    def is_behind(self) -> bool:
        """Return whether due runs have not joined yet; see `Intake`."""
        return self._behind

    def count(self, lane: str, what: str) -> None:
        """Count the outcome of a submission; see `Intake`."""
        submission_counts.count(self._db, lane, what)

    def refuse(self, lane: str, why: Why) -> None:
        """Count a refusal, unless it repeats one that was answered before; see `Intake`."""
        self._sure()
        if why not in COME_AGAIN:
            self.count(lane, f"refused {why}")
