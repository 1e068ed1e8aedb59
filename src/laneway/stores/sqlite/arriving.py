"""Arriving: submissions that are not simply put into a lane, one by one.

They are merged, steered or refused, displace others, or come with a key. The rules are `core.acceptance`; what they
look at and do to other runs goes through `Steering`, on tables that hold whatever of the batch was accepted before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from laneway.core.acceptance import Acceptance
from laneway.core.keys import KeyEntry
from laneway.core.policy import Arrival
from laneway.core.run import MessageKind, NewRun, Receipt, Why
from laneway.core.states import RunState
from laneway.core.turns import FRESH
from laneway.stores.sqlite import counts
from laneway.stores.sqlite.inboxes import Inboxes
from laneway.stores.sqlite.keys import Keys
from laneway.stores.sqlite.lines import Line
from laneway.stores.sqlite.rules import disabled_tasks
from laneway.stores.sqlite.statements import load
from laneway.stores.sqlite.steering import Steered, Steering
from laneway.stores.sqlite.transaction import Transaction

_SQL = load("arriving")


class Made(msgspec.Struct, gc=False):
    """A run that was made of a submission; `arrival` is what it says, as JSON, when it joins later."""

    line: Line
    due_at: int
    retry_of: str | None
    arrival: str | None = None


class Arriving:
    """Accepts, merges, steers and refuses; fulfils `core.acceptance.Intake`.

    `sure` makes sure that no id of the batch was seen before, and `flush` also that the tables hold what was `made`.
    """

    def __init__(
        self,
        transaction: Transaction,
        steering: Steering,
        batch: Sequence[NewRun],
        sure: Callable[[], None],
        flush: Callable[[], None],
    ) -> None:
        self._transaction, self._db, self._now = transaction, transaction.db, transaction.now
        self._steering, self._sure, self._flush = steering, sure, flush
        self._more_due = transaction.make_due()
        self._acceptance: Acceptance[Line, Steered] = Acceptance(transaction.flow, steering, self)
        self.disabled = disabled_tasks(transaction.db) if transaction.glance.disabled else set()
        self.keys = Keys(transaction.db, batch)
        self.made: list[Made] = []

    def accept(self, new: NewRun, lane: str) -> Receipt:
        """Return what became of it; see `RunStore.submit`. Its id is new, unless `sure` finds out."""
        return self._acceptance.accept(new, lane, self._now)

    # What the core asks

    def key(self, new: NewRun) -> KeyEntry | None:
        """Return what the submission's key stands for; see `Intake`."""
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
        """Tell whether the task is disabled; see `Intake`."""
        return task in self.disabled

    def oldest(self, lane: str, most: int) -> Sequence[Steered]:
        """Return the oldest that were never started; see `Intake`."""
        self._flush()
        return self._steering.read([number for (number,) in self._db.execute(_SQL["oldest"], (lane, most))])

    def append(self, taker: Steered, new: NewRun, lane: str, kind: MessageKind) -> None:
        """Let a run take a message; see `Intake`."""
        self._steering.take(taker, new, lane, kind)

    def put_off(self, taker: Steered, due_at: int) -> None:
        """Let a run be due later; see `Intake`."""
        shelves = self._transaction.shelves
        shelves.remove(taker, taker.hint, taker.due_at)
        taker.due_at = due_at
        shelves.put_due(taker, due_at)
        Inboxes(self._transaction).put_off(taker, due_at)

    def make(self, new: NewRun, lane: str, due_at: int) -> Line:
        """Make a run; see `Intake`."""
        facts = (new.id, new.task, new.args, lane, new.user, new.session, new.priority)
        line = Line(FRESH, 0, self._transaction.next_number(), *facts)
        if new.retry_of is not None:
            self._sure()
            Inboxes(self._transaction).inherit(line, new.retry_of)
        self._transaction.books.lanes[lane].pending += 1
        self.made.append(Made(line, due_at, new.retry_of))
        return line

    def keep(self, run: Line, due_at: int, arrival: Arrival | None) -> None:
        """Put a run on the due shelf; see `Intake`."""
        self._transaction.shelves.put_due(run, due_at)
        if arrival is not None:
            self.made[-1].arrival = msgspec.json.encode(arrival).decode()

    def is_behind(self) -> bool:
        """Tell whether runs that are due wait to be moved; see `Intake`."""
        return self._more_due

    def count(self, lane: str, what: str) -> None:
        """Count what became of a submission; see `Intake`."""
        counts.count(self._db, lane, what)

    def refuse(self, lane: str, why: Why) -> None:
        """Count a refusal, unless it is one of something that was accepted before; see `Intake`."""
        self._sure()
        if why is not Why.LANE_WAIT:
            self.count(lane, f"refused {why}")
