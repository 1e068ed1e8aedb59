"""Settling: write results, events and checkpoints under their leases.

*Refusing*: a result is written if its lease stands, that is, if run, fence and incarnation agree. A lease that was
taken over has another holder, one that was settled is gone; either way the result is refused, alone.

*Order*: what goes on under a lease is written before the results. A run that ends in this very step was overdue, or
saved, before it ended.
"""

from __future__ import annotations

import msgspec

from laneway.core.outcome import STATES, overruled
from laneway.core.run import Failure
from laneway.core.states import Move, RunState
from laneway.core.step import Result, Step
from laneway.core.turns import AGAIN
from laneway.stores.sqlite.inboxes import Inboxes
from laneway.stores.sqlite.logs import Leased, appended, logged
from laneway.stores.sqlite.statements import Row, as_json, each, insert, load
from laneway.stores.sqlite.transaction import Transaction

_SQL = load("settling")
# Names of their own: looking up an enum's member costs more than what is done with it.
_PENDING, _PAUSED, _PAUSE = RunState.PENDING, RunState.PAUSED, Move.PAUSE


class Settling:
    """What one step settles. The flow hears of it at once, the tables in `write`."""

    def __init__(self, transaction: Transaction, step: Step) -> None:
        self._transaction, self._step = transaction, step
        self._leases = self._read(step)
        self._inboxes = Inboxes(transaction)
        self._taken = self._inboxes.counts(self._leases.values())
        self.refused: list[tuple[int, int]] = []
        self._chunks: list[Row] = []
        self._outcomes: list[Row] = []
        self._noted: list[Leased] = []
        self._saved: dict[int, str] = {}
        self._prepared: dict[int, str] = {}
        self._overdue: list[Row] = []

    def settle(self) -> None:
        """Take note of what goes on, then settle the results; the leases that do not stand are `refused`."""
        for events in self._step.emitted:
            run = self._standing(events.number, events.fence)
            if run is not None and events.drafts:
                self._chunks.append(appended(run, logged(run, events.drafts, self._transaction.now)))
                self._noted.append(run)
        for saved in self._step.saved:
            if self._standing(saved.number, saved.fence) is not None:
                if saved.state is not None:
                    self._saved[saved.number] = saved.state
                if saved.prepared is not None:
                    self._prepared[saved.number] = saved.prepared
        self._overdue += [(number,) for number, fence in self._step.overdue if self._stands(number, fence)]
        for result in self._step.results:
            run = self._standing(result.number, result.fence)
            if run is not None:
                del self._leases[run.number]
                self._end_attempt(run, result)

    def write(self) -> None:
        """Write it. The leases go here, so that a run that was given back can be claimed again in the same step."""
        db = self._transaction.db
        insert(db, _SQL["save"], list(self._saved.items()))
        insert(db, _SQL["prepare"], list(self._prepared.items()))
        each(db, _SQL["forgive"], [(number,) for number in self._saved])
        each(db, _SQL["overdue"], self._overdue)
        if self._outcomes:
            db.execute(_SQL["free"], (as_json(row[0] for row in self._outcomes),))
            insert(db, _SQL["settle"], self._outcomes)
        insert(db, _SQL["append"], self._chunks)
        each(db, _SQL["note"], [(run.events, run.number) for run in self._noted if run.number in self._leases])

    def _read(self, step: Step) -> dict[int, Leased]:
        numbers = {item.number for items in (step.results, step.emitted, step.saved) for item in items}
        numbers.update(number for number, _ in step.overdue)
        if not numbers:
            return {}
        rows = self._transaction.db.execute(_SQL["leased"], (as_json(numbers), step.incarnation)).fetchall()
        leases = {row[2]: Leased(*row) for row in rows}
        self._transaction.shelves.expect(leases.values())
        return leases

    def _stands(self, number: int, fence: int) -> bool:
        run = self._leases.get(number)
        return run is not None and run.fence == fence

    def _standing(self, number: int, fence: int) -> Leased | None:
        run = self._leases.get(number)
        if run is None or run.fence != fence:
            self.refused.append((number, fence))
            return None
        return run

    def _end_attempt(self, run: Leased, result: Result) -> None:
        settlement, now, flow = result.settlement, self._transaction.now, self._transaction.flow
        if run.request is not None or settlement.move is _PAUSE:
            settlement = overruled(settlement, run.requested, run.attempt)
        text = logged(run, settlement.drafts, now)
        run.attempt, run.crashes = settlement.attempt, settlement.crashes
        flow.free(run)
        if result.throttled is not None and run.session is not None:
            flow.throttle(run.session, throttled=result.throttled)
        if run.number in self._taken:
            self._inboxes.read(run, result.read)
        state = STATES[settlement.move]
        due_at = ended_at = log = None
        if state is _PENDING or state is _PAUSED:
            due_at = now + settlement.delay
            self._chunks.append(appended(run, text))
            if state is _PENDING:
                self._give_back(run, due_at)
        else:
            ended_at, log = now, text
            if run.number in self._taken:
                self._inboxes.close(run, cleared=run.cleared)
            if run.session is not None:
                flow.end(run)
        failure = settlement.failure and _failure(settlement.failure)
        self._outcomes.append(
            (
                run.number,
                state._value_,
                run.attempt,
                run.crashes,
                run.fence,
                run.events,
                due_at,
                run.started_at,
                ended_at,
                settlement.reason,
                failure,
                settlement.result,
                log,
            )
        )

    def _give_back(self, run: Leased, due_at: int) -> None:
        run.kind = AGAIN
        self._transaction.books.lanes[run.lane].pending += 1
        if due_at > self._transaction.now:
            self._transaction.shelves.put_due(run, due_at)
            self._transaction.flow.step_out(run)
        else:
            self._transaction.flow.rejoin(run)


def _failure(failure: Failure) -> str:
    return msgspec.json.encode(failure).decode()
