"""Settlements: results, events and checkpoints of a step, written under their leases.

*Refusal*: a result is written only if its lease is valid: run, fence and incarnation agree. A lease that was taken over
has another holder, a lease that was settled is gone. Such a result is refused, and it alone.

*Order*: events, saves and time-outs are written before the results: a run that ends in this step had them before it
ended.

*Other runs*: most results affect no other run and are written together at the end. A result that ends a linked run, or
lets a run wait, needs the results before it in the tables: they are written first, see `follow_ups`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import starmap

import msgspec

from laneway.core.lifecycle.outcome import STATES, Settlement, overruled
from laneway.core.lifecycle.step import Result, Saved, Step
from laneway.core.queue.turns import AGAIN
from laneway.core.records import events
from laneway.core.records.events import draft, streams
from laneway.core.records.memos import Memo
from laneway.core.records.run import Failure
from laneway.core.records.states import Move, RunState
from laneway.stores.tables.rows import memos
from laneway.stores.tables.rows.leased_run import NO_EVENTS, LeasedRun, appended, logged
from laneway.stores.tables.rules.follow_ups import FollowUps, leaves_more
from laneway.stores.tables.rules.inboxes import Inboxes
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.transaction import Transaction

_SQL = sql_names("settlements")
_DISABLE = sql_names("settings")["disable"]
# Module names, because looking up a member of an enum costs more than the comparison.
_PENDING, _PAUSED, _WAITING = RunState.PENDING, RunState.PAUSED, RunState.WAITING
_PAUSE, _SUCCEED = Move.PAUSE, Move.SUCCEED


class Settlements:
    """The settlements of one step. The flow gets them at once, the tables in `write`."""

    def __init__(self, transaction: Transaction, after_commit: AfterCommit, step: Step, *, behind: bool) -> None:
        self._transaction, self._after_commit, self._step, self._behind = transaction, after_commit, step, behind
        self._leases = self._read(step)
        self._guarded = transaction.circuits.tasks  # a circuit that this step opens has no probe yet
        self._inboxes = Inboxes(transaction)
        self._taken = self._inboxes.counts(self._leases.values())
        self.refused: list[tuple[int, int]] = []
        self._chunks: list[Row] = []
        self._outcomes: list[Row] = []
        self._successes: list[Row] = []
        self._noted: list[LeasedRun] = []
        self._saved: dict[int, str] = {}
        self._prepared: dict[int, str] = {}
        self._memos: list[tuple[int, Memo]] = []
        self._overdue: list[Row] = []
        self._streaming: set[int] = set()  # numbers of runs with deltas
        self._tied: list[tuple[LeasedRun, RunState, Failure | None]] = []  # ended, and perhaps made by a job

    def settle(self) -> None:
        """Take events, saves and time-outs, then settle the results; invalid leases go to `refused`."""
        for emitted in self._step.emitted:
            run = self._standing(emitted.number, emitted.fence)
            if run is not None and emitted.drafts:
                self._chunks.append(appended(run, logged(run, emitted.drafts, self._transaction.now)))
                self._noted.append(run)
                if streams(emitted.drafts):
                    self._streaming.add(run.number)
        for saved in self._step.saved:
            if self._standing(saved.number, saved.fence) is not None:
                self._save(saved)
        self._overdue += [(number,) for number, fence in self._step.overdue if self._stands(number, fence)]
        for result in self._step.results:
            number = result.number
            run = self._leases.get(number)
            if run is None or run.fence != result.fence:
                self.refused.append((number, result.fence))
                continue
            del self._leases[number]
            self._end_attempt(run, result)

    def _save(self, saved: Saved) -> None:
        if saved.state is not None:
            self._saved[saved.number] = saved.state
        if saved.prepared is not None:
            self._prepared[saved.number] = saved.prepared
        if saved.memo is not None:
            self._memos.append((saved.number, saved.memo))

    def write(self) -> None:
        """Write everything, and delete the leases: so a released run can be claimed again in the same step."""
        db = self._transaction.db
        db.insert(_SQL["save"], list(self._saved.items()))
        db.insert(_SQL["prepare"], list(self._prepared.items()))
        memos.put(db, self._memos)
        db.each(_SQL["forgive"], [(number,) for number in (*self._saved, *(number for number, _ in self._memos))])
        db.each(_SQL["overdue"], self._overdue)
        # Sorted by number, so that neighbours are on the same page of the indexes.
        self._successes.sort()
        ended = [row[0] for rows in (self._outcomes, self._successes) for row in rows]
        if ended:
            db.execute(_SQL["free"], (as_json(ended),))
            db.insert(_SQL["settle"], self._outcomes)
            db.insert(_SQL["succeed"], self._successes)
        db.insert(_SQL["append"], self._chunks)
        db.insert(_SQL["streams"], [(number,) for number in self._streaming])
        db.each(_SQL["note"], [(run.events, run.number) for run in self._noted if run.number in self._leases])
        self._chunks, self._outcomes, self._successes, self._noted, self._overdue = [], [], [], [], []
        self._saved, self._prepared, self._memos, self._streaming = {}, {}, [], set()
        if self._tied:
            self._transaction.jobs.runs_ended(self._after_commit, self._tied)
            self._tied = []

    def _read(self, step: Step) -> dict[int, LeasedRun]:
        numbers = _named(step)
        if not numbers:
            return {}
        asked = as_json(sorted(numbers)), step.incarnation
        leases = {run.number: run for run in starmap(LeasedRun, self._transaction.db.execute(_SQL["leased"], asked))}
        self._transaction.shelves.prefetch.expect(leases.values())
        if self._transaction.header.circuits:
            charged = {result.number for result in step.results if result.settlement.charge is not None}
            self._transaction.circuits.expect([run for number, run in leases.items() if number in charged])
        return leases

    def _stands(self, number: int, fence: int) -> bool:
        run = self._leases.get(number)
        return run is not None and run.fence == fence

    def _standing(self, number: int, fence: int) -> LeasedRun | None:
        run = self._leases.get(number)
        if run is None or run.fence != fence:
            self.refused.append((number, fence))
            return None
        return run

    def _end_attempt(self, run: LeasedRun, result: Result) -> None:
        settlement, flow = result.settlement, self._transaction.flow
        if run.request is not None or settlement.move is _PAUSE:
            settlement = overruled(settlement, run.requested, run.attempt)
        if settlement.own and streams(settlement.drafts):
            self._streaming.add(run.number)
        flow.free(run)
        if settlement.charge is not None or (self._guarded and run.task in self._guarded):
            self._tell_breaker(run, settlement)
        if result.throttled is not None and run.session is not None:
            flow.throttle(run.session, throttled=result.throttled)
        if run.number in self._taken:
            self._inboxes.read(run, result.read)
        state = STATES[settlement.move]
        if state is _PENDING or state is _PAUSED:
            self._return(run, settlement, state)
        elif state is _WAITING:
            self._wait(run, settlement)
        else:
            self._end(run, settlement, state)

    def _tell_breaker(self, run: LeasedRun, settlement: Settlement) -> None:
        transaction = self._transaction
        succeeded = settlement.move is _SUCCEED
        if transaction.circuits.end(run, settlement.charge, transaction.now, succeeded=succeeded):
            transaction.db.execute(_DISABLE, (run.task,))

    def _return(self, run: LeasedRun, settlement: Settlement, state: RunState) -> None:
        due_at = self._transaction.now + settlement.delay
        self._note(run, settlement, state, due_at=due_at)
        if state is _PENDING:
            self._give_back(run, due_at)

    def _end(self, run: LeasedRun, settlement: Settlement, state: RunState) -> None:
        self._note(run, settlement, state, ended_at=self._transaction.now)
        more = (run.tied is not None or settlement.leaves is not None or run.waited is not None) and leaves_more(
            run, settlement
        )
        if more:
            self._flush()
        if run.number in self._taken:
            self._inboxes.close(run, cleared=run.cleared)
        if more:
            self._follow_ups.end(run, state, settlement)
        elif run.tied is not None:
            self._tied.append((run, state, settlement.failure))
        if run.session is not None:
            self._transaction.flow.end(run)
        if more:
            self._look_again()

    def _wait(self, run: LeasedRun, settlement: Settlement) -> None:
        leaves, now = settlement.leaves, self._transaction.now
        assert leaves is not None
        assert leaves.wait is not None
        self._flush()
        wait, over = self._follow_ups.stamped(run, leaves.wait)
        state = _WAITING if not over else _PENDING if run.request is None else _PAUSED
        if state is _PAUSED:
            settlement = msgspec.structs.replace(settlement, drafts=(*settlement.drafts, draft(events.PAUSED, {})))
        self._note(run, settlement, state, due_at=now)
        self._follow_ups.wait(run, wait, leaves.calls, over=over)
        if state is _PENDING:
            self._give_back(run, now)
        self._look_again()

    def _note(
        self,
        run: LeasedRun,
        settlement: Settlement,
        state: RunState,
        *,
        due_at: int | None = None,
        ended_at: int | None = None,
    ) -> None:
        """Add the outcome of the attempt. The last events of an ended run are stored with it."""
        text = logged(run, settlement.drafts, self._transaction.now)
        run.attempt, run.crashes = settlement.attempt, settlement.crashes
        log = None
        if ended_at is not None:
            log = text
        elif text != NO_EVENTS:  # a run that repeats its question has no new events
            self._chunks.append(appended(run, text))
        if settlement.move is _SUCCEED:
            # A statement of its own, because binding NULLs takes longer than the rest of the row.
            self._successes.append(
                (run.number, run.attempt, run.fence, run.events, run.started_at, ended_at, settlement.result, log)
            )
            return
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
                settlement.failure and _failure(settlement.failure),
                settlement.result,
                log,
            )
        )

    @cached_property
    def _follow_ups(self) -> FollowUps:
        # Made on demand: most steps need none.
        return FollowUps(self._transaction, self._after_commit, behind=self._behind)

    def _flush(self) -> None:
        """Write everything: what follows reads other runs, perhaps of this step."""
        self.write()
        self._transaction.write_shelves()

    def _look_again(self) -> None:
        """Read the leases again: the last result may have changed or deleted some."""
        self._flush()
        self._leases = self._read(self._step)
        self._taken = self._inboxes.counts(self._leases.values())

    def _give_back(self, run: LeasedRun, due_at: int) -> None:
        run.kind = AGAIN
        self._transaction.counts.lanes[run.lane].pending += 1
        if due_at > self._transaction.now:
            self._transaction.shelves.put_due(run, due_at)
            self._transaction.flow.step_out(run)
        else:
            self._transaction.flow.rejoin(run)


def named(step: Step) -> list[int]:
    """Return the numbers of the runs that the step mentions, in order."""
    return sorted(_named(step))


def _named(step: Step) -> set[int]:
    numbers = {result.number for result in step.results}
    if step.emitted or step.saved or step.overdue:
        numbers.update(item.number for items in (step.emitted, step.saved) for item in items)
        numbers.update(number for number, _ in step.overdue)
    return numbers


def _failure(failure: Failure) -> str:
    return msgspec.json.encode(failure).decode()
