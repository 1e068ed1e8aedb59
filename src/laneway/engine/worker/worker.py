"""The worker: claims runs, executes them, settles what they ended in.

**The loop.** One call to the store, `step`, does everything: it writes the results that came in since the last one,
claims as many runs as there is room for, and, if room is left, registers the worker as resting so that the next
submission wakes it. Then it waits on its bell, which a handler that ends, a wake-up, a due time or a stop rings.
Results that come in while a step is under way go into the next one, so under load the batches grow by themselves and at
rest nothing is delayed.

**One step at a time** (`step_loop`). A step that got no answer is sent again, the same, with the same call number,
until it is answered: the store then either does it or returns what it had answered. Meanwhile results wait and handlers
go on.

**Losing the lease.** Another worker may have taken over (this one was frozen or cut off). Then the store refuses the
result, or the renewal lists the lease no more: the handler is stopped as by cancel and nothing of it is written. If the
whole incarnation is lost the worker stops every handler and goes on under a new one.

**Going on after a freeze.** What a worker was given, or had its store claim for it (`idle_handle`), may be another's by
the time it can begin it. If it has not renewed for a lease, by its own clock, it renews and asks first.
*Race*: one that is frozen between that look at the clock and the handler begins it all the same when it goes on.

**Moving.** A store that was moved, or is being moved, says so with every answer and gives nothing more. The worker lets
what it executes end, says good-bye and ends with StoreMoved: it cannot know the way to the other store.

**Stopping.** It claims nothing more, waits, stops the handlers, waits again, and gives back what has stopped. A thread
cannot be stopped: `run` returns without it, and the worker lives on behind the scenes, renewing its leases, until the
last thread has ended and is settled, or the process is gone.
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

REPEAT_AFTER = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between two tries of a call that got no answer
TELL_WITHIN = 5.0  # seconds a stop waits for the store to be told what has stopped
LAST_TRIES = 4  # of a worker that is stopping and has nothing left to do but to tell

inside: ContextVar[Worker] = ContextVar("laneway_inside")
"""Set once where a worker lives, so in all that it starts: a handler, what that starts, and the threads of both know
that they would wait for themselves if they waited for this worker."""

# The loop keeps only weak references to tasks; these belong to workers that wait for their last threads.
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
        self._attempts.stuck.heard = stuck
        self._ticker = Ticker(store, clock, self._environment)
        self._supervisor = Supervisor(clock)
        self._watchdog = Watchdog(settings.stall_after, self._attempts.run_of)
        self._memory = MemoryGate(clock, settings.min_memory, settings.max_pressure, self._wakeup.set)
        self._alarm = WakeupTimer(self._wakeup, clock)
        self._incarnation = ""
        self._stopping = False  # claim nothing more
        self._moved: str | None = None  # where the store's content is now
        self._gave_up = asyncio.Event()  # what still runs could not be stopped
        self._told = asyncio.Event()  # the store has been told every result there was
        self._lost = False
        self._opening = False  # resources, which may take for ever
        self._cancel: Callable[[], object] = lambda: None

    @property
    def executing(self) -> list[str]:
        """The ids of the runs whose handlers are being executed; may be asked from any thread."""
        return self._attempts.ids()

    @property
    def moves(self) -> Mapping[str, int]:
        """How the attempts it executed or took over were settled."""
        return {move.value: times for move, times in self._attempts.moves.items()}

    def status(self) -> Status:
        """Return how it is doing; may be asked from any thread."""
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

        `ready` is called once the worker is known to the store.
        """
        lives = self._loop.create_task(self._lives(ready, until_drained=until_drained), name="laneway-worker")
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
        """Tell whether the caller is a handler that this worker executes, or was started by one."""
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
        await self._attempts.bury()
        if self._attempts:
            await self._tell_what_stopped()
            self._gave_up.set()

    async def _tell_what_stopped(self) -> None:
        """Wait for a step that leaves no result behind: whoever called `stop` may end the process right after it."""
        self._told.clear()
        self._wakeup.set()
        told = self._loop.create_task(self._told.wait())
        await asyncio.wait((told,), timeout=TELL_WITHIN)
        told.cancel()

    # Lives

    async def _lives(self, ready: Callable[[], None] | None, *, until_drained: bool) -> None:
        if self._stopping:
            return
        self._supervisor.add("watchdog", self._watchdog.run)
        # Who drains wants it done now, whatever it takes.
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
                    self._outside.copy().run(ready)  # it is no handler, and may wait for a stop
                while not await self._life(until_drained=until_drained):
                    log.warning("this worker's leases were lost; it goes on as a new incarnation")
                    self._lost, self._incarnation = False, ""
                    self._incarnation = await self._answered(self._register)
                if self._moved is not None:
                    raise StoreMoved(self._moved)
        finally:
            self._opening = False
            self._alarm.cancel()
            await self._attempts.close()
            await self._supervisor.stop()
            await self._subscribers.end(life)

    async def _life(self, *, until_drained: bool) -> bool:
        """Work as one incarnation. Return True when done, False when the incarnation was lost."""
        me, clock = self._incarnation, self._clock
        may_lend = not until_drained  # who drains leaves as soon as nothing is due
        steps = StepLoop(
            me, self._idle_handle, self._attempts, self._wakeup, clock, self._ask, self._hear, may_lend=may_lend
        )
        lost = partial(self._hear_of_loss, me)
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
            await (self._drain(steps, reclaimer) if until_drained else self._work(steps, reclaimer))
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
            log.warning("could not say good-bye to the store: %s; others will see that this worker is gone", error)

    # The loop

    async def _drain(self, steps: StepLoop, reclaimer: Reclaimer) -> None:
        await self._answered(self._ticker.fire)
        await self._work(steps, reclaimer, until_drained=True)
        # Once more, and not for ever: a job may be due again each time that its run has ended.
        if not self._stopping and await self._answered(self._ticker.fire) > 0:
            await self._work(steps, reclaimer, until_drained=True)

    async def _work(self, steps: StepLoop, reclaimer: Reclaimer, *, until_drained: bool = False) -> None:
        attempts = self._attempts
        while True:
            reply = await steps.make(self._room, short=self._memory.short)
            if not attempts.results:
                self._told.set()
            if reply.claimed:
                overdue = self._lease_clock.may_have_lapsed
                claimed = await self._still_held(steps, reclaimer) if overdue else reply.claimed
                # A step that was under way when the stop came may still bring runs.
                attempts.give_back(claimed) if self._stopping else attempts.start(claimed)
                # Let what was just started begin; short handlers are done when we are back.
                await asyncio.sleep(0)
            if reclaimer.behind and not attempts.taking_over:
                await reclaimer.look(read=True)
            if reply.more or attempts.results or (self._stopping and self._idle_handle.lends):
                continue  # nobody leaves while a step may be done behind its back
            if not attempts and (self._stopping or (until_drained and not reclaimer.behind)):
                return
            if until_drained and attempts.deaf and not reclaimer.behind:
                self._gave_up.set()  # what is left does not listen; nobody can tell when it ends
            if reply.due_in is not None and not self._stopping:
                # Counted from before the call: what the answer took on its way must not make the run late.
                self._alarm.set(steps.asked_at + reply.due_in / SECOND)
            if not self._idle_handle.is_answered:
                await self._wakeup.wait()

    @property
    def _room(self) -> int:
        """How many runs more it can take."""
        return 0 if self._stopping or self._memory.short else self._settings.concurrency - len(self._attempts)

    async def _still_held(self, steps: StepLoop, reclaimer: Reclaimer) -> list[Claimed]:
        """Return what of the last step's claims is this worker's still, and now for another lease. Raises LeaseLost."""
        log.info("not renewed for longer than a lease; asking what this worker still holds before it begins any of it")
        # In this order: once it is renewed nobody takes over from it, so what the store says then stays true.
        at = self._clock.monotonic()
        await self._answered(reclaimer.renew)
        claimed = await steps.still_held()
        self._lease_clock.asked(at)
        return claimed

    async def _ask(self, step: Step) -> StepReply:
        return await self._answered(partial(self._store.step, step))

    def _hear(self, reply: StepReply, results: list[Result], asked_at: float) -> None:
        if reply.fires_in is not None:
            self._ticker.hear(reply.fires_in, asked_at)
        if self._settlement_events.waiting:
            self._settlement_events.answered(results, reply)
        for number, fence in reply.refused:
            log.warning("run number %d: the store refused what came under fence %d", number, fence)
            self._attempts.lose(number, fence)
        self._attempts.hear(reply.requests)
        if reply.moved is not None:
            self._hear_of_move(reply.moved)

    async def _messages(self, run_id: str, known: int) -> list[Message]:
        messages: list[Message] = []
        while True:
            page = await self._answered(partial(self._store.messages, run_id, after=known + len(messages)))
            messages += page
            if not page:
                return messages

    async def _recall(self, run_id: str) -> Recall:
        return await self._answered(partial(self._store.recall, run_id))

    async def _answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call again and again until it is answered, or until there is no point any more."""
        tries = 0
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                if self._stopping and not self._attempts and tries >= LAST_TRIES:
                    raise  # somebody waits for this worker to end; what it holds is reclaimed when it is gone
                wait = REPEAT_AFTER[min(tries, len(REPEAT_AFTER) - 1)]
                log.warning("the store does not answer (%s); asking again in %g s", error, wait)
                tries += 1
                await self._clock.sleep(wait)
            if self._lost:
                raise LeaseLost(f"incarnation {self._incarnation} is lost")

    def _hear_of_move(self, place: str) -> None:
        """Claim nothing more, let what is executed end, and then end with StoreMoved."""
        if self._moved is None:
            log.warning("the store has moved to %s; this worker ends when what it executes has ended", place)
        self._moved, self._stopping = place, True

    def _hear_of_loss(self, incarnation: str, leases: Set[tuple[int, int]] | None) -> None:
        # Called on the renewer's thread: for a set of leases, or for None when the whole incarnation is lost.
        def tell() -> None:
            if incarnation != self._incarnation:
                return  # news of a former life
            self._lost = self._lost or leases is None
            for number, fence in leases or ():
                self._attempts.lose(number, fence)
            self._wakeup.set()

        from_thread(self._loop, tell)
