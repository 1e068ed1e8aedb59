"""The attempts that a worker is executing: it starts handlers and collects their outcomes and events."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Set
from operator import attrgetter
from typing import Any

from laneway.core.common.instants import SECOND
from laneway.core.jobs.record import terms
from laneway.core.lifecycle.outcome import Outcome, Released, Settlement, Snoozed, on_last_chance, settle
from laneway.core.lifecycle.step import Requested, Result
from laneway.core.records import events
from laneway.core.records.events import draft
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Claimed, Request
from laneway.core.records.states import Move
from laneway.engine.attempts.deadlines import Deadlines
from laneway.engine.attempts.event_buffer import EventBuffer
from laneway.engine.attempts.executor import Executor
from laneway.engine.attempts.prepare import Fetch, Remember
from laneway.engine.attempts.running_attempt import RunningAttempt, Stop
from laneway.engine.attempts.save_queue import SaveQueue
from laneway.engine.attempts.stuck import StuckHandlers
from laneway.engine.common.wakeup import Wakeup
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.task import Registry
from laneway.engine.services.takeover_policy import judged
from laneway.engine.worker.settlement_events import SettlementEvents
from laneway.errors import LeaseLost
from laneway.ports.clock import Clock
from laneway.settings import Settings

log = logging.getLogger("laneway.worker")

_move_of = attrgetter("settlement.move")
KILLED_WITHIN = 5.0  # seconds after which a killed child process is dead, on a busy machine too
ELSEWHERE = SECOND  # after which a run on its last chance is due again if this worker has another one


class AttemptTable:
    """The running attempts. It wakes the worker when there is something to send to the store."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        settings: Settings,
        wakeup: Wakeup,
        fetch: Fetch,
        remember: Remember,
        settlement_events: SettlementEvents,
        load: Callable[[str], bool | None] | None = None,
    ) -> None:
        self._registry, self._clock, self._wakeup, self._grace = registry, clock, wakeup, settings.grace
        self._fetch, self._load = fetch, load
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, RunningAttempt] = {}
        self.saves = SaveQueue(self._running, self._loop, wakeup)
        self._settlement_events, self._subscribers = settlement_events, settlement_events.subscribers
        self.event_buffer = EventBuffer(self._running, clock, self._loop, wakeup, settlement_events.subscribers)
        self.executor = Executor(clock, settings, registry, self.saves, self.event_buffer, self._ended, fetch, remember)
        self._fetching: set[asyncio.Task[None]] = set()
        self._deadlines = Deadlines(clock)
        self._results: list[Result] = []
        self._overdue: list[tuple[int, int]] = []
        self._pausing: list[RunningAttempt] = []
        self._taken_over: set[tuple[int, int]] = set()  # lapsed leases whose settlement is not stored yet
        self._logs_runs = log.isEnabledFor(logging.DEBUG)  # read once: two calls per run cost a tenth of its time
        self.stuck = StuckHandlers(clock)
        self.moves: Counter[Move] = Counter()  # how attempts were settled

    def __len__(self) -> int:
        """Return how many handlers are being executed."""
        return len(self._running)

    @property
    def results(self) -> bool:
        """Whether there are results that were not sent to the store."""
        return bool(self._results)

    @property
    def all_stuck(self) -> bool:
        """Whether handlers are being executed, and all of them were told to stop and have not."""
        return 0 < len(self._running) == len(self.stuck)

    @property
    def taking_over(self) -> bool:
        """Whether lapsed leases wait to be settled."""
        return bool(self._taken_over)

    def ids(self) -> list[str]:
        """Return the ids of the runs being executed; any thread may call it."""
        return [attempt.run.id for attempt in list(self._running.values())]

    def tasks(self) -> list[str]:
        """Return the task of each run being executed; any thread may call it."""
        return [attempt.run.task for attempt in list(self._running.values())]

    def run_of(self, handle: asyncio.Task[Any]) -> str | None:
        """Return the id of the run whose handler this task executes, or None; any thread may call it."""
        return next((e.run.id for e in list(self._running.values()) if e.handle is handle), None)

    def held(self) -> Set[tuple[int, int]]:
        """Return the leases of the runs being executed, as (number, fence); any thread may call it."""
        # Race: another thread may change the dict; the copy is a snapshot.
        return {(attempt.run.number, attempt.run.fence) for attempt in list(self._running.values())}

    # Starting

    def start(self, claimed: Iterable[Claimed]) -> None:
        """Execute claimed runs."""
        for run in claimed:
            task = self._registry.get(run.task)
            if run.crashes and self._is_on_last_chance(run) and any(map(self._is_on_last_chance, self._claims())):
                # A poison run must not take another run on its last chance with it. The wait grows, up to a minute,
                # because the other run may take hours.
                self._settle(run, settle(run, Snoozed(ELSEWHERE << min(run.fence, 6)), task.policy))
                continue
            policy = task.policy if run.ties is None else terms(task.policy, run.ties)
            attempt = self._running[run.number] = RunningAttempt(run, task, policy)
            if self._logs_runs:
                log.debug("run %s of %s: start, attempt %d", run.id, run.task, run.attempt)
            has_more = run.messages or run.memos or task.is_hooked or run.prepared is not None
            execute = self.executor.prepare_and_execute if has_more else self.executor.execute
            attempt.handle = self._loop.create_task(execute(attempt), name=run.id)
            if policy.timeout is not None:
                self._deadlines.add(attempt, policy.timeout / SECOND, self._time_out)

    def give_back(self, claimed: Iterable[Claimed]) -> None:
        """Release claimed runs that were not started, because they came when the worker was already stopping."""
        for run in claimed:
            self._settle(run, settle(run, Released(), self._terms(run)))

    def take_over(self, lapsed: list[Claimed]) -> None:
        """Settle leases of dead workers. If one of a worker's runs was on its last chance, only that one is charged."""
        fresh = [run for run in lapsed if (run.number, run.fence) not in self._taken_over]
        for run, settlement in judged(fresh, self._registry.policy):
            self._taken_over.add((run.number, run.fence))
            log.warning("worker %s is gone; its run %s is taken over", run.worker, run.id)
            self._settle(run, settlement)

    def _terms(self, run: Claimed) -> TaskPolicy:
        return terms(self._registry.policy(run.task), run.ties)

    def _claims(self) -> Iterable[Claimed]:
        return (attempt.run for attempt in self._running.values() if attempt.run.crashes)

    def _is_on_last_chance(self, run: Claimed) -> bool:
        return on_last_chance(run.crashes, self._registry.policy(run.task))

    # Stopping

    def lose(self, number: int, fence: int) -> None:
        """Stop a handler whose lease this worker does not hold any more. Nothing of it is written."""
        attempt = self._running.get(number)
        if attempt is not None and attempt.run.fence == fence:
            why = "is not this worker's any more, taken over or abandoned"
            log.warning("run %s %s; its handler is stopped", attempt.run.id, why)
            del self._running[number]
            attempt.lost = True
            attempt.stop(Stop.LOST)

    def lose_all(self) -> None:
        """Stop every handler and drop every result, because the incarnation is lost."""
        for number, fence in self.held():
            self.lose(number, fence)
        self.saves.refuse(self.saves.take())
        self._results.clear()
        self.event_buffer.clear()
        self._taken_over.clear()
        self._settlement_events.clear()
        self._overdue.clear()

    def apply_requests(self, requests: Iterable[Requested]) -> None:
        """Apply all standing requests for the runs. A pause that is not among them any more was taken back."""
        pausing, self._pausing = self._pausing, []
        for attempt in pausing:
            attempt.request = None
        for requested in requests:
            asked = self._running.get(requested.number)
            if asked is None or asked.run.fence != requested.fence:
                continue
            if requested.request is Request.STEER:
                self._deliver_messages(asked, requested.messages)
            elif requested.request is Request.PAUSE:
                asked.request = Request.PAUSE
                self._pausing.append(asked)
            elif asked.request is not Request.CANCEL:
                asked.request = Request.CANCEL
                self._tell_to_stop(asked, Stop.CANCELLED, events.CANCEL_DELIVERED)

    def _deliver_messages(self, attempt: RunningAttempt, received: int) -> None:
        if attempt.inbox is None or attempt.inbox.received >= received:
            return
        task = self._loop.create_task(self._fetch_messages(attempt, attempt.inbox))
        self._fetching.add(task)  # the loop keeps only weak references to tasks
        task.add_done_callback(self._fetching.discard)

    async def _fetch_messages(self, attempt: RunningAttempt, inbox: Inbox) -> None:
        received = inbox.received
        try:
            messages = await self._fetch(attempt.run.id, attempt.merged + received)
        except LeaseLost:
            return  # the run is lost too
        if inbox.received == received:  # else another call was faster
            inbox.put([message.args for message in messages])
        if attempt.child is not None:
            attempt.child.deliver()

    async def finish(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the handlers, except stuck ones."""
        handles = [e.handle for e in self._running.values() if e.handle is not None and not e.stuck]
        if handles:
            await asyncio.wait(handles, timeout=timeout)

    def release(self, grace: float) -> None:
        """Stop all handlers. Their runs are given back uncharged. Child processes are killed after `grace` seconds."""
        for attempt in list(self._running.values()):
            attempt.stop(Stop.RELEASED, grace)

    async def kill_children(self) -> None:
        """Kill the remaining child processes and wait until they are dead. Unlike a thread, a process can be killed."""
        children = [attempt for attempt in self._running.values() if attempt.child is not None]
        for attempt in children:
            attempt.kill()
        handles = [attempt.handle for attempt in children if attempt.handle is not None]
        if handles:
            await asyncio.wait(handles, timeout=KILLED_WITHIN)

    async def close(self) -> None:
        """Start and save nothing any more."""
        self.saves.close()
        self._deadlines.close()
        self.event_buffer.close()
        await self.executor.close()

    def _time_out(self, attempt: RunningAttempt) -> None:
        self._overdue.append((attempt.run.number, attempt.run.fence))
        self._tell_to_stop(attempt, Stop.TIMED_OUT, events.OVERDUE)

    def _tell_to_stop(self, attempt: RunningAttempt, why: Stop, kind: str) -> None:
        """Stop a handler, write that into its log, and check later that it has stopped."""
        self.event_buffer.add_now(attempt, draft(kind, {}))
        attempt.stop(why, self._grace)
        self._deadlines.add(attempt, self._grace, self._check_stopped)

    def _check_stopped(self, attempt: RunningAttempt) -> None:
        if attempt.child is None:
            self._report_stuck(attempt)
        else:
            # It is being killed right now. It is stuck only if it survives that.
            self._deadlines.add(attempt, KILLED_WITHIN, self._report_stuck)

    def _report_stuck(self, attempt: RunningAttempt) -> None:
        if attempt.stuck:
            return  # it was told to stop twice, by a time-out and a cancel, and is stuck once
        stuck = self.stuck.add(attempt, self._grace)
        self.event_buffer.add_now(attempt, draft(events.STUCK, {"seconds": stuck.seconds, "stack": stuck.stack}))

    # Sending to the store

    def take_results(self) -> list[Result]:
        """Return the results so far and remove them."""
        results, self._results = self._results, []
        self.moves.update(map(_move_of, results))
        return results

    def settled(self, results: list[Result]) -> None:
        """Record that the store has these results."""
        if self._taken_over:
            self._taken_over.difference_update((result.number, result.fence) for result in results)

    def take_overdue(self) -> list[tuple[int, int]]:
        """Return the leases whose attempts have timed out, and remove them."""
        overdue, self._overdue = self._overdue, []
        return overdue

    def _ended(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        run = attempt.run
        # The handler's context refers to the attempt, and its handle to the context. This breaks the reference cycle.
        attempt.handle = None
        if attempt.policy.timeout is not None:
            self._deadlines.ended()
        if attempt.stuck:
            self.stuck.ended(attempt)
        if (here := self._running.pop(run.number, None)) is attempt:
            settlement = settle(run, outcome, attempt.policy, attempt.take_drafts() if attempt.drafts else ())
            self._settle(run, settlement, 0 if attempt.inbox is None else attempt.inbox.taken)
        elif here is not None:
            self._running[run.number] = here  # a later attempt's

    def _settle(self, run: Claimed, settlement: Settlement, read: int = 0) -> None:
        if self._logs_runs:
            log.debug("run %s of %s: %s", run.id, run.task, settlement.move.value)
        if self._subscribers.listening:
            self._settlement_events.add(run)
        if not self._results:
            # Invariant: the wake-up stays set until the results are taken, so the first result is enough to set it.
            self._wakeup.set()
        throttled = None if self._load is None or run.session is None else self._load(run.session)
        self._results.append(Result(run.number, run.fence, settlement, read, throttled))
