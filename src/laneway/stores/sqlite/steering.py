"""Steering: runs as control and a session's policy find them, and what is done to them, wherever they are.

What follows is decided in `core.control` and `core.arrivals`.

**Finding.** A pending run does not know its shelf, because keeping that up would cost every run that is never steered
two more writes. It is looked for by the key it was accepted with, then where it can be (`find` in `shelves.sql`).

**Many at once.** Taking one run out lets others go on, also such as are to be taken out next. So what was moved is
written after each run, and the tables say where the next one is; only the counts wait for the end.

**Race**: none with a worker's step. Whichever commits first wins: a settled run has no lease to write a request to, and
a settlement finds the request.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection

from laneway.core import control
from laneway.core.control import Change
from laneway.core.flow import Shelf
from laneway.core.run import MessageKind, NewRun, Request, Why
from laneway.core.states import TERMINAL, RunState
from laneway.stores.sqlite import counts, keys, liveness
from laneway.stores.sqlite.effects import Effects
from laneway.stores.sqlite.inboxes import Inboxes
from laneway.stores.sqlite.logs import Leased, appended, logged
from laneway.stores.sqlite.statements import as_json, load
from laneway.stores.sqlite.transaction import Transaction
from laneway.stores.sqlite.waking import wake_holder

_SQL = load("steering")
_SETTLE, _APPEND = load("settling")["settle"], load("settling")["append"]


class Steered(Leased, gc=False):
    """A run that has not ended, leased or not. `hint` is its key when it was accepted."""

    state: str = RunState.PENDING.value
    holder: str | None = None
    died: str | None = None
    hint: int = 0
    due_at: int = 0
    error: str | None = None
    call: str | None = None

    @property
    def stands(self) -> RunState:
        """The state it is in."""
        return RunState(self.state)


def read(db: sqlite3.Connection, numbers: Collection[int]) -> list[Steered]:
    """Return these runs, in this order."""
    return [Steered(*row) for row in db.execute(_SQL["steered"], (as_json(numbers),))]


def _at_once() -> None:
    """Look at the tables as they are."""


class Steering:
    """Changes runs in one transaction; fulfils `core.arrivals.Floor`.

    `call` is remembered with each run that it changes. `flush` is called before it looks for any.
    """

    def __init__(
        self, transaction: Transaction, effects: Effects, call: str = "", flush: Callable[[], None] = _at_once
    ) -> None:
        self._transaction, self._effects, self._call, self._flush = transaction, effects, call, flush
        self._db, self._now = transaction.db, transaction.now

    # What a session's policy may see and do

    def queued(self, session: str) -> list[Steered]:
        """Return what has joined and was never started; see `Floor`."""
        self._flush()
        book = self._transaction.books.sessions[session]
        first = [book.unstarted] if book.unstarted else []
        return self.read(first + [number for (number,) in self._db.execute(_SQL["held"], (session,))])

    def active(self, session: str) -> list[Steered]:
        """Return what was started and has not ended; see `Floor`."""
        self._flush()
        return self.read(sorted(self._transaction.books.sessions[session].active))

    def future(self, session: str) -> list[Steered]:
        """Return what has not joined yet; see `Floor`."""
        queued = {run.number for run in self.queued(session)}
        numbers = [number for (number,) in self._db.execute(_SQL["future"], (session,))]
        return self.read([number for number in numbers if number not in queued])

    def run(self, number: int) -> Steered:
        """Return a run by its number; see `Floor`."""
        self._flush()
        [run] = self.read([number])
        return run

    def drop(self, run: Steered, why: Why) -> None:
        """Drop a run that was never started; see `Floor`."""
        counts.count(self._db, run.lane, f"dropped {why}")
        keys.free(self._db, run.number)
        self.apply(run, control.drop(run.stands, why))

    def cancel(self, run: Steered, *, clears: bool = False, abandon: bool = False) -> bool:
        """Cancel a run; see `Floor`."""
        lapsed = run.died is not None or (run.holder is not None and liveness.is_dead(self._db, run.holder, self._now))
        change = control.cancel(run.stands, run.requested, lapsed=lapsed, abandon=abandon)
        if clears and not run.cleared:
            run.cleared = True
            self._db.execute(_SQL["clear"], (run.number,))
        if change is None:
            return False
        self.apply(run, change)
        return True

    # Doing it

    def read(self, numbers: Collection[int]) -> list[Steered]:
        """Return these runs, in this order, and load the counts that they are part of."""
        if not numbers:
            return []
        runs = read(self._db, numbers)
        self._transaction.books.fetch(runs)
        return runs

    def apply(self, run: Steered, change: Change) -> None:
        """Change one run: its place, its log and its record."""
        if change.state is RunState.PENDING:
            # Those of its session that are due by now are before it.
            self._transaction.make_due()
            self._transaction.write_shelves()
        text = logged(run, change.drafts, self._now)
        if change.state in TERMINAL:
            self._end(run, change, text)
        else:
            self._db.execute(_APPEND, appended(run, text))
            if change.state is RunState.RUNNING:
                self._request(run, change.request)
            elif change.state is RunState.PAUSED:
                self._set_down(run)
                self._settle(run, change)
            else:
                self._put_back(run)
                self._settle(run, change)
        self._remember(run)
        self._transaction.write_shelves()
        self._effects.events = True

    def take(self, run: Steered, new: NewRun, lane: str, kind: MessageKind) -> None:
        """Let a run take a message."""
        Inboxes(self._transaction).append(run, new, lane, kind, leased=run.holder is not None)
        self._effects.events = True
        if kind is MessageKind.STEERED:
            self._tell(run)

    def _tell(self, run: Steered) -> None:
        """Wake the worker that executes the run: something stands requested of it."""
        # Of a lapsed lease, whoever executed it is not there any more.
        if run.died is None and run.holder is not None:
            wake_holder(self._db, self._effects, run.holder)

    def _request(self, run: Steered, request: Request | None) -> None:
        self._db.execute(_SQL["request"], (request, run.events, run.number))
        self._tell(run)

    def _end(self, run: Steered, change: Change, text: str) -> None:
        before, flow, shelves = run.stands, self._transaction.flow, self._transaction.shelves
        if before is RunState.PENDING:
            flow.withdraw(run, shelves.remove(run, run.hint, run.due_at))
        elif before is RunState.PAUSED:
            place = shelves.held(run)
            if place is not None:
                shelves.remove_held(run, place)
                flow.unhold(run)
        elif run.holder is not None:
            flow.free(run)
            liveness.lose(self._db, run.holder, run.number)
        if self._transaction.inboxes:
            Inboxes(self._transaction).close(run, cleared=run.cleared)
        flow.end(run)
        self._settle(run, change, self._now, text)

    def _set_down(self, run: Steered) -> None:
        shelves = self._transaction.shelves
        place = shelves.held(run)
        if place is None:
            self._transaction.flow.set_down(run, shelves.remove(run, run.hint, run.due_at))
        else:
            shelves.pause_held(run, place, paused=True)
            self._transaction.flow.set_down(run, Shelf.HELD)

    def _put_back(self, run: Steered) -> None:
        shelves = self._transaction.shelves
        self._transaction.books.lanes[run.lane].pending += 1
        run.paused = False
        place = shelves.held(run)
        if place is not None:
            shelves.pause_held(run, place, paused=False)
        elif run.due_at > self._now:
            shelves.put_due(run, run.due_at)
        else:
            self._transaction.flow.take_up(run, self._transaction.arrival(run))

    def _settle(self, run: Steered, change: Change, ended_at: int | None = None, log: str | None = None) -> None:
        # The due time stays what it was.
        facts, times = (run.attempt, run.crashes, run.fence, run.events), (None, run.started_at, ended_at)
        ending = (change.reason, run.error, None, log)
        self._db.execute(_SETTLE, (run.number, change.state.value, *facts, *times, *ending))

    def _remember(self, run: Steered) -> None:
        if self._call:
            self._db.execute(_SQL["remember"], (run.number, self._call))
        elif run.call is not None:
            self._db.execute(_SQL["forget"], (run.number,))
