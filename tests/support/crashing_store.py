"""A store whose workers die at random, in this process: just before a step is written, or just after."""

from __future__ import annotations

from random import Random

from laneway import Run
from laneway.core.lifecycle.step import Step, StepReply
from laneway.errors import LeaseLost
from laneway.ports.store import Store
from tests.support.invariants import all_runs
from tests.support.lossy_store import Fault, LossyStore


class CrashingStore(LossyStore):
    """The incarnation that makes a step may die before the store writes the step, or before it receives the reply.

    A test plans it (`die("before")`: with the next step that settles something), or lets a `chance` of all steps be the
    last, as `random` says; `lossy` is the chance that a call of the worker fails without that. `crashes` counts deaths,
    `found` is what runs there were at the last of them. `kept` has the run and name of each step's memo that was taken.
    """

    def __init__(self, store: Store, random: Random, *, chance: float = 0.0, lossy: float = 0.0) -> None:
        super().__init__(store, chance=lossy, random=random)
        self.deadly = chance
        self.found: list[Run] = []
        self._planned_deaths: list[str] = []
        self.crashes = 0
        self.kept: set[tuple[str, str]] = set()
        self._ids: dict[int, str] = {}

    def die(self, when: str) -> None:
        """Let the worker whose next step settles something die `before` or `after` it."""
        self._planned_deaths.append(when)

    async def step(self, step: Step) -> StepReply:
        when = self._death(step)
        if when == "before":
            await self._bury(step.incarnation)
        reply = await self._call("step", lambda: self._taken(step))
        if when == "after":
            await self._bury(step.incarnation)
        return reply

    def _fault(self, verb: str) -> Fault | None:
        return super()._fault(verb) if verb in {"step", "recall", "reclaim", "register"} else None

    def _death(self, step: Step) -> str | None:
        if self._planned_deaths and step.results:
            return self._planned_deaths.pop()
        if self._random.random() < self.deadly:
            return self._random.choice(["before", "after"])
        return None

    async def _bury(self, incarnation: str) -> None:
        self.crashes += 1
        if not self.deadly:
            self.found = await all_runs(self.store)
        await self.store.leave(incarnation)
        raise LeaseLost(f"incarnation {incarnation} is dead")

    async def _taken(self, step: Step) -> StepReply:
        reply = await self.store.step(step)
        self._ids |= {run.number: run.id for run in reply.claimed}
        for saved in step.saved:
            if saved.memo is not None and (saved.number, saved.fence) not in reply.refused:
                self.kept.add((self._ids[saved.number], saved.memo.name))
        return reply
