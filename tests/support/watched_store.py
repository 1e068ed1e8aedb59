"""A store whose calls are counted, held back, or made to fail."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from laneway.core.lifecycle.step import RenewReply, Step, StepReply
from laneway.core.records.liveness import Incarnation
from laneway.ports.store import Store
from tests.support.lossy_store import Fault, LossyStore

T = TypeVar("T")


class WatchedStore(LossyStore):
    """A lossy store that counts the calls of each verb, keeps the steps, and can hold a verb back.

    `hold_back("step")` makes the next calls of that verb wait, before they take effect, until `let_go("step")`;
    `hold_back("step", answer=True)` holds back their answers instead.
    `chance` applies to the `unreliable` verbs alone, if any are named.
    `incarnations` are those that were registered, oldest first; `wake` wakes them, as a hint of the store would, and
    while `hints_get_lost` no hint of the store does.
    """

    def __init__(self, store: Store, *, chance: float = 0.0, random: Random | None = None) -> None:
        super().__init__(store, chance=chance, random=random)
        self.calls: Counter[str] = Counter()
        self.steps: list[Step] = []
        self.batches: list[int] = []
        self.unreliable: set[str] = set()
        self.broken: dict[str, deque[BaseException]] = {}
        self.incarnations: list[str] = []
        self.hints_get_lost = False
        self.watchers = 0  # how many watch for changes
        self._wakes: list[Callable[[], None]] = []
        self._gates: dict[tuple[str, bool], asyncio.Event] = {}
        self._reached: dict[tuple[str, bool], asyncio.Event] = {}

    def hold_back(self, verb: str, *, answer: bool = False) -> asyncio.Event:
        """Hold calls of `verb` back from now on; return an event that is set when a call has come."""
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

    def wake(self) -> None:
        """Wake every worker that was registered."""
        for wake in self._wakes:
            wake()

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        self.incarnations.append(incarnation.id)
        self._wakes.append(wake)
        await super().register(incarnation, lambda: None if self.hints_get_lost else wake())

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        stop = super().watch(changed)
        watching = [stop]
        self.watchers += 1

        def stopped() -> None:
            self.watchers -= len(watching)
            watching.clear()
            stop()

        return stopped

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
