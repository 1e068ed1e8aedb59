"""Settling: write results and events under their leases.

*Refusing*: a result is written if its lease stands, that is, if run, fence and incarnation agree. A lease that was
taken over has another holder, one that was settled is gone; either way the result is refused, alone.

*Events*: a claim writes none. Readers make up the `started` of an open lease from its row, and whatever is written next
for that lease begins with it. So a run that does its work and ends costs one row of events, not two.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from laneway.core.events import STARTED, Draft, chunk, draft, opened
from laneway.core.outcome import STATES
from laneway.core.run import Failure
from laneway.core.states import RunState
from laneway.core.step import Emitted, Result, Step
from laneway.core.turns import AGAIN
from laneway.stores.sqlite.lines import Line
from laneway.stores.sqlite.statements import Row, as_json, each, insert, load
from laneway.stores.sqlite.transaction import Transaction

_SQL = load("settling")
_PENDING = RunState.PENDING  # a name of its own: looking up an enum's member costs more than what is done with it


class Leased(Line, gc=False):
    """A leased run: `worker` executes it, or did; `noted` once its `started` event is written."""

    worker: str = ""
    started_at: int = 0
    noted: bool = False


class Settling:
    """What one step settles. The flow hears of it at once, the tables in `write`."""

    def __init__(self, transaction: Transaction, step: Step) -> None:
        self._transaction = transaction
        self._leases = self._read(step)
        self.refused: list[tuple[int, int]] = []
        self._chunks: list[Row] = []
        self._outcomes: list[Row] = []
        self._noted: list[Leased] = []

    def settle(self, results: Iterable[Result], emitted: Iterable[Emitted]) -> None:
        """Settle the results and append the events of runs that go on; the leases that do not stand are `refused`."""
        for result in results:
            run = self._standing(result.number, result.fence)
            if run is not None:
                del self._leases[run.number]
                self._end_attempt(run, result)
        for events in emitted:
            run = self._standing(events.number, events.fence)
            if run is not None and events.drafts:
                self._keep(run, self._log(run, events.drafts))
                self._noted.append(run)

    def write(self) -> None:
        """Write it. The leases go here, so that a run that was given back can be claimed again in the same step."""
        db = self._transaction.db
        if self._outcomes:
            db.execute(_SQL["free"], (as_json(row[0] for row in self._outcomes),))
            insert(db, _SQL["settle"], self._outcomes)
        insert(db, _SQL["append"], self._chunks)
        each(db, _SQL["note"], [(run.events, run.number) for run in self._noted if run.number in self._leases])

    def _read(self, step: Step) -> dict[int, Leased]:
        numbers = {item.number for items in (step.results, step.emitted) for item in items}
        if not numbers:
            return {}
        rows = self._transaction.db.execute(_SQL["leased"], (as_json(numbers), step.incarnation)).fetchall()
        leases = {row[2]: Leased(*row) for row in rows}
        self._transaction.shelves.expect(leases.values())
        return leases

    def _standing(self, number: int, fence: int) -> Leased | None:
        run = self._leases.get(number)
        if run is None or run.fence != fence:
            self.refused.append((number, fence))
            return None
        return run

    def _end_attempt(self, run: Leased, result: Result) -> None:
        settlement, now, flow = result.settlement, self._transaction.now, self._transaction.flow
        text = self._log(run, settlement.drafts)
        run.attempt, run.crashes = settlement.attempt, settlement.crashes
        flow.free(run)
        state = STATES[settlement.move]
        due_at = ended_at = log = None
        if state is _PENDING:
            due_at = now + settlement.delay
            self._keep(run, text)
            self._give_back(run, due_at)
        else:
            ended_at, log = now, text
            if run.session is not None:
                flow.end(run)
        failure = settlement.failure and _failure(settlement.failure)
        counts, times = (run.attempt, run.crashes, run.fence, run.events), (due_at, run.started_at, ended_at)
        ending = (settlement.reason, failure, settlement.result, log)
        self._outcomes.append((run.number, state._value_, *counts, *times, *ending))

    def _give_back(self, run: Leased, due_at: int) -> None:
        run.kind = AGAIN
        if due_at > self._transaction.now:
            self._transaction.shelves.put_due(run, due_at)
        else:
            self._transaction.flow.rejoin(run)

    def _log(self, run: Leased, drafts: tuple[Draft, ...]) -> str:
        """Number the events, behind the `started` of the lease if that is not written yet; return them as a chunk."""
        run.events += len(drafts)
        if run.noted:
            return _chunk(drafts, run.attempt, self._transaction.now)
        run.events += 1
        run.noted = True
        return _first_chunk(run.worker, run.started_at, drafts, run.attempt, self._transaction.now)

    def _keep(self, run: Leased, text: str) -> None:
        """Write a chunk whose last event is the run's last so far."""
        first = run.events - len(opened(text)) + 1
        if first <= run.events:
            self._chunks.append((run.number, first, text))


def _failure(failure: Failure) -> str:
    return msgspec.json.encode(failure).decode()


# Remembered, because the runs that a step settles were often started together and end alike.


@lru_cache(maxsize=256)
def _first_chunk(worker: str, started_at: int, drafts: tuple[Draft, ...], attempt: int, at: int) -> str:
    kind, data = draft(STARTED, {"worker": worker})
    return chunk([(kind, attempt, started_at, data), *((kind, attempt, at, data) for kind, data in drafts)])


@lru_cache(maxsize=256)
def _chunk(drafts: tuple[Draft, ...], attempt: int, at: int) -> str:
    return chunk([(kind, attempt, at, data) for kind, data in drafts])
