"""What the engine's tests share: a store that is watched, a scheduler on any store, and waiting without sleeping."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from laneway import Event, Receipt, Run, Scheduler
from laneway.core.jobs.plan import created
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.core.lifecycle.step import RenewReply, Step, StepReply
from laneway.core.records.states import RunState
from laneway.core.schedules import Schedule
from laneway.engine.worker.worker import _lingering
from laneway.ports.clock import Clock
from laneway.ports.jobs import AddJob
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.jobs import all_fires, spec_of
from tests.support.lossy_store import Fault, LossyStore

T = TypeVar("T")
IN_TIME = 10.0  # real seconds after which a signal that should have come is missed


def scheduler_on(store: Store, clock: Clock, **settings: Any) -> Scheduler:
    """Return a scheduler on a store that exists already: two of them are two workers of one fleet."""
    return Scheduler(store=store, clock=clock, **settings)


class WatchedStore(LossyStore):
    """A lossy store that counts the calls of each verb, keeps the steps, and can hold a verb back.

    `hold_back("step")` makes the next calls of that verb wait, before they take effect, until `let_go("step")`;
    `hold_back("step", answer=True)` holds back their answers instead.
    `chance` applies to the `unreliable` verbs alone, if any are named.
    """

    def __init__(self, store: Store, *, chance: float = 0.0, random: Random | None = None) -> None:
        super().__init__(store, chance=chance, random=random)
        self.calls: Counter[str] = Counter()
        self.steps: list[Step] = []
        self.batches: list[int] = []
        self.unreliable: set[str] = set()
        self.broken: dict[str, deque[BaseException]] = {}
        self._gates: dict[tuple[str, bool], asyncio.Event] = {}
        self._reached: dict[tuple[str, bool], asyncio.Event] = {}

    def hold_back(self, verb: str, *, answer: bool = False) -> asyncio.Event:
        """Hold calls of `verb` back from now on; return the event that tells that one has come."""
        self._gates[verb, answer] = asyncio.Event()
        self._reached[verb, answer] = asyncio.Event()
        return self._reached[verb, answer]

    def let_go(self, verb: str) -> None:
        """Let the calls of `verb` go on."""
        for gate in (verb, False), (verb, True):
            if gate in self._gates:
                self._gates.pop(gate).set()

    def breaks(self, verb: str, *errors: BaseException) -> None:
        """Let the next calls of `verb` raise these errors."""
        self.broken.setdefault(verb, deque()).extend(errors)

    async def submit(self, batch: Any) -> Any:
        self.batches.append(len(batch))
        return await super().submit(batch)

    async def step(self, step: Step) -> StepReply:
        self.steps.append(step)
        return await super().step(step)

    def renew(self, incarnation: str) -> RenewReply:
        self.calls["renew"] += 1
        self._break("renew")
        return super().renew(incarnation)

    def look(self) -> bool:
        self.calls["look"] += 1
        return super().look()

    async def _call(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls[verb] += 1
        await self._pass(verb, answer=False)
        self._break(verb)
        value = await super()._call(verb, call)
        await self._pass(verb, answer=True)
        return value

    async def _pass(self, verb: str, *, answer: bool) -> None:
        if (verb, answer) in self._gates:
            self._reached[verb, answer].set()
            await self._gates[verb, answer].wait()

    def _fault(self, verb: str) -> Fault | None:
        if self._planned[verb] or not self.unreliable or verb in self.unreliable:
            return super()._fault(verb)
        return None

    def _break(self, verb: str) -> None:
        if self.broken.get(verb):
            raise self.broken[verb].popleft()


async def soon(awaitable: Awaitable[T]) -> T:
    """Wait for a signal that comes by itself; fail if it does not."""
    return await asyncio.wait_for(awaitable, IN_TIME)


async def as_time_passes(clock: FakeClock, awaitable: Awaitable[T], *, step: float = 0.25) -> T:
    """Move the clock on until the awaited thing has come."""
    task = asyncio.ensure_future(awaitable)
    deadline = asyncio.get_running_loop().time() + IN_TIME
    try:
        while not task.done():
            assert asyncio.get_running_loop().time() < deadline, "time passed and nothing came"
            await clock.advance(step)
            # A store may work in threads of its own, which no turn of the loop waits for.
            await asyncio.wait({task}, timeout=0.002)
        return task.result()
    finally:
        task.cancel()


async def turns(number: int = 50) -> None:
    """Let the loop turn so often that whoever can go on has done so."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that nothing signals; fail if it never does."""

    async def turning() -> None:
        while not condition():  # noqa: ASYNC110 - what a thread changes, or a store, sets no event
            await asyncio.sleep(0.001)

    await soon(turning())


async def in_state(app: Scheduler, run: Receipt | str, state: RunState) -> Run:
    """Wait until a run is in a state that it does not end in; fail if it never is."""

    async def turning() -> Run:
        while (found := await app.get(run)).state is not state:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
        return found

    return await soon(turning())


async def lingerers() -> None:
    """Wait for the workers that could not stop their last handlers; those have been let go by now."""
    here = asyncio.get_running_loop()
    await until(lambda: all(task.get_loop() is not here for task in _lingering))


async def log_of(app: Scheduler, run: Receipt | str) -> list[Event]:
    """Return the events of a run that has ended."""
    return [event async for event in app.events(run)]


async def kinds_of(app: Scheduler, run: Receipt | str) -> list[str]:
    """Return the kinds of the events there are now, whether the run has ended or not."""
    store = await app.open()
    return [event.kind for event in await store.events(run if isinstance(run, str) else run.run_id)]


class Heard(logging.Handler):
    """Collects what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def add_job(on: Scheduler, name: str, schedule: Schedule, *, zone: str = "UTC", **said: Any) -> JobRecord:
    """Make a job of the task `work` as of now; return it as it is kept."""
    store = await on.open()
    spec = spec_of(schedule, **{"name": name, "task": "work"} | said)
    kept = await store.change_job(AddJob(created(name, spec, on._clock.now(), zone)))
    assert kept is not None
    return kept


async def fires_of(on: Scheduler, name: str) -> list[FireRecord]:
    """Return the records of a job, oldest first."""
    return await all_fires(await on.open(), name)


async def passes(clock: FakeClock, seconds: float, *, step: float = 1.0) -> None:
    """Let time pass, and give stores and deciders that work in threads the time that they need."""
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        await clock.advance(min(step, end - clock.monotonic()))
        await asyncio.sleep(0.002)
