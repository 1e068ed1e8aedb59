"""Control of runs in the memory store: decisions of `core.lifecycle.control` and session policies, on records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.core.lifecycle import control
from laneway.core.lifecycle.control import Change
from laneway.core.queue.shelves import Shelf
from laneway.core.records.memos import Memo, MemoKind, Question, Wait
from laneway.core.records.run import Why
from laneway.core.records.states import TERMINAL, RunState
from laneway.stores.memory.rules.endings import RecordEndings
from laneway.stores.memory.rules.leases import LeaseWrites
from laneway.stores.memory.state.records import RunRecord
from laneway.stores.memory.state.state import MemoryState
from laneway.stores.memory.state.workers import WorkerRecord


class RecordControl:
    """Moves records from where they are to where a change wants them; fulfils `core.lifecycle.arrivals.Floor`.

    `is_dead` tells whether a worker is; `call` is the id of the call under way, noted with each run it changes.
    """

    def __init__(
        self, state: MemoryState, leases: LeaseWrites, endings: RecordEndings, is_dead: Callable[[WorkerRecord], bool]
    ) -> None:
        self._state, self._flow, self._heaps = state, state.flow, state.heaps
        self._leases, self._endings, self._is_dead = leases, endings, is_dead
        self.call = ""
        self._abandons = False  # what is called by whom a call abandons, is abandoned
        endings.cancel, endings.let_go_on = self._cancel_called, self._apply_beside

    # What a session's policy may see and do

    def queued(self, session: str) -> Sequence[RunRecord]:
        """Return what has joined and was never started; see `Floor`."""
        book = self._state.sessions.get(session)
        if book is None:
            return []
        first = [self._state.numbered(book.unstarted)] if book.unstarted else []
        return first + [run for run in self._heaps.held_by(session) if not run.fence]

    def active(self, session: str) -> Sequence[RunRecord]:
        """Return what was started and has not ended; see `Floor`."""
        book = self._state.sessions.get(session)
        return [self._state.numbered(number) for number in sorted(book.active)] if book else []

    def future(self, session: str) -> Sequence[RunRecord]:
        """Return what has not joined yet; see `Floor`."""
        queued = {run.number for run in self.queued(session)}
        paused = (run for run in self._state.records if run.paused and run.session == session and not run.fence)
        return self._heaps.due_of(session) + [run for run in paused if run.number not in queued]

    def run(self, number: int) -> RunRecord:
        """Return a run by its number; see `Floor`."""
        return self._state.numbered(number)

    def drop(self, run: RunRecord, why: Why) -> None:
        """Drop a run that was never started; see `Floor`."""
        self._state.counts[run.lane, f"dropped {why}"] += 1
        for key in run.keyed:
            self._state.keys.pop(key, None)
        self.apply(run, control.drop(run.state, why))

    def supersede(self, run: RunRecord, by: str) -> None:
        """End a run that waits for an answer; see `Floor`."""
        self.apply(run, control.supersede(by))

    def answer(self, run: RunRecord, answer: str, question: Question | None = None) -> None:
        """Answer a question, the first unless told otherwise; see `Floor`."""
        question = question or (run.wait or Wait()).questions[0]
        memo = Memo(kind=MemoKind.ANSWER, name=question.name, value=answer, about=question.about, attempt=run.attempt)
        run.keep(memo)
        self.apply(run, control.go_on(run.request, control.answered(question, answer)))

    def expire(self, run: RunRecord) -> None:
        """End a run whose question was not answered in time."""
        self._apply_beside(run, control.expire(run.wait or Wait(), self._state.clock.now()))

    def cancel(self, run: RunRecord, *, clears: bool = False, abandon: bool = False, why: Why | None = None) -> bool:
        """Cancel a run; see `Floor`."""
        holder = next((worker for worker in self._state.workers.values() if run.number in worker.leases), None)
        lapsed = run.lapsed or (holder is not None and self._is_dead(holder))
        change = control.cancel(run.state, run.request, lapsed=lapsed, abandon=abandon, why=why)
        run.cleared = run.cleared or clears
        if change is None:
            return False
        if holder is not None and change.state is not RunState.RUNNING:
            del holder.leases[run.number]
            if holder.left and not holder.leases:
                del self._state.workers[holder.incarnation.id]
        before, self._abandons = self._abandons, abandon
        self.apply(run, change)
        self._abandons = before
        return True

    # Applying changes

    def apply(self, run: RunRecord, change: Change) -> None:
        """Apply a change. A run that ends while it is running has lost its lease already."""
        now = self._state.clock.now()
        before, run.state, run.request = run.state, change.state, change.request
        self._state.say(run, change.drafts, now)
        if change.state in TERMINAL:
            run.reason, run.ended_at = change.reason, now
            self._take_out(run, before)
            self._end(run, before, now)
        elif before is RunState.WAITING:
            if change.state is not RunState.WAITING:  # else only a request is withdrawn
                self._flow.stop_asking(run)
                run.due_at = now
            if change.state is RunState.PENDING:
                self._put_back(run, now)
        elif change.state is RunState.PAUSED:
            if run.shelf is not Shelf.HELD:
                self._heaps.remove(run)
            self._flow.set_down(run, run.shelf)
        elif change.state is RunState.PENDING:
            self._put_back(run, now)
        run.call = self.call
        self.tell(run)

    def _cancel_called(self, run: RunRecord) -> None:
        call, self.call = self.call, ""
        self.cancel(run, abandon=self._abandons, why=Why.PARENT_ENDED)
        self.call = call

    def _apply_beside(self, run: RunRecord, change: Change) -> None:
        """Change a run as a consequence of a call about another run."""
        call, self.call = self.call, ""
        self.apply(run, change)
        self.call = call

    def tell(self, run: RunRecord) -> None:
        """Wake the worker that executes the run, if anything is requested of the run."""
        if run.state is RunState.RUNNING and (run.request is not None or run.inbox):
            self._leases.requested.add(run.number)
        else:
            self._leases.requested.discard(run.number)
        # The worker of a lapsed lease does not exist any more.
        if run.worker in self._state.workers:
            self._state.workers[run.worker].wake()

    def _take_out(self, run: RunRecord, before: RunState) -> None:
        shelf = run.shelf
        if before is RunState.PENDING:
            self._heaps.remove(run)
            self._flow.withdraw(run, shelf)
        elif before is RunState.PAUSED and shelf is Shelf.HELD and run.spot:
            self._heaps.remove(run)
            self._flow.unhold(run)

    def _end(self, run: RunRecord, before: RunState, now: int) -> None:
        if before is RunState.RUNNING:
            self._flow.free(run)
            self._state.circuits.end(run, None, now)
        self._endings.close(run, now)
        self._flow.end(run)
        run.worker, run.lapsed = None, False

    def _put_back(self, run: RunRecord, now: int) -> None:
        self._state.lanes[run.lane].pending += 1
        if run.shelf is Shelf.HELD and run.spot:
            return  # it was held all the time
        if run.due_at > now and not self._flow.is_admitted(run):
            self._heaps.put_due(run)
        else:
            self._flow.take_up(run, run.arrival)
