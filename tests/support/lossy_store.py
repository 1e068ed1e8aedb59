"""A store that is sometimes unavailable, to show that every verb can be repeated."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from random import Random
from typing import TypeVar

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.lifecycle.step import ReclaimReply, RenewReply, Step, StepReply
from laneway.core.queue.audit import Finding
from laneway.core.records.events import Event
from laneway.core.records.liveness import Incarnation, WorkerInfo
from laneway.core.records.memos import Recall
from laneway.core.records.policy import Lane
from laneway.core.records.run import Message, NewRun, Reason, Receipt, Run, RunFilter
from laneway.errors import StoreUnavailable
from laneway.ports.control import RunChange, Swept
from laneway.ports.gates import Depths, TaskState
from laneway.ports.jobs import DueJobs, JobChange, JobFilter
from laneway.ports.lanes import LaneState
from laneway.ports.moves import MovingStore
from laneway.ports.sessions import Extent, SessionState
from laneway.ports.settings import Setting
from laneway.ports.store import Store
from laneway.ports.upkeep import Examination, Old
from laneway.ports.users import UserState
from tests.support.moves import MovesOf

T = TypeVar("T")


class Fault(Enum):
    """How a call goes wrong."""

    NOT_SENT = "the store was not reached"  # nothing happened
    NO_REPLY = "the store's answer was lost"  # it happened, and the caller cannot know


class LossyStore(MovesOf):
    """Any store, behind a connection that fails.

    A test either plans faults (`fail("step")`, `lose_reply("submit", times=2)`: the next calls of that verb) or lets a
    `chance` of all calls go wrong, half of them before and half after they took effect, as `random` says.
    `StoreUnavailable.maybe_done` tells which it may have been. `faults` counts what went wrong.
    """

    def __init__(self, store: Store, *, chance: float = 0.0, random: Random | None = None) -> None:
        self.store, self.chance = store, chance
        self.faults = 0
        self._random = random or Random(0)
        self._planned: defaultdict[str, deque[Fault]] = defaultdict(deque)

    def fail(self, verb: str, times: int = 1) -> None:
        """Let the next calls of `verb` fail before they take effect."""
        self._planned[verb].extend([Fault.NOT_SENT] * times)

    def lose_reply(self, verb: str, times: int = 1) -> None:
        """Let the next calls of `verb` take effect and lose their answers."""
        self._planned[verb].extend([Fault.NO_REPLY] * times)

    def heal(self) -> None:
        """Drop the faults that are planned: from now on the store is within reach."""
        self._planned.clear()

    # The verbs

    async def open(self) -> None:
        await self._call("open", self.store.open)

    async def close(self) -> None:
        await self._call("close", self.store.close)

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        return await self._call("submit", lambda: self.store.submit(batch))

    async def get(self, run_id: str) -> Run:
        return await self._call("get", lambda: self.store.get(run_id))

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        return await self._call("runs", lambda: self.store.runs(wanted, limit=limit, before=before))

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        return await self._call("change_run", lambda: self.store.change_run(call, run_id, change))

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        return await self._call(
            "cancel_where", lambda: self.store.cancel_where(call, wanted, after=after, until=until, limit=limit)
        )

    async def recall(self, run_id: str) -> Recall:
        return await self._call("recall", lambda: self.store.recall(run_id))

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        await self._call("declare_lanes", lambda: self.store.declare_lanes(lanes))

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        return await self._call("users", lambda: self.store.users(user=user, limit=limit, after=after))

    async def lanes(self) -> list[LaneState]:
        return await self._call("lanes", self.store.lanes)

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        return await self._call(
            "sessions", lambda: self.store.sessions(named=named, prefix=prefix, limit=limit, after=after)
        )

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        return await self._call("stop", lambda: self.store.stop(call, name, extent))

    async def set(self, setting: Setting) -> None:
        await self._call("set", lambda: self.store.set(setting))

    async def tasks(self) -> list[TaskState]:
        return await self._call("tasks", self.store.tasks)

    async def why(self, run_id: str) -> list[Reason]:
        return await self._call("why", lambda: self.store.why(run_id))

    async def depths(self) -> Depths:
        return await self._call("depths", self.store.depths)

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        return await self._call("messages", lambda: self.store.messages(run_id, after=after, limit=limit))

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        return await self._call("events", lambda: self.store.events(run_id, after=after, limit=limit))

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self.store.watch(changed)

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        # A step that the worker has left would pass us by: the store inside is only to ring.
        await self._call("register", lambda: self.store.register(incarnation, partial(wake)))

    async def step(self, step: Step) -> StepReply:
        return await self._call("step", lambda: self.store.step(step))

    def renew(self, incarnation: str) -> RenewReply:
        fault = self._fault("renew")
        self._raise(fault, Fault.NOT_SENT)
        reply = self.store.renew(incarnation)
        self._raise(fault, Fault.NO_REPLY)
        return reply

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        return await self._call("reclaim", lambda: self.store.reclaim(incarnation, gone, limit=limit))

    async def leave(self, incarnation: str) -> None:
        await self._call("leave", lambda: self.store.leave(incarnation))

    async def workers(self) -> list[WorkerInfo]:
        return await self._call("workers", self.store.workers)

    async def change_job(self, change: JobChange) -> JobRecord | None:
        return await self._call("change_job", lambda: self.store.change_job(change))

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        return await self._call("jobs", lambda: self.store.jobs(wanted, limit=limit, after=after))

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        return await self._call("due_jobs", lambda: self.store.due_jobs(limit=limit, after=after))

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        return await self._call("fire", lambda: self.store.fire(firings))

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        return await self._call("fires", lambda: self.store.fires(job_id, limit=limit, before=before))

    async def restart_time(self) -> None:
        await self._call("restart_time", self.store.restart_time)

    def look(self) -> bool:
        return self.store.look()

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        return await self._call("prune", lambda: self.store.prune(old, limit=limit))

    async def check(self, *, repair: bool = False) -> list[Finding]:
        return await self._call("check", lambda: self.store.check(repair=repair))

    async def examine(self, *, deep: bool = True) -> Examination:
        return await self._call("examine", lambda: self.store.examine(deep=deep))

    async def _pass_on(self, verb: str, call: Callable[[MovingStore], Awaitable[T]]) -> T:
        return await self._call(verb, lambda: call(self.store))

    # Going wrong

    async def _call(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        fault = self._fault(verb)
        self._raise(fault, Fault.NOT_SENT)
        answer = await call()
        self._raise(fault, Fault.NO_REPLY)
        return answer

    def _fault(self, verb: str) -> Fault | None:
        planned = self._planned[verb]
        if planned:
            return planned.popleft()
        if self.chance and self._random.random() < self.chance:
            return self._random.choice(list(Fault))
        return None

    def _raise(self, fault: Fault | None, here: Fault) -> None:
        if fault is here:
            self.faults += 1
            raise StoreUnavailable(here.value, maybe_done=here is Fault.NO_REPLY)
