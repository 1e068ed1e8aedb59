"""Several store objects on the same data, used as one, as several processes would use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
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


class ManyDoors(MovesOf):
    """A store with several doors: a worker always uses the same one, every other call takes the next.

    If a store object remembers what it should ask for, what came in through one door is not seen through another, and
    the contract or the model test says so.
    """

    def __init__(self, *stores: Store) -> None:
        self.stores = stores
        self._doors = cycle(stores)
        self._of: dict[str, Store] = {}

    def _next(self) -> Store:
        return next(self._doors)

    async def _pass_on(self, verb: str, call: Callable[[MovingStore], Awaitable[T]]) -> T:
        return await call(self._next())

    def _door_of(self, incarnation: str) -> Store:
        if incarnation not in self._of:
            self._of[incarnation] = self._next()
        return self._of[incarnation]

    async def open(self) -> None:
        for store in self.stores:
            await store.open()

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        return await self._next().submit(batch)

    async def get(self, run_id: str) -> Run:
        return await self._next().get(run_id)

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        return await self._next().runs(wanted, limit=limit, before=before)

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        return await self._next().change_run(call, run_id, change)

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        return await self._next().cancel_where(call, wanted, after=after, until=until, limit=limit)

    async def recall(self, run_id: str) -> Recall:
        return await self._next().recall(run_id)

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        await self._next().declare_lanes(lanes)

    async def lanes(self) -> list[LaneState]:
        return await self._next().lanes()

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        return await self._next().users(user=user, limit=limit, after=after)

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        return await self._next().sessions(named=named, prefix=prefix, limit=limit, after=after)

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        return await self._next().stop(call, name, extent)

    async def set(self, setting: Setting) -> None:
        await self._next().set(setting)

    async def tasks(self) -> list[TaskState]:
        return await self._next().tasks()

    async def why(self, run_id: str) -> list[Reason]:
        return await self._next().why(run_id)

    async def depths(self) -> Depths:
        return await self._next().depths()

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        return await self._next().messages(run_id, after=after, limit=limit)

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        return await self._next().events(run_id, after=after, limit=limit)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._next().watch(changed)

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        await self._door_of(incarnation.id).register(incarnation, wake)

    async def step(self, step: Step) -> StepReply:
        return await self._door_of(step.incarnation).step(step)

    def renew(self, incarnation: str) -> RenewReply:
        return self._door_of(incarnation).renew(incarnation)

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        return await self._door_of(incarnation).reclaim(incarnation, gone, limit=limit)

    async def leave(self, incarnation: str) -> None:
        await self._door_of(incarnation).leave(incarnation)

    async def workers(self) -> list[WorkerInfo]:
        return await self._next().workers()

    async def change_job(self, change: JobChange) -> JobRecord | None:
        return await self._next().change_job(change)

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        return await self._next().jobs(wanted, limit=limit, after=after)

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        return await self._next().due_jobs(limit=limit, after=after)

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        return await self._next().fire(firings)

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        return await self._next().fires(job_id, limit=limit, before=before)

    async def restart_time(self) -> None:
        await self._next().restart_time()

    def look(self) -> bool:
        return any(store.look() for store in self.stores)

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        return await self._next().prune(old, limit=limit)

    async def check(self, *, repair: bool = False) -> list[Finding]:
        return await self._next().check(repair=repair)

    async def examine(self, *, deep: bool = True) -> Examination:
        return await self._next().examine(deep=deep)
