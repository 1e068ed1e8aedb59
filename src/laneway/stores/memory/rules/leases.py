"""Leases in the memory store: which worker holds which run, and writes under a lease."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.lifecycle.outcome import STATES, SUCCESS, Leaves, Settlement, overruled
from laneway.core.lifecycle.step import Requested, Result, Saved, Step
from laneway.core.records import events
from laneway.core.records.events import draft, streams
from laneway.core.records.run import Request
from laneway.core.records.states import Move, RunState
from laneway.stores.memory.rules.endings import RecordEndings
from laneway.stores.memory.state.records import EventBatch, RunRecord
from laneway.stores.memory.state.state import MemoryState
from laneway.stores.memory.state.workers import WorkerRecord

# Names of their own: looking up an enum's member costs more than what is done with it.
_PENDING, _PAUSED, _SUCCEEDED, _WAITING = RunState.PENDING, RunState.PAUSED, RunState.SUCCEEDED, RunState.WAITING
_PAUSE, _SUCCEED = Move.PAUSE, Move.SUCCEED


class LeaseWrites:
    """Writes under leases that hold. The store has its lock."""

    def __init__(self, state: MemoryState, endings: RecordEndings) -> None:
        self._state, self._flow, self._heaps, self._endings = state, state.flow, state.heaps, endings
        self.requested: set[int] = set()  # the numbers of running runs of which something was requested

    def settle(self, worker: WorkerRecord, results: Sequence[Result], now: int) -> list[tuple[int, int]]:
        """Write the settlements whose leases hold; return the leases that do not."""
        refused = []
        log = EventBatch(0, now, (), None)  # the newest; the next run's may be the same
        leases, requested, free, end = worker.leases, self.requested, self._flow.free, self._flow.end
        guarded = self._state.circuits.tasks
        for result in results:
            number, settlement = result.number, result.settlement
            run = leases.get(number)
            if run is None or run.fence != result.fence:
                refused.append((number, result.fence))
                continue
            del leases[number]
            if requested:
                requested.discard(number)
            if run.request is not None or settlement.move is _PAUSE:
                settlement = self._overruled(run, settlement)
            # Runs that share their newest batch are in the same attempt.
            if log.before is not run.log or log.drafts is not settlement.drafts:
                log = EventBatch(run.attempt, now, settlement.drafts, run.log)
            run.log, run.worker, run.result = log, None, settlement.result
            free(run)
            if (
                settlement.drafts is SUCCESS
                and run.fence == 1
                and settlement.leaves is None
                and settlement.charge is None
                and result.throttled is None
                and run.ties is None
                and run.wait is None
                and not (run.taken or run.lapsed or run.timed_out or guarded)
            ):
                # As most: it was started once, has said nothing, and nothing of it concerns others but its session.
                run.state, run.ended_at = _SUCCEEDED, now
                if run.session is not None:
                    end(run)
            else:
                self._end_attempt(run, settlement, result, now)
        return refused

    def _end_attempt(self, run: RunRecord, settlement: Settlement, result: Result, now: int) -> None:
        run.lapsed = run.timed_out = False
        run.attempt, run.crashes = settlement.attempt, settlement.crashes
        run.failure, run.reason = settlement.failure, settlement.reason
        if settlement.charge is not None or run.task in self._state.circuits.tasks:
            self._tell_breaker(run, settlement, now)
        if settlement.own and streams(settlement.drafts):
            self._state.transient.add(run)
        self._place(run, settlement, result, now)

    def _place(self, run: RunRecord, settlement: Settlement, result: Result, now: int) -> None:
        """Move a run to where its settlement says: to a shelf, to none, or to its end."""
        if run.session is not None:
            self._tell_session(run, run.session, result)
        run.state = state = STATES[settlement.move]
        if state is _PENDING:
            self._return(run, now + settlement.delay, now)
        elif state is _PAUSED:
            run.due_at = now + settlement.delay
        elif state is _WAITING and settlement.leaves is not None:
            self._wait(run, settlement.leaves, now)
        else:
            self._end(run, settlement.leaves, now)

    def _end(self, run: RunRecord, leaves: Leaves | None, now: int) -> None:
        run.ended_at = now
        if leaves is not None or run.taken or run.ties is not None or run.wait is not None:
            self._endings.close(run, now, () if leaves is None else leaves.follow_ups)
        if run.session is not None:
            self._flow.end(run)

    def _wait(self, run: RunRecord, leaves: Leaves, now: int) -> None:
        assert leaves.wait is not None
        run.wait = leaves.wait.stamped(now, run.wait, run.memos)
        run.due_at = now
        for new in leaves.calls:
            self._endings.accept(new, now)
        if not run.wait.is_over(run.memos):
            self._flow.wait(run, asks=bool(run.wait.questions))
            self._heaps.put_deadline(run)
        elif run.request is None:
            run.state = _PENDING
            self._return(run, now, now)
        else:
            run.state, run.request = _PAUSED, None
            self._state.say(run, (draft(events.PAUSED, {}),), now)

    def _tell_breaker(self, run: RunRecord, settlement: Settlement, now: int) -> None:
        if self._state.circuits.end(run, settlement.charge, now, succeeded=settlement.move is _SUCCEED):
            self._state.disabled_tasks.add(run.task)

    @staticmethod
    def _overruled(run: RunRecord, settlement: Settlement) -> Settlement:
        settlement = overruled(settlement, run.request, run.attempt)
        if STATES[settlement.move] is not _WAITING:  # else what was requested holds when it goes on
            run.request = None
        return settlement

    def _tell_session(self, run: RunRecord, session: str, result: Result) -> None:
        run.read = min(result.read, len(run.inbox)) if run.taken else 0  # nobody has read what has not come
        if result.throttled is not None:
            self._flow.throttle(session, throttled=result.throttled)

    def _return(self, run: RunRecord, due_at: int, now: int) -> None:
        run.due_at = due_at
        self._state.lanes[run.lane].pending += 1
        if due_at > now:
            self._heaps.put_due(run)
            self._flow.step_out(run)
        else:
            self._flow.rejoin(run)

    def write(self, worker: WorkerRecord, step: Step, now: int) -> list[tuple[int, int]]:
        """Write events, checkpoints and memos under leases that go on; return the leases that are not the worker's."""
        refused = []
        for emitted in step.emitted:
            run = leased(worker, emitted.number, emitted.fence)
            if run is None:
                refused.append((emitted.number, emitted.fence))
            else:
                run.log = EventBatch(run.attempt, now, emitted.drafts, run.log)
                if streams(emitted.drafts):
                    self._state.transient.add(run)
        for saved in step.saved:
            run = leased(worker, saved.number, saved.fence)
            if run is None:
                refused.append((saved.number, saved.fence))
            else:
                _save(run, saved)
        for number, fence in step.overdue:
            run = leased(worker, number, fence)
            if run is not None:
                run.timed_out = True
        return refused

    def requests(self, worker: WorkerRecord) -> list[Requested]:
        """Return what is requested of the runs that the worker executes."""
        found = []
        for number in sorted(self.requested & worker.leases.keys()):
            run = worker.leases[number]
            if run.lapsed:
                continue
            if run.request is not None:
                found.append(Requested(number, run.fence, run.request))
            if inbox := run.inbox:
                found.append(Requested(number, run.fence, Request.STEER, len(inbox)))
        return found


def _save(run: RunRecord, saved: Saved) -> None:
    if saved.state is not None:
        run.checkpoint, run.crashes = saved.state, 0
    if saved.prepared is not None:
        run.prepared = saved.prepared
    if saved.memo is not None:
        run.keep(saved.memo)
        run.crashes = 0


def leased(worker: WorkerRecord, number: int, fence: int) -> RunRecord | None:
    """Return the run if the worker holds it under this fence."""
    run = worker.leases.get(number)
    return run if run is not None and run.fence == fence else None
