"""A PostgreSQL store that keeps the handles of its idle workers, and can lose the replies that it pushes."""

from __future__ import annotations

from collections.abc import Callable

from laneway.core.lifecycle.step import PushedReply, Step, StepReply
from laneway.core.records.liveness import Incarnation
from laneway.engine.worker.idle_handle import IdleHandle
from laneway.ports.clock import Clock
from laneway.ports.workers import WakeHandle
from laneway.stores.postgres.store import PostgresStore
from tests.support.waits import until


class IdleStore(PostgresStore):
    """Keeps the handles of its workers, the steps that they make themselves, and the replies that it pushes.

    While `loses_answers`, a pushed reply is kept in `answers` and goes nowhere.
    """

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        super().__init__(url, clock)
        self.handles: list[IdleHandle] = []
        self.steps: list[Step] = []
        self.answers: list[tuple[IdleHandle, PushedReply]] = []
        self.loses_answers = False

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        if isinstance(wake, IdleHandle):
            self.handles.append(wake)
            wake = _Between(self, wake)
        await super().register(incarnation, wake)

    async def step(self, step: Step) -> StepReply:
        self.steps.append(step)
        return await super().step(step)

    async def lender(self) -> IdleHandle:
        """Wait until a worker has offered its step; return the worker's handle."""
        await until(lambda: any(handle.is_offered for handle in self.handles if handle.is_alive))
        return next(handle for handle in self.handles if handle.is_alive and handle.is_offered)


class _Between(WakeHandle):
    """A worker's handle, as the store sees it."""

    def __init__(self, store: IdleStore, handle: IdleHandle) -> None:
        self._store, self._handle = store, handle

    @property
    def is_alive(self) -> bool:
        return self._handle.is_alive

    def __call__(self) -> None:
        self._handle()

    def push(self, reply: PushedReply) -> None:
        self._store.answers.append((self._handle, reply))
        if not self._store.loses_answers:
            self._handle.push(reply)
