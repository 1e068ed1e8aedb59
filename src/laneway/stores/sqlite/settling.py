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

from laneway.core.events import STARTED, Draft, chunk, draft
from laneway.core.run import Failure
from laneway.core.states import RunState
from laneway.core.step import Emitted, Result, Step
from laneway.core.turns import AGAIN
from laneway.stores.sqlite.lines import Line
from laneway.stores.sqlite.statements import Row, as_json, each, insert, load
from laneway.stores.sqlite.transaction import Transaction

_SQL = load("settling")


class Leased(Line):
    """A leased run: `worker` executes it, or did; `noted` once its `started` event is written."""

    __slots__ = ("noted", "started_at", "worker")

    def __init__(self, row: Row, holder: str) -> None:
        number, fence, attempt, died, started_at, events, noted, task, lane, user, session, priority = row
        super().__init__(AGAIN, 0, number, "", task, None, lane, user, session, priority, None)
        self.fence, self.attempt, self.events = fence, attempt, events
        self.worker: str = died or holder
        self.started_at: int = started_at
        self.noted = bool(noted)


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
                self._append(run, events.drafts)
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
        leases = {row[0]: Leased(row, step.incarnation) for row in rows}
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
        self._append(run, settlement.drafts)
        run.attempt, run.crashes = settlement.attempt, settlement.crashes
        flow.free(run)
        state = settlement.state
        if state is RunState.PENDING:
            self._give_back(run, now + settlement.delay)
            due_at, ended_at = now + settlement.delay, None
        else:
            flow.end(run)
            due_at, ended_at = None, now
        counts, times = (run.attempt, run.crashes, run.fence, run.events), (due_at, run.started_at, ended_at)
        ending = (settlement.reason, _failure(settlement.failure), settlement.result)
        self._outcomes.append((run.number, state.value, *counts, *times, *ending))

    def _give_back(self, run: Leased, due_at: int) -> None:
        run.kind = AGAIN
        if due_at > self._transaction.now:
            self._transaction.shelves.put_due(run, due_at)
        else:
            self._transaction.flow.rejoin(run)

    def _append(self, run: Leased, drafts: tuple[Draft, ...]) -> None:
        text, first = _chunk(drafts, run.attempt, self._transaction.now), run.events + 1
        run.events += len(drafts)
        if not run.noted:
            start = _chunk((_started(run.worker),), run.attempt, run.started_at)
            text = f"{start[:-1]},{text[1:]}" if drafts else start
            run.events += 1
            run.noted = True
        if run.events >= first:
            self._chunks.append((run.number, first, text))


def _failure(failure: Failure | None) -> str | None:
    return None if failure is None else msgspec.json.encode(failure).decode()


@lru_cache(maxsize=256)
def _started(worker: str) -> Draft:
    return draft(STARTED, {"worker": worker})


@lru_cache(maxsize=256)
def _chunk(drafts: tuple[Draft, ...], attempt: int, at: int) -> str:
    # Remembered, because the runs that a step settles were often started together and end alike.
    return chunk([(kind, attempt, at, data) for kind, data in drafts])
