"""What every writing verb works with: the core's flow over this file's tables, for as long as the write lock is held.

A verb makes one, lets the rules run, and calls `write`. Nothing in it outlives the verb but its `StepCache`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from laneway.core.queue.claim import MOST_MOVES, Flow
from laneway.core.queue.turns import AGAIN
from laneway.core.records.policy import SessionIntent
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state.circuit_sets import CircuitSets
from laneway.stores.tables.state.circuits import Circuits
from laneway.stores.tables.state.counts import Counts
from laneway.stores.tables.state.job_states import JobStates
from laneway.stores.tables.state.shelves import Shelves

_SQL = sql_names("transaction")

_arrival = msgspec.json.Decoder(SessionIntent).decode


class TransactionHeader(NamedTuple):
    """What stands in the tables when the transaction begins: mostly it spares looking any closer.

    From `until` on it is what `seldom` says.
    """

    accepted: int  # the last acceptance number given
    due_at: int | None  # of the next future run
    resting: bool  # workers rest, the one who asks not counted
    requested: bool  # something is requested of what the one who asks executes
    resumed: bool  # runs that were never started have a log
    until: int | None  # the last instant for an answer to the most urgent question
    aside: bool  # runs are set aside
    taken: bool  # there are messages that a run took
    inboxes: bool  # there are such of runs that have not ended
    capped: bool  # users have caps of their own, or are paused
    paused: bool  # tasks are paused
    disabled: bool  # tasks are disabled
    ruled: bool  # operators have set something of sessions, or paused them
    circuits: bool  # breakers remember something
    broken: bool  # runs are parked behind circuits
    fire_at: int | None  # when the first job is due
    moving: bool  # the store has, or had, a part in a move


def header_queries(asker: str | None = None) -> tuple[Query, Query]:
    """Return what a transaction asks first."""
    return Query(_SQL["header"], (asker,)), Query(_SQL["flags"])


def _read_header(db: Database, asker: str | None) -> TransactionHeader:
    glance, seldom = header_queries(asker)
    db.expect(glance, seldom)
    return TransactionHeader(*db.execute(*glance[:2]).fetchone(), *db.execute(seldom.name).fetchone())


class Transaction:
    """The flow over its books and shelves. `asker` is the incarnation that takes a step.

    `accepted` is the last acceptance number given, `inboxes` whether a run that has not ended may have messages,
    `requested` whether something may be requested of what the asker executes, and `rescheduled` whether the next due
    time, or the last instant for an answer, may be another than it was. What is in `cache` is not read again; a verb
    that writes books, shelves or leases by itself must not be given one. It `forgot` once others have to look, too.
    """

    def __init__(self, db: Database, now: int, asker: str | None = None, cache: StepCache | None = None) -> None:
        self.db, self.now, self.cache = db, now, cache or StepCache()
        self.header = _read_header(db, asker)
        self.accepted, self.inboxes = self.header.accepted, bool(self.header.inboxes)
        self.requested, self.rescheduled, self.forgot = bool(self.header.requested), False, False
        self.counts = Counts(db, self.cache, capped=bool(self.header.capped), ruled=bool(self.header.ruled))
        self.circuits = Circuits(db, any_=bool(self.header.circuits), parked=bool(self.header.broken))
        self.shelves = self._shelves(aside=bool(self.header.aside), resumed=bool(self.header.resumed), counted=True)
        self.jobs = JobStates(db, now, self.header.fire_at)
        self.flow: Flow[RunRow] = Flow(self.shelves, self.counts.lanes, self.counts.sessions, self.circuits)

    def _shelves(self, *, aside: bool, resumed: bool, counted: bool) -> Shelves:
        broken = CircuitSets(self.db, self.now, self.circuits, any_=bool(self.header.broken))
        return Shelves(self.db, self.counts, self.cache, broken, aside=aside, resumed=resumed, counted=counted)

    def make_due(self) -> bool:
        """Make due runs startable, a bounded number of them; return whether more are due."""
        if self.header.due_at is None or self.header.due_at > self.now:
            return False
        due, more = self.shelves.take_due(self.now, MOST_MOVES)
        for run in due:
            if run.kind & AGAIN:
                self.flow.rejoin(run)
            else:
                self.flow.join(run, self.arrival(run))
        return more

    def arrival(self, run: RunRow) -> SessionIntent | None:
        """Return what a run says of its session when it joins later."""
        return None if run.arrival is None else _arrival(run.arrival)

    def next_number(self) -> int:
        """Return the acceptance number of one more run."""
        self.accepted += 1
        return self.accepted

    def write(self) -> None:
        """Write back what the rules changed."""
        self.shelves.write()
        self.counts.write()
        self.circuits.write()
        self.jobs.write()

    def write_shelves(self) -> None:
        """Write what was moved so far, so that the tables say where each run is, and go on; the counts can wait."""
        self.shelves.write()
        self.rescheduled = self.rescheduled or self.shelves.future.is_changed
        self.cache, self.forgot = StepCache(), True
        self.shelves = self._shelves(aside=True, resumed=True, counted=False)
        self.flow.shelves = self.shelves

    def next_due(self) -> int | None:
        """Return when the next future run is due, or a question is answered too late, once this is written.

        Also when a circuit is tried again behind which runs are parked.
        """
        if not self.rescheduled and not self.shelves.future.removed and not self.circuits.rescheduled:
            due_at, until = self.shelves.future.first(self.header.due_at), self.header.until
            return due_at if until is None or (due_at is not None and due_at < until) else until
        [[soonest]] = self.db.execute(_SQL["next_due"], (self.now,)).fetchall()
        return None if soonest is None else int(soonest)

    def next_fire(self) -> int | None:
        """Return when the first job is due, once this is written."""
        return self.jobs.soonest() if self.jobs.is_changed else self.header.fire_at
