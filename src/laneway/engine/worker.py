"""The worker: claims runs, executes them, settles what they ended in.

**The loop.** One call to the store, `step`, does everything: it writes the results that came in since the last one,
claims as many runs as there is room for, and, if room is left, registers the worker as resting so that the next
submission wakes it. Then it waits on its bell, which a handler that ends, a wake-up, a due time or a stop rings.
Results that come in while a step is under way go into the next one, so under load the batches grow by themselves and at
rest nothing is delayed.

**One step at a time.** A step that got no answer is sent again, the same, with the same call number, until it is
answered: the store then either does it or returns what it had answered. Meanwhile results wait and handlers go on.

**Losing the lease.** Another worker may have taken over (this one was frozen or cut off). Then the store refuses the
result, or the renewal lists the lease no more: the handler is stopped as by cancel and nothing of it is written. If the
whole incarnation is lost the worker stops every handler and goes on under a new one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Set
from functools import partial
from typing import TypeVar

from laneway.core.instants import SECOND
from laneway.core.liveness import Incarnation
from laneway.core.outcome import Lapsed, Settlement, settle
from laneway.core.run import Claimed
from laneway.core.states import Move
from laneway.core.step import Emitted, Result, Step, StepReply
from laneway.engine.bell import Bell
from laneway.engine.deadlines import Deadlines
from laneway.engine.executor import Execution, Executor, Stop
from laneway.engine.ids import new_run_id
from laneway.engine.processes import mark
from laneway.engine.reclaimer import Reclaimer
from laneway.engine.renewer import Renewer
from laneway.engine.tasks import Registry
from laneway.errors import LeaseLost, StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.store import Store
from laneway.settings import Settings

log = logging.getLogger("laneway.worker")
T = TypeVar("T")

FLUSH_AFTER = 0.05  # seconds an event may wait for company
FLUSH_AT = 64  # events of one run that are company enough
REPEAT_AFTER = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between two tries of a step that got no answer


class Worker:
    """Executes the tasks of a registry from a store. One object, one event loop, one incarnation at a time."""

    def __init__(self, store: Store, registry: Registry, clock: Clock, settings: Settings) -> None:
        self._store, self._registry, self._clock, self._settings = store, registry, clock, settings
        self._bell = Bell()
        self._executor = Executor(settings.concurrency, settings.result_limit, self._buffered)
        self._deadlines = Deadlines(clock)
        self._running: dict[int, Execution] = {}
        self._results: list[Result] = []
        self._talking: set[Execution] = set()
        self._settling: set[tuple[int, int]] = set()  # lapsed leases taken over and not settled yet
        self.moves: Counter[Move] = Counter()  # how the runs it executed or took over were settled
        self._flush: asyncio.Task[None] | None = None
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._ready: Callable[[], None] | None = None
        self._incarnation = ""
        self._call = 0
        self._stopping = False  # claim nothing more
        self._giving_up = False  # leave behind what could not be stopped
        self._lost = False
        self._thread = threading.get_ident()

    @property
    def executing(self) -> list[str]:
        """The ids of the runs whose handlers are being executed; may be asked from any thread."""
        return [execution.run.id for execution in list(self._running.values())]

    async def run(self, *, until_drained: bool = False, ready: Callable[[], None] | None = None) -> None:
        """Work until stopped; with `until_drained`, until nothing is due and nothing is running.

        `ready` is called once the worker is known to the store.
        """
        self._ready = ready
        try:
            self._incarnation = await self._register()
            while not await self._life(until_drained=until_drained):
                log.warning("this worker's leases were lost; it goes on as a new incarnation")
                self._incarnation = await self._answered(self._register)
        finally:
            self._deadlines.close()
            self._executor.close()
            for timer in (self._flush, self._alarm):
                if timer is not None:
                    timer.cancel()

    async def stop(self, timeout: float) -> None:
        """Claim nothing more, wait up to `timeout` seconds, then stop the handlers and release what has stopped."""
        self._stopping = True
        self._bell.ring()
        await self._wait_for_handlers(timeout)
        for execution in self._running.values():
            execution.stop(Stop.RELEASED)
        await self._wait_for_handlers(self._settings.grace if timeout else 0)
        self._giving_up = True
        self._bell.ring()

    # One incarnation's life

    async def _life(self, *, until_drained: bool) -> bool:
        """Work as one incarnation. Return True when done, False when the incarnation was lost."""
        self._lost, self._call = False, 0
        renewer = Renewer(self._store, self._incarnation, self._settings.renew_every, self._held, self._on_lost_leases)
        reclaimer = Reclaimer(self._store, self._clock, self._incarnation, self._take_over, self._bell.ring)
        services = [asyncio.create_task(reclaimer.run(), name="laneway-reclaimer")]
        renewer.start()
        if self._ready is not None:
            self._ready()
            self._ready = None
        try:
            await reclaimer.look(read=True)
            await self._work(until_drained=until_drained)
            await self._leave()
            return True
        except LeaseLost:
            self._forget_all()
            return False
        finally:
            if self._running:
                renewer.retire()
            else:
                renewer.stop()
            for service in services:
                service.cancel()
            await asyncio.gather(*services, return_exceptions=True)

    async def _leave(self) -> None:
        if self._running:
            return  # a thread that could not be stopped keeps its lease until it ends or this process does
        try:
            await self._store.leave(self._incarnation)
        except StoreUnavailable as error:
            log.warning("could not say good-bye to the store: %s; others will see that this worker is gone", error)

    async def _register(self) -> str:
        incarnation = Incarnation(
            id=new_run_id(),
            host=socket.gethostname(),
            process=mark(),
            tasks=self._registry.names,
            lease=round(self._settings.lease * SECOND),
            concurrency=self._settings.concurrency,
        )
        await self._store.register(incarnation, self._bell.ring_from_thread)
        log.info("worker %s started in process %d", incarnation.id, os.getpid())
        return incarnation.id

    async def _work(self, *, until_drained: bool) -> None:
        while True:
            reply = await self._step()
            for run in reply.claimed:
                self._start(run)
            if reply.claimed:
                # Let what was just started begin; short handlers are done when we are back.
                await asyncio.sleep(0)
            if reply.more or self._results:
                continue
            if self._is_done(until_drained=until_drained):
                return
            if reply.due_in is not None and not self._stopping:
                self._ring_in(reply.due_in / SECOND)
            await self._bell.wait()

    def _is_done(self, *, until_drained: bool) -> bool:
        if self._stopping:
            return not self._running or self._giving_up
        return until_drained and not self._running

    # The store

    async def _step(self) -> StepReply:
        self._bell.hush()
        results, self._results = self._results, []
        emitted = self._take_events() if self._talking else []
        room = 0 if self._stopping else self._settings.concurrency - len(self._running)
        self._call += 1
        step = Step(self._incarnation, self._call, results, emitted, room, park=room > 0)
        reply = await self._answered(partial(self._store.step, step))
        if self._settling:
            self._settling.difference_update((result.number, result.fence) for result in results)
        for number, fence in reply.refused:
            log.warning("run number %d: the store refused what came under fence %d", number, fence)
            self._lose(number, fence)
        return reply

    async def _answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call again and again until it is answered, or until there is no point any more."""
        tries = 0
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                if self._giving_up:
                    raise
                wait = REPEAT_AFTER[min(tries, len(REPEAT_AFTER) - 1)]
                log.warning("the store does not answer (%s); asking again in %g s", error, wait)
                tries += 1
                await self._clock.sleep(wait)
            if self._lost:
                raise LeaseLost(f"incarnation {self._incarnation} is lost")

    # Executing

    def _start(self, run: Claimed) -> None:
        execution = Execution(run, self._registry.get(run.task))
        self._running[run.number] = execution
        log.debug("run %s of %s: start, attempt %d", run.id, run.task, run.attempt)
        execution.handle = self._loop.create_task(self._carry_out(execution))
        timeout = execution.task.policy.timeout
        if timeout is not None:
            self._deadlines.add(execution, timeout)

    async def _carry_out(self, execution: Execution) -> None:
        outcome = await self._executor.execute(execution)
        if self._running.get(execution.run.number) is execution:
            del self._running[execution.run.number]
            drafts = execution.take_drafts() if execution.drafts else ()
            self._settle(execution.run, settle(execution.run, outcome, execution.task.policy, drafts))

    def _settle(self, run: Claimed, settlement: Settlement) -> None:
        self._results.append(Result(run.number, run.fence, settlement))
        self.moves[settlement.move] += 1
        log.debug("run %s of %s: %s", run.id, run.task, settlement.move.value)
        self._bell.ring()

    # Events

    def _buffered(self, execution: Execution) -> None:
        # Called by ctx.emit, from the loop's thread or from a handler's.
        if threading.get_ident() == self._thread:
            self._has_drafts(execution)
        else:
            self._from_thread(partial(self._has_drafts, execution))

    def _take_events(self) -> list[Emitted]:
        talking, self._talking = self._talking, set()
        return [
            Emitted(execution.run.number, execution.run.fence, execution.take_drafts())
            for execution in talking
            if execution.drafts and self._running.get(execution.run.number) is execution
        ]

    def _has_drafts(self, execution: Execution) -> None:
        self._talking.add(execution)
        if len(execution.drafts) >= FLUSH_AT:
            self._bell.ring()
        elif self._flush is None or self._flush.done():
            self._flush = self._loop.create_task(self._ring_after(FLUSH_AFTER))

    # Losing and taking over

    def _held(self) -> Set[tuple[int, int]]:
        # Race: called on the renewer's thread; copying the dictionary's values first makes it a snapshot.
        return {(execution.run.number, execution.run.fence) for execution in list(self._running.values())}

    def _on_lost_leases(self, leases: Set[tuple[int, int]] | None) -> None:
        def tell() -> None:
            if leases is None:
                self._lost = True
            for number, fence in leases or ():
                self._lose(number, fence)
            self._bell.ring()

        self._from_thread(tell)

    def _lose(self, number: int, fence: int) -> None:
        execution = self._running.get(number)
        if execution is not None and execution.run.fence == fence:
            log.warning("run %s belongs to another worker now; its handler is stopped", execution.run.id)
            del self._running[number]
            execution.stop(Stop.LOST)

    def _forget_all(self) -> None:
        for execution in list(self._running.values()):
            self._lose(execution.run.number, execution.run.fence)
        self._results.clear()
        self._talking.clear()
        self._settling.clear()

    def _take_over(self, lapsed: list[Claimed]) -> None:
        for run in lapsed:
            if (run.number, run.fence) not in self._settling:
                self._settling.add((run.number, run.fence))
                log.warning("worker %s is gone; its run %s is taken over", run.worker, run.id)
                self._settle(run, settle(run, Lapsed(), self._registry.policy(run.task)))

    # Waiting

    async def _wait_for_handlers(self, timeout: float) -> None:
        handles = [execution.handle for execution in self._running.values() if execution.handle is not None]
        if handles:
            await asyncio.wait(handles, timeout=timeout)

    def _ring_in(self, seconds: float) -> None:
        at = self._clock.monotonic() + seconds
        if self._alarm is not None and not self._alarm.done():
            if self._alarm_at <= at:
                return  # it rings earlier, and then asks again
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = self._loop.create_task(self._ring_after(seconds))

    async def _ring_after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._bell.ring()

    def _from_thread(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            log.debug("the loop has closed; nobody is left to tell")
