"""Messages: submissions that another run took; unread ones become runs when that run ends.

A message is a row beside the run that took it, and an event in that run's log. The log of a run that was never started
begins before its `started` then: its row in `outcome` counts the events, as for one that was paused and resumed.

*Crash*: unread messages become runs in the transaction that ends the run: none is lost, and none is there twice.
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
# The events of messages. An answer has an event of its own.
_KINDS = {MessageKind.MERGED: events.MERGED, MessageKind.STEERED: events.STEERED}


class Inboxes:
    """Appends messages to runs, and makes runs of unread ones."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction, self._db = transaction, transaction.db

    def append(self, run: LeasedRun, new: NewRun, lane: str, kind: MessageKind, *, leased: bool) -> None:
        """Append a message to the run."""
        [[last]] = self._db.execute(_SQL["last"], (run.number, kind.value)).fetchall()
        message = as_message(new.id, kind, last + 1, new.task, new.args, lane, new.user, new.priority, new.key)
        self._put(run, [message], moved=False, leased=leased)

    def put_off(self, run: LeasedRun, due_at: int) -> None:
        """Write the new due time of a run that took a message."""
        self._db.execute(_SQL["keep_log"], (run.number, run.events, due_at))

    def counts(self, runs: Iterable[RunRow]) -> dict[int, int]:
        """Return the number of messages of these runs; runs without messages are left out."""
        if not self._transaction.inboxes:
            return {}
        return dict(self._db.execute(_SQL["counts"], (as_json(run.number for run in runs),)).fetchall())

    def read(self, run: RunRow, count: int) -> None:
        """Write how many messages of its inbox the run has read."""
        self._db.execute(_SQL["set_read"], (count, run.number))

    def close(self, run: RunRow, *, cleared: bool) -> None:
        """Close the inbox of an ended run: unread messages become runs, or are dropped if it is `cleared`."""
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
        """Merge into a retry the messages that were merged into the first run, if that is still there."""
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
