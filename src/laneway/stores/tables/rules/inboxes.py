"""Messages: submissions that another run took, and what becomes of those it never read.

A message is a row beside the run that took it, and an event in that run's log. The log of a run that was never started
begins before its `started` then: its row in `outcome` counts the events, as for one that was paused and resumed.

*Crash*: what is left unread becomes runs in the transaction that ends the run: it is never lost, and never there twice.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from laneway.core.lifecycle.arrivals import left_over
from laneway.core.queue.turns import FRESH
from laneway.core.records import events
from laneway.core.records.events import draft
from laneway.core.records.run import Message, MessageKind, NewRun
from laneway.stores.tables.rows import keys, submission_counts
from laneway.stores.tables.rows.leased_run import LeasedRun, log_on
from laneway.stores.tables.rows.messages import as_message, message_row
from laneway.stores.tables.rows.run_row import RunRow, row_of
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.transaction import Transaction

_SQL = sql_names("inboxes")
_INSERT = sql_names("submissions")["insert"]
# One that is an answer is told of as that.
_KINDS = {MessageKind.MERGED: events.MERGED, MessageKind.STEERED: events.STEERED}


class Inboxes:
    """Appends messages to runs, and makes runs of what was left unread."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction, self._db = transaction, transaction.db

    def append(self, run: LeasedRun, new: NewRun, lane: str, kind: MessageKind, *, leased: bool) -> None:
        """Let the run take a message."""
        [[last]] = self._db.execute(_SQL["last"], (run.number, kind.value)).fetchall()
        message = as_message(new.id, kind, last + 1, new.task, new.args, lane, new.user, new.priority, new.key)
        self._put(run, [message], moved=False, leased=leased)

    def put_off(self, run: LeasedRun, due_at: int) -> None:
        """Keep that a run that took a message is due later."""
        self._db.execute(_SQL["keep_log"], (run.number, run.events, due_at))

    def counts(self, runs: Iterable[RunRow]) -> dict[int, int]:
        """Return how many messages these runs took, of those that took any."""
        if not self._transaction.inboxes:
            return {}
        return dict(self._db.execute(_SQL["counts"], (as_json(run.number for run in runs),)).fetchall())

    def read(self, run: RunRow, count: int) -> None:
        """Note how many of its inbox the run has read."""
        self._db.execute(_SQL["set_read"], (count, run.number))

    def close(self, run: RunRow, *, cleared: bool) -> None:
        """Hear that the run has ended: what is unread in its inbox becomes runs, or is dropped with it."""
        unread = [as_message(*row) for row in self._db.execute(_SQL["unread"], (run.number,))]
        self._db.execute(_SQL["close"], (run.number,))
        if cleared:
            for message in unread:
                submission_counts.count(self._db, message.lane, "dropped unread")
                keys.pass_on(self._db, message, run.number, None)
        else:
            for new, messages in left_over(unread, run.session):
                made = self._make(new, messages[1:])
                for message in messages:
                    keys.pass_on(self._db, message, run.number, made)

    def inherit(self, run: RunRow, from_id: str) -> None:
        """Merge into a run what was merged into the one that it tries again, if that is still known."""
        merged = [as_message(*row) for row in self._db.execute(_SQL["merged"], (from_id,))]
        if merged:
            facts = (run.id, run.task, run.args, run.lane, run.user, run.session, run.priority)
            self._put(LeasedRun(FRESH, 0, run.number, *facts, noted=True), merged, moved=True, leased=False)

    def _make(self, new: NewRun, rest: list[Message]) -> RunRow:
        transaction, now = self._transaction, self._transaction.now
        facts = (new.id, new.task, new.args, new.lane, new.user, new.session, new.priority)
        run = LeasedRun(FRESH, 0, transaction.next_number(), *facts, noted=True)
        if rest:
            self._put(run, [_moved(message, nth) for nth, message in enumerate(rest, 1)], moved=True, leased=False)
        transaction.counts.lanes[run.lane].pending += 1
        transaction.flow.join(run)
        self._db.insert_new(_INSERT, [row_of(run, None, now, now)])
        return run

    def _put(self, run: LeasedRun, taken: list[Message], *, moved: bool, leased: bool) -> None:
        self._db.insert(_SQL["put"], [message_row(run, message, moved=moved) for message in taken])
        told = [message for message in taken if message.kind in _KINDS]
        if told:
            drafts = tuple(draft(_KINDS[message.kind], {"message": message.id, "nth": message.nth}) for message in told)
            log_on(self._db, run, drafts, self._transaction.now, leased=leased)
        self._transaction.inboxes = True


def _moved(message: Message, nth: int) -> Message:
    return msgspec.structs.replace(message, kind=MessageKind.MERGED, nth=nth)
