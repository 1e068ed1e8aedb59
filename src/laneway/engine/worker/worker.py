"""The worker: claims runs, executes them, and settles their outcomes.

**The loop.** One call to the store, `step`, does everything: it writes the results since the last step, claims as many
runs as there is room for, and, if room is left, marks the worker as idle, so that the next submission wakes it. Then
the loop waits for its wake-up event, which is set when a handler ends, work arrives, a time is due, or the worker is
stopped. Results that arrive while a step is under way go into the next one: under load batches grow by themselves, and
an idle worker delays nothing.

**One step at a time** (`step_loop`). A step without an answer is sent again, unchanged, under the same call number,
until it is answered: the store then either makes it or returns its first answer. Meanwhile results wait and handlers go
on.

**Losing the lease.** Another worker may have taken over, because this one was frozen or cut off. Then the store refuses
the result, or the renewal does not list the lease any more: the handler is stopped as by a cancel, and nothing of it is
written. If the whole incarnation is lost, the worker stops every handler and goes on as a new incarnation.

**Going on after a freeze.** Runs that the worker claimed, or that the store claimed for it (`idle_handle`), may belong
to another worker by the time it starts them. If it has not renewed for a lease, by its own clock, it renews first and
asks which it still holds. *Race*: a worker that is frozen between that check and the handler starts it all the same.

**Moving.** A store that was moved, or is being moved, says so with every answer and gives no more runs. The worker lets
its handlers end, leaves, and ends with StoreMoved: it cannot reach the other store.

**Stopping.** The worker claims nothing more, waits, stops the handlers, waits again, and gives their runs back. A
thread cannot be stopped: `run` returns without it. The worker lives on in the background and renews its leases, until
the last thread has ended and is settled, or the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Set
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TypeVar

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.step import Result, Step, StepReply
from laneway.core.records.liveness import Incarnation
from laneway.core.records.memos import Recall
from laneway.core.records.run import Claimed, Message
from laneway.core.records.status import Status, StuckRun
from laneway.engine.attempts.subscribers import Subscribers
from laneway.engine.common.ids import new_run_id
from laneway.engine.common.processes import mark
from laneway.engine.common.threads import from_thread
from laneway.engine.common.wakeup import Wakeup, WakeupTimer
from laneway.engine.config.watcher import FileWatch
from laneway.engine.handlers.resources import Resources
from laneway.engine.handlers.task import Registry
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.ticker import Ticker
from laneway.engine.services.lease_clock import LeaseClock
from laneway.engine.services.memory_gate import MemoryGate
from laneway.engine.services.pruner import Pruner
from laneway.engine.services.reclaimer import Reclaimer
from laneway.engine.services.renewer import Renewer
from laneway.engine.services.supervisor import Supervisor
from laneway.engine.services.watchdog import Watchdog
from laneway.engine.worker.attempt_table import AttemptTable
from laneway.engine.worker.idle_handle import IdleHandle
from laneway.engine.worker.settlement_events import SettlementEvents
from laneway.engine.worker.step_loop import StepLoop
from laneway.errors import LeaseLost, StoreMoved, StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.store import Store
from laneway.settings import Settings

log = logging.getLogger("laneway.worker")
T = TypeVar("T")

REPEAT_AFTER = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between the tries of a call that got no answer
FLUSH_WITHIN = 5.0  # seconds that a stop waits until the last results are stored
LAST_TRIES = 4  # tries of a worker that stops and has only results left to send

inside: ContextVar[Worker] = ContextVar("laneway_inside")
"""The worker that executes this code: set where a worker lives, and inherited by everything that it starts. So a
handler, its tasks and the threads of both know that they would wait for themselves if they waited for this worker."""

# The loop keeps only weak references to tasks. These belong to workers that wait for their last threads.
_lingering: set[asyncio.Task[None]] = set()


class Worker:
    """Executes the tasks of a registry from a store. One object, one event loop, one incarnation at a time."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        settings: Settings,
        resources: Resources | None = None,
        stuck: Callable[[StuckRun], None] | None = None,
        load: Callable[[str], bool | None] | None = None,
        subscribers: Subscribers | None = None,
        environment: JobEnvironment | None = None,
        file: FileWatch | None = None,
    ) -> None:
        self._store, self._registry, self._clock, self._settings = store, registry, clock, settings
        self._resources = resources or Resources()
        self._environment = JobEnvironment() if environment is None else environment
        self._file = file
        self._outside = copy_context()
        self._loop = asyncio.get_running_loop()
        self._wakeup = Wakeup()
        self._idle_handle, self._lease_clock = IdleHandle(self._wakeup), LeaseClock(clock, settings.lease)
        self._subscribers = Subscribers() if subscribers is None else subscribers
        self._settlement_events = SettlementEvents(store.get, self._subscribers)
        self._attempts = AttemptTable(
            registry, clock, settings, self._wakeup, self._messages, self._recall, self._settlement_events, load
        )
        self._attempts.stuck.on_stuck = stuck
        self._ticker = Ticker(store, clock, self._environment)
        self._supervisor = Supervisor(clock)
        self._watchdog = Watchdog(settings.stall_after, self._attempts.run_of)
        self._memory = MemoryGate(clock, settings.min_memory, settings.max_pressure, self._wakeup.set)
        self._timer = WakeupTimer(self._wakeup, clock)
        self._incarnation = ""
        self._stopping = False  # it claims nothing more
        self._moved: str | None = None  # the new address of the store's content
        self._gave_up = asyncio.Event()  # the remaining handlers could not be stopped
        self._flushed = asyncio.Event()  # the store has all results
        self._lost = False
        self._opening = False  # it is opening resources, which may take for ever
        self._cancel: Callable[[], object] = lambda: None

    @property
    def executing(self) -> list[str]:
        """The ids of the runs whose handlers are being executed; any thread may read it."""
        return self._attempts.ids()

    @property
    def moves(self) -> Mapping[str, int]:
        """How attempts were settled: of those it executed, and of those it took over."""
        return {move.value: times for move, times in self._attempts.moves.items()}

    def status(self) -> Status:
        """Return the status; any thread may call it."""
        return Status.of(
            services=self._supervisor.health(),
            executing=self._attempts.tasks(),
            stuck=self._attempts.stuck.runs(),
            loop_lag=self._watchdog.lag,
            last_error=self._supervisor.last_error,
            file_error=None if self._file is None else self._file.problem,
            bad_jobs=self._ticker.bad,
        )

    async def run(self, *, until_drained: bool = False, ready: Callable[[], None] | None = None) -> None:
        """Work until stopped; with `until_drained`, until nothing is due and nothing is running.

        `ready` is called once the worker is registered in the store.
        """
        lives = self._loop.create_task(self._run_lives(ready, until_drained=until_drained), name="laneway-worker")
        self._cancel = lives.cancel
        gave_up = self._loop.create_task(self._gave_up.wait())
        try:
            await asyncio.wait((lives, gave_up), return_when=asyncio.FIRST_COMPLETED)
            if lives.cancelled() and self._stopping:
                return None  # it was still starting
            if lives.done():
                return lives.result()
            _lingering.add(lives)
            lives.add_done_callback(_lingering.discard)
        except asyncio.CancelledError:
            lives.cancel()
            raise
        finally:
            gave_up.cancel()

    def is_inside(self) -> bool:
        """Tell whether the caller is a handler of this worker, or was started by one."""
        return inside.get(None) is self

    async def stop(self, timeout: float, grace: float = 0) -> None:
        """Claim nothing more, wait up to `timeout` seconds, then stop the handlers and give them `grace` seconds."""
        self._stopping = True
        self._wakeup.set()
        if self._opening:
            self._cancel()
        await self._attempts.finish(timeout)
        self._attempts.release(grace)
        await self._attempts.finish(grace)
        await self._attempts.kill_children()
        if self._attempts:
            await self._flush()
            self._gave_up.set()

    async def _flush(self) -> None:
        """Wait for a step that leaves no results: the caller of `stop` may end the process right after it."""
        self._flushed.clear()
        self._wakeup.set()
        flushed = self._loop.create_task(self._flushed.wait())
        await asyncio.wait((flushed,), timeout=FLUSH_WITHIN)
        flushed.cancel()

    # Incarnations

    async def _run_lives(self, ready: Callable[[], None] | None, *, until_drained: bool) -> None:
        if self._stopping:
            return
        self._supervisor.add("watchdog", self._watchdog.run)
        # A drain must finish now, however little memory there is.
        if not self._memory.is_off and not until_drained:
            self._memory.look()
            self._supervisor.add("memory", self._memory.run)
        self._opening = True
        life = self._subscribers.begin()
        try:
            inside.set(self)
            async with self._resources.opened(self._settings.grace) as resources:
                self._opening = False
                self._attempts.executor.resources = resources
                self._incarnation = await self._register()
                if self._file is not None:
                    await self._file.begin()
                if not until_drained:
                    self._supervisor.add("ticker", self._ticker.run)
                if self._file is not None and not until_drained:
                    self._supervisor.add("file", self._file.run)
                if ready is not None:
                    self._outside.copy().run(ready)  # outside of the handlers' context: it may wait for a stop
                while not await self._run_incarnation(until_drained=until_drained):
                    log.warning("this worker's leases were lost; it goes on as a new incarnation")
                    self._lost, self._incarnation = False, ""
                    self._incarnation = await self._until_answered(self._register)
                if self._moved is not None:
                    raise StoreMoved(self._moved)
        finally:
            self._opening = False
            self._timer.cancel()
            await self._attempts.close()
            await self._supervisor.stop()
            await self._subscribers.end(life)

    async def _run_incarnation(self, *, until_drained: bool) -> bool:
        """Work as one incarnation. Return True when done, False when the incarnation was lost."""
        me, clock = self._incarnation, self._clock
        may_offer = not until_drained  # a drain leaves as soon as nothing is due
        step_loop = StepLoop(
            me,
            self._idle_handle,
            self._attempts,
            self._wakeup,
            clock,
            self._send,
            self._handle_reply,
            may_offer=may_offer,
        )
        lost = partial(self._on_loss, me)
        renewer = Renewer(
            self._store,
            me,
            self._settings.renew_every,
            self._lease_clock,
            self._attempts.held,
            lost,
            self._wakeup.set_from_thread,
        )
        reclaimer = Reclaimer(self._store, clock, me, self._lease_clock, self._attempts.take_over, self._wakeup.set)
        self._supervisor.add("renewer", renewer.run)
        self._supervisor.add("reclaimer", reclaimer.run)
        deltas = self._settings.deltas_kept_for
        pruner = Pruner(self._store, clock, self._settings.kept_for, me, deltas)
        self._supervisor.add("pruner", pruner.run)
        try:
            await reclaimer.look(read=True)
            await (self._drain(step_loop, reclaimer) if until_drained else self._work(step_loop, reclaimer))
            await self._leave()
            return True
        except LeaseLost:
            self._attempts.lose_all()
            return False
        finally:
            self._idle_handle.end()
            await self._supervisor.stop("renewer", "reclaimer", "pruner")

    async def _register(self) -> str:
        incarnation = Incarnation(
            id=new_run_id(),
            host=socket.gethostname(),
            process=mark(),
            tasks=self._registry.names,
            jobs=frozenset(self._environment.declared),
            lease=round(self._settings.lease * SECOND),
            concurrency=self._settings.concurrency,
        )
        self._idle_handle, self._lease_clock = IdleHandle(self._wakeup), LeaseClock(self._clock, self._settings.lease)
        await self._store.register(incarnation, self._idle_handle)
        log.info("worker %s started in process %d", incarnation.id, os.getpid())
        return incarnation.id

    async def _leave(self) -> None:
        try:
            await self._store.leave(self._incarnation)
        except StoreUnavailable as error:
            log.warning("could not leave the store: %s; other workers will see that this one is gone", error)

    # The loop

    async def _drain(self, step_loop: StepLoop, reclaimer: Reclaimer) -> None:
        await self._until_answered(self._ticker.fire)
        await self._work(step_loop, reclaimer, until_drained=True)
        # Once more, and not endlessly: a job may be due again each time that its run has ended.
        if not self._stopping and await self._until_answered(self._ticker.fire) > 0:
            await self._work(step_loop, reclaimer, until_drained=True)

    async def _work(self, step_loop: StepLoop, reclaimer: Reclaimer, *, until_drained: bool = False) -> None:
        attempts = self._attempts
        while True:
            reply = await step_loop.make(self._room, short=self._memory.short)
            if not attempts.results:
                self._flushed.set()
            if reply.claimed:
                overdue = self._lease_clock.may_have_lapsed
                claimed = await self._still_held(step_loop, reclaimer) if overdue else reply.claimed
                # A step that was under way when the stop came may still bring runs.
                attempts.give_back(claimed) if self._stopping else attempts.start(claimed)
                # Let the new handlers begin; short ones end within this turn of the loop.
                await asyncio.sleep(0)
            if reclaimer.behind and not attempts.taking_over:
                await reclaimer.look(read=True)
            if reply.more or attempts.results or (self._stopping and self._idle_handle.is_offered):
                continue  # it must not leave while the store may make its offered step
            if not attempts and (self._stopping or (until_drained and not reclaimer.behind)):
                return
            if until_drained and attempts.all_stuck and not reclaimer.behind:
                self._gave_up.set()  # all remaining handlers are stuck, and may never end
            if reply.due_in is not None and not self._stopping:
                # Counted from before the call, so that the answer's travel time does not make the run late.
                self._timer.set(step_loop.made_at + reply.due_in / SECOND)
            if not self._idle_handle.has_reply:
                await self._wakeup.wait()

    @property
    def _room(self) -> int:
        """How many more runs it can take."""
        return 0 if self._stopping or self._memory.short else self._settings.concurrency - len(self._attempts)

    async def _still_held(self, step_loop: StepLoop, reclaimer: Reclaimer) -> list[Claimed]:
        """Return which claims of the last step this worker still holds; they are renewed. Raises LeaseLost."""
        log.info("not renewed for longer than a lease; asking what this worker still holds before it begins any of it")
        # In this order: after the renewal nobody takes over from it, so the store's answer stays true.
        at = self._clock.monotonic()
        await self._until_answered(reclaimer.renew)
        claimed = await step_loop.still_held()
        self._lease_clock.checked(at)
        return claimed

    async def _send(self, step: Step) -> StepReply:
        return await self._until_answered(partial(self._store.step, step))

    def _handle_reply(self, reply: StepReply, results: list[Result], made_at: float) -> None:
        if reply.fires_in is not None:
            self._ticker.due_in(reply.fires_in, made_at)
        if self._settlement_events.wants_replies:
            self._settlement_events.publish(results, reply)
        for number, fence in reply.refused:
            log.warning("run number %d: the store refused what came under fence %d", number, fence)
            self._attempts.lose(number, fence)
        self._attempts.apply_requests(reply.requests)
        if reply.moved is not None:
            self._on_move(reply.moved)

    async def _messages(self, run_id: str, known: int) -> list[Message]:
        messages: list[Message] = []
        while True:
            page = await self._until_answered(partial(self._store.messages, run_id, after=known + len(messages)))
            messages += page
            if not page:
                return messages

    async def _recall(self, run_id: str) -> Recall:
        return await self._until_answered(partial(self._store.recall, run_id))

    async def _until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call again and again until it is answered, or there is no point any more."""
        tries = 0
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                if self._stopping and not self._attempts and tries >= LAST_TRIES:
                    raise  # the caller of `stop` waits; the remaining leases are reclaimed when the process is gone
                wait = REPEAT_AFTER[min(tries, len(REPEAT_AFTER) - 1)]
                log.warning("the store does not answer (%s); asking again in %g s", error, wait)
                tries += 1
                await self._clock.sleep(wait)
            if self._lost:
                raise LeaseLost(f"incarnation {self._incarnation} is lost")

    def _on_move(self, place: str) -> None:
        """Claim nothing more, let the handlers end, and then end with StoreMoved."""
        if self._moved is None:
            log.warning("the store has moved to %s; this worker ends when what it executes has ended", place)
        self._moved, self._stopping = place, True

    def _on_loss(self, incarnation: str, leases: Set[tuple[int, int]] | None) -> None:
        # Called on the renewer's thread: for a set of leases, or for None when the whole incarnation is lost.
        def tell() -> None:
            if incarnation != self._incarnation:
                return  # news of a former life
            self._lost = self._lost or leases is None
            for number, fence in leases or ():
                self._attempts.lose(number, fence)
            self._wakeup.set()

        from_thread(self._loop, tell)
