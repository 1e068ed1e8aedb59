"""Moves runs that have no lease: off a shelf, onto one, or out of a wait.

The row of a pending run does not name its shelf: that would cost two more writes for every run. The run is looked up by
its rank at acceptance, then wherever it can be (`find` in `shelves.sql`). So all moves must be written before a run is
moved here: see `Transaction.write_shelves`.
"""

from __future__ import annotations

from laneway.core.queue.shelves import Shelf
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import leases, waits
from laneway.stores.tables.rows.controlled_run import ControlledRun
from laneway.stores.tables.state.transaction import Transaction


class Placement:
    """Moves runs that are changed by calls or policies, in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction, self._db, self._now = transaction, transaction.db, transaction.now

    def take_out(self, run: ControlledRun) -> None:
        """Remove a run that ends from its place; it keeps its place in its session."""
        before, flow, shelves = run.stands, self._transaction.flow, self._transaction.shelves
        if before is RunState.PENDING:
            flow.withdraw(run, shelves.remove(run, run.hint, run.due_at))
        elif before is RunState.PAUSED:
            place = shelves.held(run)
            if place is not None:
                shelves.remove_held(run, place)
                flow.unhold(run)
        elif before is RunState.WAITING:
            self._wait_no_more(run)
        elif run.holder is not None:
            flow.free(run)
            self._transaction.circuits.end(run, None, self._now)
            leases.lose(self._db, run.holder, run.number)

    def move(self, run: ControlledRun, state: RunState) -> None:
        """Move a run without a lease to the place of its new state: pending, paused, or waiting as before."""
        if run.stands is not RunState.WAITING:
            self._put_back(run) if state is RunState.PENDING else self._set_down(run)
        elif state is RunState.WAITING:
            waits.take_back(self._db, run.number)
        else:
            self._wait_no_more(run)
            self._transaction.flow.stop_asking(run)
            run.due_at = self._now
            if state is RunState.PENDING:
                self._put_back(run)

    def _wait_no_more(self, run: ControlledRun) -> None:
        waits.leave(self._db, run.number)
        self._transaction.rescheduled = True

    def _set_down(self, run: ControlledRun) -> None:
        shelves = self._transaction.shelves
        place = shelves.held(run)
        if place is None:
            self._transaction.flow.set_down(run, shelves.remove(run, run.hint, run.due_at))
        else:
            shelves.pause_held(run, place, paused=True)
            self._transaction.flow.set_down(run, Shelf.HELD)

    def _put_back(self, run: ControlledRun) -> None:
        shelves = self._transaction.shelves
        self._transaction.counts.lanes[run.lane].pending += 1
        run.paused = False
        place = shelves.held(run)
        if place is not None:
            shelves.pause_held(run, place, paused=False)
        elif run.due_at > self._now and not self._transaction.flow.is_admitted(run):
            shelves.put_due(run, run.due_at)
        else:
            self._transaction.flow.take_up(run, self._transaction.arrival(run))
