"""The memory store: the reference. It keeps records in dictionaries and calls the core's rules directly.

It keeps what it accepted while its process lives. One lock around every verb makes each atomic, also for threads of
their own (the renewer's). Everything else is the core: `Flow` says what may start, `Heartbeat` who is alive,
settlements arrive decided.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from typing import assert_never
from weakref import WeakSet

import msgspec

from laneway.core.lifecycle import control
from laneway.core.lifecycle.arrivals import Stopped, stop, stop_all
from laneway.core.lifecycle.step import ReclaimReply, RenewReply, Step, StepReply, named_in
from laneway.core.queue.audit import Finding
from laneway.core.queue.claim import MOST_MOVES
from laneway.core.records.liveness import Incarnation
from laneway.core.records.policy import Lane
from laneway.core.records.run import Claimed, NewRun, Receipt, Run, RunFilter, handed
from laneway.core.records.states import TERMINAL, Move, RunState
from laneway.core.transfer.move_state import MovePhase, is_still, refuse_change, refuse_new
from laneway.errors import NotWaiting, UsageError, WrongState
from laneway.ports.clock import Clock
from laneway.ports.control import Answer, Cancel, Pause, Resume, RunChange, Swept
from laneway.ports.sessions import Extent
from laneway.ports.settings import Setting
from laneway.ports.upkeep import Examination, Old, OldDeltas, OldRuns
from laneway.stores.memory import upkeep
from laneway.stores.memory.rules.acceptance import RecordIntake
from laneway.stores.memory.rules.control import RecordControl
from laneway.stores.memory.rules.endings import RecordEndings
from laneway.stores.memory.rules.inboxes import RecordInboxes
from laneway.stores.memory.rules.leases import LeaseWrites, leased
from laneway.stores.memory.rules.settings import OperatorSettings
from laneway.stores.memory.state.records import EventBatch, RunRecord, fits, run_of
from laneway.stores.memory.state.workers import WorkerRecord
from laneway.stores.memory.verbs.jobs import JobVerbs
from laneway.stores.memory.verbs.moves import MoveVerbs
from laneway.stores.memory.verbs.reads import ReadVerbs

# Module names: looking up an enum's member costs more than comparing it.
_PENDING, _RUNNING = RunState.PENDING, RunState.RUNNING


class MemoryStore(ReadVerbs, JobVerbs, MoveVerbs):
    """A store in this process's memory."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        state = self._state
        self._workers, self._flow, self._heaps, self._lanes = state.workers, state.flow, state.heaps, state.lanes
        inboxes = RecordInboxes(state)
        endings = RecordEndings(state, inboxes)
        self._leases = LeaseWrites(state, endings)
        self._control = RecordControl(state, self._leases, endings, self._liveness.is_dead)
        self._intake = RecordIntake(state, self._control, inboxes, endings)
        self._settings = OperatorSettings(state)
        _STORES.add(self)

    async def open(self) -> None:
        """Do nothing: memory is always open."""

    async def close(self) -> None:
        """Do nothing: what was accepted stays until the process ends."""

    # Runs

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept the batch; see `RunStore`."""
        with self._lock:
            refuse_new(self._state.moving)
            now = self._clock.now()
            self._make_due(now)
            receipts = [self._intake.accept(new, now) for new in batch]
            self._wakeups.wake_for_work()
            if self._state.said:
                self._tell_watchers()
            return receipts

    # Control

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        """Cancel, pause, resume or answer the run; see `ControlStore`."""
        with self._steered(call):
            run = self._state.known(run_id)
            refused = None if run.call == call else self._make(run, change)
            if refused is None:
                return run_of(run)
        raise refused

    def _make(self, run: RunRecord, change: RunChange) -> UsageError | None:
        """Make the change. An error that must not undo what was done before it is returned, not raised."""
        match change:
            case Cancel(abandon):
                self._control.cancel(run, abandon=abandon)
            case Pause():
                paused = control.pause(run.state, run.request)
                if paused is not None:
                    self._control.apply(run, paused)
            case Resume():
                return self._resume(run)
            case Answer(text, name):
                return self._answer(run, text, name)
            case _:
                assert_never(change)
        return None

    def _resume(self, run: RunRecord) -> WrongState | None:
        change = control.resume(run.state, run.request)
        if change.state is _PENDING:
            # Due runs of its session join before it.
            self._make_due(self._clock.now())
        # Its caller may just have ended, and ended this run with it.
        if run.state in TERMINAL:
            return WrongState(run.state.value, Move.RESUME.value)
        self._control.apply(run, change)
        return None

    def _answer(self, run: RunRecord, text: str, name: str | None) -> NotWaiting | None:
        question = control.question_for(run.id, run.state, run.wait, name)
        if run.wait is not None and (run.wait.until or 0) <= self._clock.now():
            self._control.expire(run)
            return NotWaiting(run.id, run.state.value)
        self._control.answer(run, text, question)
        return None

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit; see `ControlStore`."""
        with self._steered(call):
            first = bisect_left(self._state.records, after + 1, key=lambda record: record.number)
            runs = [run for run in self._state.records[first:] if until is None or run.number <= until]
            done = [run for run in runs if run.call == call]
            if not done:
                fitting = (run for run in runs if run.state not in TERMINAL and fits(run, wanted))
                done = list(islice((run for run in fitting if self._control.cancel(run)), max(0, limit)))
            return Swept(len(done), done[-1].number if done and len(done) == limit else None)

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        """Stop what goes on in the session; see `SessionStore`."""
        with self._steered(call):
            before = self._same_stop(call)
            if before is not None:
                return before
            if extent is Extent.OLDEST:
                return _stopped(stop(self._control, name))
            return _stopped(*stop_all(self._control, name, abandon=extent is Extent.ABANDON))

    # Settings

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Store what is declared of lanes; see `LaneStore`."""
        with self._changed():
            self._settings.declare_lanes(lanes)

    async def set(self, setting: Setting) -> None:
        """Set what an operator sets; see `SettingStore`."""
        with self._changed():
            self._settings.set(setting)

    # Workers

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Make the incarnation known; see `WorkerStore`."""
        with self._lock:
            self._liveness.register(incarnation, wake)

    async def step(self, step: Step) -> StepReply:
        """Settle, claim, rest; see `WorkerStore`."""
        with self._lock:
            worker = self._liveness.alive(step.incarnation)
            # Race: a copy of an older step may arrive after its successor; no caller waits for its reply.
            if step.call <= worker.call:
                return self._same_answer(worker)
            now, moving = self._clock.now(), self._state.moving
            leaving = moving if moving is not None and moving.leaves else None
            if leaving is not None:
                if leaving.phase is MovePhase.FROZEN:
                    return StepReply(refused=named_in(step), now=now, moved=leaving.place)
                step = msgspec.structs.replace(step, room=0, park=False)
            # First the due runs: a run that a result lets join its session comes behind them.
            self._make_due(now)
            # Before the results: a run that ends in this step was overdue, or saved a checkpoint, before its end.
            refused = self._leases.write(worker, step, now)
            refused += self._leases.settle(worker, step.results, now)
            claimed, more = self._claim(worker, step.room, now)
            next_due = self._state.next_due(now)
            due_in = None if next_due is None else max(0, next_due - now)
            requests = self._leases.requests(worker)
            fires_in = self._fires_in(now)
            worker.call, worker.reply = step.call, StepReply(claimed, refused, due_in, more, now, requests, fires_in)
            worker.idle = step.park and not more and len(claimed) < step.room
            worker.told, worker.short = next_due, step.short
            self._wakeups.wake_for_work()
            self._tell_watchers()
            return self._to(worker.reply)

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; see `WorkerStore`."""
        with self._lock:
            now = self._clock.now()
            worker = self._liveness.renew(incarnation, now)
            leases = [(run.number, run.fence) for run in worker.leases.values()]
            return RenewReply(now, leases, self._leases.requests(worker))

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Take over from the dead; see `WorkerStore`."""
        with self._lock:
            reply = self._liveness.reclaim(incarnation, gone, limit)
            self._wakeups.wake_for_work()
            return reply

    async def leave(self, incarnation: str) -> None:
        """Unregister the incarnation; see `WorkerStore`."""
        with self._lock:
            self._liveness.leave(incarnation)
            self._wakeups.wake_for_work()

    def look(self) -> bool:
        """Return False: wake-ups do not get lost within a process."""
        return False

    # Upkeep

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        """Delete what is old; see `UpkeepStore`."""
        with self._lock:
            if is_still(self._state.moving):
                return 0
            now = self._clock.now()
            match old:
                case OldRuns(keep):
                    runs = upkeep.outdated(self._state.records, keep, now, limit)
                    upkeep.forget(self._state, runs, now)
                    return len(runs)
                case OldDeltas(age):
                    return upkeep.trim(self._state, age, now, limit)

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Compare the counts with what they count; see `UpkeepStore`."""
        with self._lock:
            if repair:
                refuse_change(self._state.moving)
            findings = upkeep.check(self._state, repair=repair)
            if repair:
                self._wakeups.wake_for_work()
            return findings

    async def examine(self, *, deep: bool = True) -> Examination:
        """Return the condition of the store; see `UpkeepStore`."""
        findings = await self.check() if deep else None
        return Examination(
            engine="memory",
            layout=1,
            newest_layout=1,
            findings=findings,
            runs=(await self.depths()).runs,
            workers=await self.workers(),
            set_back=0,
        )

    # Claiming

    def _make_due(self, now: int) -> None:
        while (late := self._heaps.take_late(now)) is not None:
            self._control.expire(late)
        for _ in range(MOST_MOVES):
            record = self._heaps.take_due(now)
            if record is None:
                return
            if record.fence:
                self._flow.rejoin(record)
            else:
                self._flow.join(record, record.arrival)

    def _fires_in(self, now: int) -> int | None:
        soonest = self._state.jobs.soonest()
        return None if soonest is None else max(0, soonest - now)

    def _claim(self, worker: WorkerRecord, room: int, now: int) -> tuple[list[Claimed], bool]:
        if room <= 0:
            return [], False
        tasks = worker.incarnation.tasks - self._state.paused_tasks
        spare = {
            name: worker.spare(name, book.lane.worker_limit)
            for name, book in self._lanes.items()
            if book.lane.worker_limit is not None
        }
        lanes = self._flow.with_broken(self._heaps.lanes_with_work(tasks), tasks, now)
        started, more = self._flow.claim(lanes, room, tasks, worker.call, spare, now)
        me, leases = worker.incarnation.id, worker.leases
        first = EventBatch(1, now, worker.started, None)
        for run in started:
            run.state, run.worker, run.started_at = _RUNNING, me, now
            run.fence += 1
            # Most runs start for the first time, in one claim: they share a batch.
            run.log = (
                first if run.log is None and run.attempt == 1 else EventBatch(run.attempt, now, worker.started, run.log)
            )
            leases[run.number] = run
            if run.taken and run.inbox:
                self._leases.requested.add(run.number)
        return handed(started, me), more

    # Control

    @contextmanager
    def _steered(self, call: str) -> Iterator[None]:
        """Note the id of the call for the changes in the block; then wake workers and notify watchers."""
        with self._changed():
            self._control.call = call
            try:
                yield
            finally:
                self._control.call = ""

    def _same_stop(self, call: str) -> Stopped | None:
        changed = [run for run in self._state.records if run.call == call]
        dropped = [run for run in changed if run.state is RunState.DROPPED]
        return _stopped([run for run in changed if run not in dropped], dropped) if changed else None

    def _same_answer(self, worker: WorkerRecord) -> StepReply:
        # Runs that were cancelled meanwhile are left out: the worker must not start them.
        claimed = [run for run in worker.reply.claimed if leased(worker, run.number, run.fence)]
        told, fires_in = self._leases.requests(worker), self._fires_in(worker.reply.now)
        return self._to(msgspec.structs.replace(worker.reply, claimed=claimed, requests=told, fires_in=fires_in))

    def _to(self, reply: StepReply) -> StepReply:
        moving = self._state.moving
        leaves = moving is not None and moving.leaves
        return msgspec.structs.replace(reply, moved=moving.place) if moving is not None and leaves else reply


def _stopped(cancelled: Iterable[RunRecord], dropped: Iterable[RunRecord] = ()) -> Stopped:
    by_number = attrgetter("number")
    return Stopped(
        tuple(run.id for run in sorted(cancelled, key=by_number)),
        tuple(run.id for run in sorted(dropped, key=by_number)),
    )


# A forked child has a copy of the records, but no thread that may have been changing them.
_STORES: WeakSet[MemoryStore] = WeakSet()
_QUIET: list[threading.Lock] = []


def _come_to_rest() -> None:
    for lock in [store._lock for store in _STORES]:  # noqa: SLF001  # it is ours
        lock.acquire()
        _QUIET.append(lock)


def _go_on() -> None:
    while _QUIET:
        _QUIET.pop().release()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_come_to_rest, after_in_parent=_go_on, after_in_child=_go_on)
