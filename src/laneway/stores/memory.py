"""The memory store: the reference. It keeps records in dictionaries and calls the core's rules directly.

It keeps what it accepted while its process lives. One lock around every verb makes each atomic, also for threads of
their own (the renewer's). Everything else is the core: `Flow` says what may start, `Heartbeat` who is alive,
settlements arrive decided.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, islice
from weakref import WeakSet

import msgspec

from laneway.core import codec, control
from laneway.core.audit import Finding
from laneway.core.control import Change
from laneway.core.events import Event, numbered
from laneway.core.flow import MOST_MOVES, Flow
from laneway.core.liveness import Heartbeat, Incarnation, WorkerInfo
from laneway.core.policy import DEFAULT_LANES, MAIN, Lane
from laneway.core.run import Claimed, NewRun, Receipt, ReceiptOutcome, Run, RunFilter, handed
from laneway.core.sessions import SessionBook
from laneway.core.states import TERMINAL, RunState
from laneway.core.step import ReclaimReply, RenewReply, Step, StepReply
from laneway.core.turns import LaneBook, Ledger, Seat, Turn
from laneway.errors import LeaseLost, UnknownRun
from laneway.ports.clock import Clock
from laneway.ports.control import Swept
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.upkeep import Examination
from laneway.stores import upkeep
from laneway.stores.heaps import Heaps
from laneway.stores.leases import Leases, Worker, leased
from laneway.stores.records import Batch, Record, fits, log_of, run_of, value_of
from laneway.stores.steering import Steering

# Names of their own: looking up an enum's member costs more than what is done with it.
_PENDING, _RUNNING = RunState.PENDING, RunState.RUNNING


class MemoryStore:
    """A store in this process's memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._records: list[Record] = []  # by acceptance number, with gaps where runs were pruned
        self._by_id: dict[str, Record] = {}
        self._lanes: dict[str, LaneBook] = {}
        self._sessions: Ledger[str, SessionBook] = Ledger(SessionBook)
        self._heaps = Heaps()
        self._flow: Flow[Record] = Flow(self._heaps, self._lanes, self._sessions)
        self._steering = Steering(self._flow, self._heaps)
        self._leases = Leases(self._flow, self._heaps)
        self._workers: dict[str, Worker] = {}
        self._heartbeat = Heartbeat()
        self._watchers: list[Callable[[], None]] = []
        self._put_lanes(DEFAULT_LANES)
        _STORES.add(self)

    async def open(self) -> None:
        """Do nothing: memory is always open."""

    async def close(self) -> None:
        """Do nothing: what was accepted stays until the process ends."""

    # Runs

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept the batch; see `RunStore`."""
        with self._lock:
            now = self._clock.now()
            self._make_due(now)
            receipts = [self._accept(new, now) for new in batch]
            self._wake_for_work()
            return receipts

    async def get(self, run_id: str) -> Run:
        """Return the run; see `RunStore`."""
        with self._lock:
            record = self._by_id.get(run_id)
            if record is not None:
                return run_of(record)
            fits = [record for id_, record in self._by_id.items() if run_id and id_.startswith(run_id)]
            if len(fits) != 1:
                raise UnknownRun(run_id, len(fits))
            return run_of(fits[0])

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return runs, newest first; see `RunStore`."""
        with self._lock:
            end = None if before is None else bisect_left(self._records, before, key=lambda record: record.number)
            found: list[Run] = []
            for record in reversed(self._records[:end]):
                if len(found) == limit:
                    break
                if fits(record, wanted):
                    found.append(run_of(record))
            return found

    async def count(self) -> dict[str, int]:
        """Count the runs by state; see `RunStore`."""
        with self._lock:
            counts: dict[str, int] = {}
            for record in self._records:
                counts[record.state.value] = counts.get(record.state.value, 0) + 1
            return counts

    # Control

    async def cancel(self, call: str, run_id: str, *, abandon: bool = False) -> Run:
        """Cancel the run; see `ControlStore`."""
        with self._lock:
            run = self._known(run_id)
            if run.call != call:
                self._cancel(call, run, abandon=abandon)
            return run_of(run)

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit; see `ControlStore`."""
        with self._lock:
            first = bisect_left(self._records, after + 1, key=lambda record: record.number)
            runs = [run for run in self._records[first:] if until is None or run.number <= until]
            done = [run for run in runs if run.call == call]
            if not done:
                fitting = (run for run in runs if run.state not in TERMINAL and fits(run, wanted))
                done = list(islice((run for run in fitting if self._cancel(call, run)), max(0, limit)))
            return Swept(len(done), done[-1].number if done and len(done) == limit else None)

    async def pause(self, call: str, run_id: str) -> Run:
        """Pause the run; see `ControlStore`."""
        with self._lock:
            run = self._known(run_id)
            if run.call != call:
                self._change(call, run, control.pause(run.state, run.request))
            return run_of(run)

    async def resume(self, call: str, run_id: str) -> Run:
        """Resume the run; see `ControlStore`."""
        with self._lock:
            run = self._known(run_id)
            if run.call != call:
                change = control.resume(run.state, run.request)
                if change.state is _PENDING:
                    # Those of its session that are due by now are before it.
                    self._make_due(self._clock.now())
                self._change(call, run, change)
            return run_of(run)

    # Lanes, sessions, events

    async def set_lanes(self, lanes: Sequence[Lane]) -> None:
        """Create or change lanes; see `LaneStore`."""
        with self._lock:
            self._put_lanes(lanes)
            for lane in lanes:
                self._flow.reopen(lane.name, set(self._lanes[lane.name].seats))
            self._wake_for_work()

    async def lanes(self) -> list[LaneState]:
        """Return the lanes; see `LaneStore`."""
        with self._lock:
            return [LaneState(b.lane, b.active, b.ready()) for _, b in sorted(self._lanes.items())]

    async def session(self, name: str) -> SessionState | None:
        """Return the session, if it is not idle; see `SessionStore`."""
        with self._lock:
            book = self._sessions.get(name)
            return SessionState(name, book.max_concurrent, book.admitted, book.held) if book else None

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return a page of the run's log; see `EventStore`."""
        with self._lock:
            record = self._known(run_id)
            page = list(islice(log_of(record), after, after + limit))
            rows = [(kind, attempt, at, codec.from_json(data)) for kind, attempt, at, data in page]
            return numbered(record.id, after + 1, rows, value_of(record))

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after every write; see `EventStore`."""
        with self._lock:
            self._watchers = [*self._watchers, changed]
        return lambda: self._unwatch(changed)

    # Workers

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Make the incarnation known; see `WorkerStore`."""
        with self._lock:
            if incarnation.id not in self._workers:
                now = self._clock.now()
                self._workers[incarnation.id] = Worker(incarnation, wake, now)
                self._heartbeat = self._heartbeat.after_renewal(now, incarnation.lease)

    async def step(self, step: Step) -> StepReply:
        """Settle, claim, rest; see `WorkerStore`."""
        with self._lock:
            worker = self._alive(step.incarnation)
            # Race: a copy of an older step may arrive after its successor; nobody waits for its answer.
            if step.call <= worker.call:
                return self._same_answer(worker)
            now = self._clock.now()
            # Before the results: a run that ends in this very step was overdue, or saved, before it ended.
            refused = self._leases.write(worker, step, now)
            settle = self._leases.settle
            refused += [(r.number, r.fence) for r in step.results if not settle(worker, r, now)]
            self._make_due(now)
            claimed, more = self._claim(worker, step.room, now)
            next_due = self._heaps.next_due()
            due_in = None if next_due is None else max(0, next_due - now)
            requests = self._leases.requests(worker)
            worker.call, worker.reply = step.call, StepReply(claimed, refused, due_in, more, now, requests)
            worker.idle = step.park and not more and len(claimed) < step.room
            worker.told = next_due
            self._wake_for_work()
            self._tell_watchers()
            return worker.reply

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; see `WorkerStore`."""
        with self._lock:
            now = self._clock.now()
            worker = self._renew(incarnation, now)
            leases = [(run.number, run.fence) for run in worker.leases.values()]
            return RenewReply(now, leases, self._leases.requests(worker))

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Take over from the dead; see `WorkerStore`."""
        with self._lock:
            now = self._clock.now()
            heir = self._renew(incarnation, now)
            for worker in list(self._workers.values()):
                if worker is not heir and self._dead(worker, gone, now):
                    worker.left, worker.idle = True, False
                    self._hand_over(worker, heir, limit)
            self._wake_for_work()
            lapsed = [
                handed(run, run.worker or "", lapsed=True, timed_out=run.timed_out)
                for run in heir.leases.values()
                if run.lapsed
            ]
            return ReclaimReply(lapsed, any(worker.left for worker in self._workers.values()))

    async def leave(self, incarnation: str) -> None:
        """Say good-bye; see `WorkerStore`."""
        with self._lock:
            worker = self._workers.get(incarnation)
            if worker is not None:
                worker.left, worker.idle = True, False
                if not worker.leases:
                    del self._workers[incarnation]
                self._wake_for_work()

    async def workers(self) -> list[WorkerInfo]:
        """Return the incarnations; see `WorkerStore`."""
        with self._lock:
            return [
                WorkerInfo(
                    incarnation=w.incarnation,
                    renewed_at=w.renewed_at,
                    running=len(w.leases),
                    idle=w.idle,
                    left=w.left,
                )
                for w in self._workers.values()
            ]

    def look(self) -> bool:
        """Say no: wake-ups do not get lost within a process."""
        return False

    # Upkeep

    async def prune(self, keep: Mapping[RunState, int], *, limit: int = 500) -> int:
        """Delete old runs; see `UpkeepStore`."""
        with self._lock:
            old = upkeep.outdated(self._records, keep, self._clock.now(), limit)
            gone = {self._by_id.pop(record.id).number for record in old}
            if gone:
                self._records = [record for record in self._records if record.number not in gone]
            return len(gone)

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Compare the counts with what they count; see `UpkeepStore`."""
        with self._lock:
            leased = (run for worker in self._workers.values() for run in worker.leases.values())
            paused = (run for run in self._records if run.state is RunState.PAUSED)
            findings = upkeep.check(self._flow, self._heaps, leased, paused, repair=repair)
            if repair:
                self._wake_for_work()
            return findings

    async def examine(self, *, deep: bool = True) -> Examination:
        """Tell how the store fares; see `UpkeepStore`."""
        findings = await self.check() if deep else None
        return Examination(
            engine="memory",
            layout=1,
            newest_layout=1,
            findings=findings,
            runs=await self.count(),
            workers=await self.workers(),
            set_back=0,
        )

    # Accepting and claiming

    def _put_lanes(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            if lane.name in self._lanes:
                self._lanes[lane.name].lane = lane
            else:
                self._lanes[lane.name] = LaneBook(lane, {}, Ledger(Turn), Ledger(Seat))

    def _accept(self, new: NewRun, now: int) -> Receipt:
        known = self._by_id.get(new.id)
        if known is not None:
            return _accepted(known, new)
        due_at = now + new.delay if new.due_at is None else max(now, new.due_at)
        lane = new.lane if new.lane in self._lanes else MAIN
        record = Record.of(next(self._numbers), new, lane, now, due_at)
        self._records.append(record)
        self._by_id[new.id] = record
        if due_at > now or (new.session is not None and self._heaps.is_due(now)):
            self._heaps.put_due(record)
            return _accepted(record, new)
        return _accepted(record, new, self._flow.join(record, new.max_concurrent))

    def _make_due(self, now: int) -> None:
        for _ in range(MOST_MOVES):
            record = self._heaps.take_due(now)
            if record is None:
                return
            if record.fence:
                self._flow.rejoin(record)
            else:
                self._flow.join(record, record.max_concurrent)

    def _claim(self, worker: Worker, room: int, now: int) -> tuple[list[Claimed], bool]:
        if room <= 0:
            return [], False
        tasks = worker.incarnation.tasks
        started, more = self._flow.claim(self._heaps.lanes_with_work(tasks), room, tasks, worker.call)
        me, leases = worker.incarnation.id, worker.leases
        for run in started:
            run.state, run.worker, run.started_at = _RUNNING, me, now
            run.fence += 1
            run.log = Batch(run.attempt, now, worker.started, run.log)
            leases[run.number] = run
        return [handed(run, me) for run in started], more

    # Control

    def _known(self, run_id: str) -> Record:
        run = self._by_id.get(run_id)
        if run is None:
            raise UnknownRun(run_id)
        return run

    def _cancel(self, call: str, run: Record, *, abandon: bool = False) -> bool:
        holder = next((worker for worker in self._workers.values() if run.number in worker.leases), None)
        lapsed = run.lapsed or (holder is not None and self._dead(holder, (), self._clock.now()))
        change = control.cancel(run.state, run.request, lapsed=lapsed, abandon=abandon)
        if holder is not None and change is not None and change.state is not RunState.RUNNING:
            del holder.leases[run.number]
            if holder.left and not holder.leases:
                del self._workers[holder.incarnation.id]
        return self._change(call, run, change)

    def _change(self, call: str, run: Record, change: Change | None) -> bool:
        """Change the run, if there is anything to change, and wake whoever has something to do now."""
        if change is None:
            return False
        self._steering.apply(run, change, self._clock.now())
        run.call = call
        if run.request is None:
            self._leases.requested.discard(run.number)
        else:
            self._leases.requested.add(run.number)
        # Of a lapsed lease, whoever executed it is not there any more.
        if run.worker in self._workers:
            self._workers[run.worker].wake()
        self._wake_for_work()
        self._tell_watchers()
        return True

    def _same_answer(self, worker: Worker) -> StepReply:
        # What was cancelled out of its hands meanwhile it need not begin.
        claimed = [run for run in worker.reply.claimed if leased(worker, run.number, run.fence)]
        return msgspec.structs.replace(worker.reply, claimed=claimed, requests=self._leases.requests(worker))

    # Liveness

    def _alive(self, incarnation: str) -> Worker:
        worker = self._workers.get(incarnation)
        if worker is None or worker.left:
            raise LeaseLost(f"incarnation {incarnation} is not alive in this store")
        return worker

    def _renew(self, incarnation: str, now: int) -> Worker:
        worker = self._alive(incarnation)
        worker.renewed_at = now
        self._heartbeat = self._heartbeat.after_renewal(now, worker.incarnation.lease)
        return worker

    def _dead(self, worker: Worker, gone: Sequence[str], now: int) -> bool:
        lapsed = self._heartbeat.lapsed(worker.renewed_at, worker.incarnation.lease, now)
        return worker.left or lapsed or worker.incarnation.id in gone

    def _hand_over(self, dead: Worker, heir: Worker, limit: int) -> None:
        room = limit - sum(run.lapsed for run in heir.leases.values())
        for number in list(dead.leases)[: max(0, room)]:
            run = dead.leases.pop(number)
            run.lapsed = True
            heir.leases[number] = run
        if not dead.leases:
            del self._workers[dead.incarnation.id]

    # Wake-ups

    def _wake_for_work(self) -> None:
        idle = [worker for worker in self._workers.values() if worker.idle]
        if not idle:
            return
        open_ = {name: book for name, book in self._lanes.items() if book.room() > 0}
        startable = sum(min(book.ready(), book.room()) for book in open_.values())
        aside = self._heaps.aside_in(open_)
        for index, worker in enumerate(idle):
            if index < startable or not aside.isdisjoint(worker.incarnation.tasks):
                self._wake(worker)
        self._wake_for_due(idle)

    def _wake_for_due(self, idle: list[Worker]) -> None:
        # Invariant: while anybody rests, somebody who rests, or was woken and will ask, knows the next due time.
        next_due = self._heaps.next_due()
        if next_due is not None and all(w.idle and (w.told is None or w.told > next_due) for w in idle):
            self._wake(idle[0])

    def _wake(self, worker: Worker) -> None:
        worker.idle = False
        worker.wake()

    def _tell_watchers(self) -> None:
        for changed in self._watchers:
            changed()

    def _unwatch(self, changed: Callable[[], None]) -> None:
        # Race: without the lock, because a watcher may stop itself while it is told; so the list is never changed.
        self._watchers = [watcher for watcher in self._watchers if watcher is not changed]


def _accepted(record: Record, new: NewRun, position: int | None = None) -> Receipt:
    reason = None if record.lane == new.lane else "lane_unknown"
    return Receipt(ReceiptOutcome.ACCEPTED, record.id, reason, position)


# A forked child has a copy of the records, and none of the threads that may have been in the middle of changing them.
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
