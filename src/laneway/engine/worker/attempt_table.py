"""The attempts a worker is executing: starts handlers, collects what they ended in and what they say meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Set
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
from laneway.engine.attempts.event_buffer import Talking
from laneway.engine.attempts.executor import Executor
from laneway.engine.attempts.prepare import Fetch, Remember
from laneway.engine.attempts.running_attempt import Execution, Stop
from laneway.engine.attempts.save_queue import Saves
from laneway.engine.attempts.stuck import Stuck
from laneway.engine.common.wakeup import Bell
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.task import Registry, Task
from laneway.engine.services.takeover_policy import judged
from laneway.engine.worker.settlement_events import Telling
from laneway.errors import LeaseLost
from laneway.ports.clock import Clock
from laneway.settings import Settings

log = logging.getLogger("laneway.worker")

_SUCCEED = Move.SUCCEED  # looking up an enum's member costs more than comparing it
KILLED_WITHIN = 5.0  # seconds in which a child process that was killed is dead, however busy the machine
ELSEWHERE = SECOND  # how soon a run on its last chance is offered again if this worker has one already


class Executions:
    """What is under way. It rings the worker's bell when there is something to tell the store."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        settings: Settings,
        bell: Bell,
        fetch: Fetch,
        remember: Remember,
        telling: Telling,
        load: Callable[[str], bool | None] | None = None,
    ) -> None:
        self._registry, self._clock, self._bell, self._grace = registry, clock, bell, settings.grace
        self._fetch, self._load = fetch, load
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, Execution] = {}
        self.saves = Saves(self._running, self._loop, bell)
        self._telling, self._subscribers = telling, telling.subscribers
        self.talking = Talking(self._running, clock, self._loop, bell, telling.subscribers)
        self.executor = Executor(clock, settings, registry, self.saves, self.talking, self._ended, fetch, remember)
        self._fetching: set[asyncio.Task[None]] = set()
        self._deadlines = Deadlines(clock)
        self._plain = self._loop.get_task_factory() is None
        self._results: list[Result] = []
        self._overdue: list[tuple[int, int]] = []
        self._pausing: list[Execution] = []
        self._taken_over: set[tuple[int, int]] = set()  # lapsed leases whose settlement is not written yet
        self._talkative = log.isEnabledFor(logging.DEBUG)  # asked once: two lines a run cost a tenth of its time
        self._is_terse = not self._talkative and load is None  # of most results there is nothing else to tell
        self.stuck = Stuck(clock)
        self.moves: Counter[Move] = Counter()  # how attempts were settled

    def __len__(self) -> int:
        """Return how many handlers are being executed."""
        return len(self._running)

    @property
    def results(self) -> bool:
        """Tell whether there are results the store has not been told."""
        return bool(self._results)

    @property
    def deaf(self) -> bool:
        """Tell whether handlers are being executed, and all of them were told to stop and have not."""
        return 0 < len(self._running) == len(self.stuck)

    @property
    def taking_over(self) -> bool:
        """Tell whether lapsed leases wait to be settled."""
        return bool(self._taken_over)

    def ids(self) -> list[str]:
        """Return the ids of the runs being executed; may be called from any thread."""
        return [execution.run.id for execution in list(self._running.values())]

    def tasks(self) -> list[str]:
        """Return the tasks of the runs being executed, one for each; may be called from any thread."""
        return [execution.run.task for execution in list(self._running.values())]

    def run_of(self, handle: asyncio.Task[Any]) -> str | None:
        """Return the id of the run whose handler this is on the loop, if it is one's; may be called from any thread."""
        return next((e.run.id for e in list(self._running.values()) if e.handle is handle), None)

    def held(self) -> Set[tuple[int, int]]:
        """Return the leases of the runs being executed, as (number, fence); may be called from any thread."""
        # Race: copying the values first makes it a snapshot.
        return {(execution.run.number, execution.run.fence) for execution in list(self._running.values())}

    # Starting

    def start(self, claimed: Iterable[Claimed]) -> None:
        """Execute claimed runs."""
        running, loop, talkative = self._running, self._loop, self._talkative
        simply, carefully = self.executor.execute, self.executor.prepare_and_execute
        # What the loop's create_task does unless somebody gave it a factory, without its detours.
        spawn = asyncio.Task if self._plain else _by_factory
        task: Task[..., Any] | None = None
        hooked, timeout = False, None
        for run in claimed:
            if task is None or task.name != run.task:  # mostly it is that of the run before
                task = self._registry.get(run.task)
                hooked, timeout = task.is_hooked, task.policy.timeout
            if run.crashes and self._is_on_last_chance(run) and any(map(self._is_on_last_chance, self._claims())):
                # A poison run must not take another one on its last chance with it.
                # Longer each time, up to a minute: the other may take hours.
                self._settle(run, settle(run, Snoozed(ELSEWHERE << min(run.fence, 6)), task.policy))
                continue
            execution = running[run.number] = Execution(run, task)
            if talkative:
                log.debug("run %s of %s: start, attempt %d", run.id, run.task, run.attempt)
            execute = carefully if run.messages or run.memos or hooked or run.prepared is not None else simply
            execution.handle = spawn(execute(execution), loop=loop, name=run.id)
            if timeout is not None or run.ties is not None:
                self._watch(execution)

    def _watch(self, execution: Execution) -> None:
        timeout = execution.policy.timeout
        if timeout is not None:
            self._deadlines.add(execution, timeout / SECOND, self._is_overdue)

    def give_back(self, claimed: Iterable[Claimed]) -> None:
        """Release claimed runs that were not started: they came when the worker was already stopping."""
        for run in claimed:
            self._settle(run, settle(run, Released(), self._terms(run)))

    def take_over(self, lapsed: list[Claimed]) -> None:
        """Settle leases of the dead. If one of a dead worker's runs was on its last chance, it alone is charged."""
        fresh = [run for run in lapsed if (run.number, run.fence) not in self._taken_over]
        for run, settlement in judged(fresh, self._registry.policy):
            self._taken_over.add((run.number, run.fence))
            log.warning("worker %s is gone; its run %s is taken over", run.worker, run.id)
            self._settle(run, settlement)

    def _terms(self, run: Claimed) -> TaskPolicy:
        return terms(self._registry.policy(run.task), run.ties)

    def _claims(self) -> Iterable[Claimed]:
        return (execution.run for execution in self._running.values() if execution.run.crashes)

    def _is_on_last_chance(self, run: Claimed) -> bool:
        return on_last_chance(run.crashes, self._registry.policy(run.task))

    # Stopping

    def lose(self, number: int, fence: int) -> None:
        """Stop a handler whose lease is not this worker's any more; nothing of it is written."""
        execution = self._running.get(number)
        if execution is not None and execution.run.fence == fence:
            why = "is not this worker's any more, taken over or abandoned"
            log.warning("run %s %s; its handler is stopped", execution.run.id, why)
            del self._running[number]
            execution.lost = True
            execution.stop(Stop.LOST)

    def lose_all(self) -> None:
        """Stop every handler and forget every result: the incarnation is lost."""
        for number, fence in self.held():
            self.lose(number, fence)
        self.saves.refuse(self.saves.take())
        self._results.clear()
        self.talking.clear()
        self._taken_over.clear()
        self._telling.forget()
        self._overdue.clear()

    def hear(self, requests: Iterable[Requested]) -> None:
        """Take note of what stands requested of the runs; a pause that is not among it any more was taken back."""
        pausing, self._pausing = self._pausing, []
        for execution in pausing:
            execution.request = None
        for requested in requests:
            asked = self._running.get(requested.number)
            if asked is None or asked.run.fence != requested.fence:
                continue
            if requested.request is Request.STEER:
                self._hear_of_messages(asked, requested.messages)
            elif requested.request is Request.PAUSE:
                asked.request = Request.PAUSE
                self._pausing.append(asked)
            elif asked.request is not Request.CANCEL:
                asked.request = Request.CANCEL
                self._tell(asked, Stop.CANCELLED, events.CANCEL_DELIVERED)

    def _hear_of_messages(self, execution: Execution, came: int) -> None:
        if execution.inbox is None or execution.inbox.came >= came:
            return
        task = self._loop.create_task(self._fetch_messages(execution, execution.inbox))
        self._fetching.add(task)  # the loop keeps only weak references to tasks
        task.add_done_callback(self._fetching.discard)

    async def _fetch_messages(self, execution: Execution, inbox: Inbox) -> None:
        came = inbox.came
        try:
            messages = await self._fetch(execution.run.id, execution.merged + came)
        except LeaseLost:
            return  # and so is the run
        if inbox.came == came:  # else somebody was faster
            inbox.put([message.args for message in messages])
        if execution.child is not None:
            execution.child.deliver()

    async def finish(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the handlers, but for those that do not listen."""
        handles = [e.handle for e in self._running.values() if e.handle is not None and not e.stuck]
        if handles:
            await asyncio.wait(handles, timeout=timeout)

    def release(self, grace: float) -> None:
        """Stop all handlers; what has stopped is given back uncharged. Children are killed after `grace` seconds."""
        for execution in list(self._running.values()):
            execution.stop(Stop.RELEASED, grace)

    async def bury(self) -> None:
        """Kill the children whose time is up and wait until they are dead: unlike a thread, one can be stopped."""
        children = [execution for execution in self._running.values() if execution.child is not None]
        for execution in children:
            execution.kill()
        handles = [execution.handle for execution in children if execution.handle is not None]
        if handles:
            await asyncio.wait(handles, timeout=KILLED_WITHIN)

    async def close(self) -> None:
        """Start nothing and save nothing any more."""
        self.saves.close()
        self._deadlines.close()
        self.talking.close()
        await self.executor.close()

    def _is_overdue(self, execution: Execution) -> None:
        self._overdue.append((execution.run.number, execution.run.fence))
        self._tell(execution, Stop.TIMED_OUT, events.OVERDUE)

    def _tell(self, execution: Execution, why: Stop, kind: str) -> None:
        """Stop a handler, say so in its log, and see to it that it is noticed if it does not stop."""
        self.talking.say_now(execution, draft(kind, {}))
        execution.stop(why, self._grace)
        self._deadlines.add(execution, self._grace, self._has_not_stopped)

    def _has_not_stopped(self, execution: Execution) -> None:
        if execution.child is None:
            self._is_stuck(execution)
        else:
            # It is killed at this very moment; only one that outlives that is stuck.
            self._deadlines.add(execution, KILLED_WITHIN, self._is_stuck)

    def _is_stuck(self, execution: Execution) -> None:
        if execution.stuck:
            return  # told twice to stop, by a time-out and by a cancel, it is still stuck once
        stuck = self.stuck.add(execution, self._grace)
        self.talking.say_now(execution, draft(events.STUCK, {"seconds": stuck.seconds, "stack": stuck.stack}))

    # Telling the store

    def take_results(self) -> list[Result]:
        """Return the results so far and forget them."""
        results, self._results = self._results, []
        moves = [result.settlement.move for result in results]
        if 0 < len(moves) == moves.count(_SUCCEED):  # as mostly; it takes half the time
            self.moves[_SUCCEED] += len(moves)
        else:
            self.moves.update(moves)
        return results

    def settled(self, results: list[Result]) -> None:
        """Hear that the store was told these results."""
        if self._taken_over:
            self._taken_over.difference_update((result.number, result.fence) for result in results)

    def take_overdue(self) -> list[tuple[int, int]]:
        """Return the leases whose time-out was decided, and forget them."""
        overdue, self._overdue = self._overdue, []
        return overdue

    def _ended(self, execution: Execution, outcome: Outcome) -> None:
        run = execution.run
        policy = execution.task.policy if run.ties is None else execution.policy
        # The handler's context holds the execution, and the handle its context: a circle nobody would clear up.
        execution.handle = None
        if policy.timeout is not None:
            self._deadlines.ended()
        if execution.stuck:
            self.stuck.ended(execution)
        if (here := self._running.pop(run.number, None)) is execution:
            drafts = execution.take_drafts() if execution.drafts else ()
            settlement = settle(run, outcome, policy, drafts)
            inbox, results = execution.inbox, self._results
            if results and inbox is None and self._is_terse and not self._subscribers.listening:
                results.append(Result(run.number, run.fence, settlement))  # a call less for every run
            else:
                self._settle(run, settlement, 0 if inbox is None else inbox.taken)
        elif here is not None:
            self._running[run.number] = here  # a later attempt's

    def _settle(self, run: Claimed, settlement: Settlement, read: int = 0) -> None:
        if self._talkative:
            log.debug("run %s of %s: %s", run.id, run.task, settlement.move.value)
        if self._subscribers.listening:
            self._telling.note(run)
        if not self._results:
            # Invariant: the bell stays rung until the results are taken, so the first of them is enough.
            self._bell.ring()
        throttled = None if run.session is None or self._load is None else self._load(run.session)
        self._results.append(Result(run.number, run.fence, settlement, read, throttled))


def _by_factory(coro: Coroutine[Any, Any, None], *, loop: asyncio.AbstractEventLoop, name: str) -> asyncio.Task[None]:
    return loop.create_task(coro, name=name)
