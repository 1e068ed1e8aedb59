"""One writing transaction: the core's flow over counts and shelves that are loaded from the tables.

A verb makes one, lets the rules run, and calls `write`. Nothing of it lives longer than the verb.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from laneway.core.queue.claim import MOST_MOVES, Flow
from laneway.core.queue.turns import AGAIN
from laneway.core.records.policy import SessionIntent
from laneway.stores.tables.rows.run_row import RunRow
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
    """What the transaction reads first: it tells which tables need not be read.

    The fields up to `resumed` come from the statement `header`, those from `until` on from `flags`.
    """

    accepted: int  # the last acceptance number given
    due_at: int | None  # of the next future run
    resting: bool  # workers are idle, the caller not counted
    requested: bool  # a run of the caller has a request
    resumed: bool  # runs that were never started have a log
    until: int | None  # the earliest deadline of a question
    aside: bool  # runs are set aside
    taken: bool  # runs have messages
    inboxes: bool  # runs that have not ended have messages
    capped: bool  # users have caps of their own, or are paused
    paused: bool  # tasks are paused
    disabled: bool  # tasks are disabled
    ruled: bool  # sessions have operator settings, or are paused
    circuits: bool  # there are circuits
    broken: bool  # runs are parked behind circuits
    fire_at: int | None  # when the first job is due
    moving: bool  # the store has, or had, a part in a move


def header_queries(asker: str | None = None) -> tuple[Query, Query]:
    """Return the queries of the header."""
    return Query(_SQL["header"], (asker,)), Query(_SQL["flags"])


def _read_header(db: Database, asker: str | None) -> TransactionHeader:
    header, flags = header_queries(asker)
    db.expect(header, flags)
    return TransactionHeader(*db.execute(*header[:2]).fetchone(), *db.execute(flags.name).fetchone())


class Transaction:
    """The flow over the counts and shelves of one transaction. `asker` is the incarnation that makes a step.

    `accepted` is the last acceptance number given; `inboxes`: runs that have not ended may have messages; `requested`:
    runs of the asker may have requests; `rescheduled`: the next due time or deadline may have changed.
    """

    def __init__(self, db: Database, now: int, asker: str | None = None) -> None:
        self.db, self.now = db, now
        self.header = _read_header(db, asker)
        self.accepted, self.inboxes = self.header.accepted, bool(self.header.inboxes)
        self.requested, self.rescheduled = bool(self.header.requested), False
        self.counts = Counts(db, capped=bool(self.header.capped), ruled=bool(self.header.ruled))
        self.circuits = Circuits(db, any_=bool(self.header.circuits), parked=bool(self.header.broken))
        self.shelves = self._shelves(aside=bool(self.header.aside), resumed=bool(self.header.resumed), counted=True)
        self.jobs = JobStates(db, now, self.header.fire_at)
        self.flow: Flow[RunRow] = Flow(self.shelves, self.counts.lanes, self.counts.sessions, self.circuits)

    def _shelves(self, *, aside: bool, resumed: bool, counted: bool) -> Shelves:
        broken = CircuitSets(self.db, self.now, self.circuits, any_=bool(self.header.broken))
        return Shelves(self.db, self.counts, broken, aside=aside, resumed=resumed, counted=counted)

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
        """Return the session intent of a run that joins later."""
        return None if run.arrival is None else _arrival(run.arrival)

    def next_number(self) -> int:
        """Return the next acceptance number."""
        self.accepted += 1
        return self.accepted

    def write(self) -> None:
        """Write back what the rules changed."""
        self.shelves.write()
        self.counts.write()
        self.circuits.write()
        self.jobs.write()

    def write_shelves(self) -> None:
        """Write the moves so far, so that the tables show where each run is; counts are written at the end."""
        self.shelves.write()
        self.rescheduled = self.rescheduled or self.shelves.future.is_changed
        self.shelves = self._shelves(aside=True, resumed=True, counted=False)
        self.flow.shelves = self.shelves

    def next_due(self) -> int | None:
        """Return the earliest due time after this transaction, to be called after `write`.

        Due times are those of future runs, deadlines of questions, and tries of circuits with parked runs.
        """
        if not self.rescheduled and not self.shelves.future.removed and not self.circuits.rescheduled:
            due_at, until = self.shelves.future.first(self.header.due_at), self.header.until
            return due_at if until is None or (due_at is not None and due_at < until) else until
        [[soonest]] = self.db.execute(_SQL["next_due"], (self.now,)).fetchall()
        return None if soonest is None else int(soonest)

    def next_fire(self) -> int | None:
        """Return when the first job is due; to be called after `write`."""
        return self.jobs.soonest() if self.jobs.is_changed else self.header.fire_at
