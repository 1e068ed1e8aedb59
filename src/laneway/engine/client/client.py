"""The client: submits runs and reads them, and repeats calls that got no answer."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from laneway.core.records.events import Event
from laneway.core.records.run import NewRun, Receipt, Run, Why
from laneway.core.records.states import RunState
from laneway.engine.client.event_feed import EventFeeds
from laneway.engine.client.store_changes import StoreChanges
from laneway.engine.client.submit_batcher import BATCH, SubmitBatcher
from laneway.errors import RunCancelled, RunDropped, RunFailed, StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.store import Store

T = TypeVar("T")
REPEAT_AFTER = (1.0, 3.0, 8.0)  # seconds between the tries of a call


class Client:
    """Calls an open store for callers."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._following = EventFeeds(store, clock, self._get, self._page)
        # Callers of one tick of the loop share one call to the store.
        self.submit = SubmitBatcher(self._submit).submit

    async def submit_and_wait(self, batch: Sequence[NewRun], seconds: float) -> list[Receipt]:
        """Submit runs; for at most so many seconds, submit them again while their lane is full and says to wait."""
        receipts = await self.submit_all(batch)
        waiting = [index for index, receipt in enumerate(receipts) if receipt.reason == Why.LANE_WAIT]
        if not waiting:
            return receipts
        deadline = self._clock.monotonic() + seconds
        async with StoreChanges(self._store, self._clock) as changes:
            while waiting:
                left = deadline - self._clock.monotonic()
                if left > 0:
                    await changes.wait(left)
                again = [msgspec.structs.replace(batch[index], patient=left > 0) for index in waiting]
                # Runs that wait alone are submitted through the batcher, because one change wakes all waiting callers.
                answers = [await self.submit(again[0])] if len(again) == 1 else await self.submit_all(again)
                for index, receipt in zip(waiting, answers, strict=True):
                    receipts[index] = receipt
                waiting = [index for index in waiting if receipts[index].reason == Why.LANE_WAIT]
        return receipts

    async def submit_all(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Submit many runs, in calls of at most a thousand."""
        if len(batch) <= BATCH:
            return await self._submit(batch)
        receipts: list[Receipt] = []
        for first in range(0, len(batch), BATCH):
            try:
                receipts += await self._submit(batch[first : first + BATCH])
            except StoreUnavailable as error:
                error.maybe_done = error.maybe_done or bool(receipts)
                raise
        return receipts

    async def _submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        receipts = await self.repeated(partial(self._store.submit, batch))
        # Race: more runs may come meanwhile. They get the same answer, and each call moves some earlier runs on.
        while again := [index for index, receipt in enumerate(receipts) if receipt.reason == Why.SESSION_WAIT]:
            answers = await self.repeated(partial(self._store.submit, [batch[index] for index in again]))
            for index, receipt in zip(again, answers, strict=True):
                receipts[index] = receipt
        return receipts

    async def repeated(self, call: Callable[[], Awaitable[T]], until: float = math.inf) -> T:
        """Make a repeatable call, up to four times or until a monotonic time, while the store is unavailable.

        Raises StoreUnavailable; its `maybe_done` is true if that of any try was.
        """
        maybe_done = False
        for wait in (*REPEAT_AFTER, None):
            try:
                return await call()
            except StoreUnavailable as error:
                error.maybe_done = maybe_done = maybe_done or error.maybe_done
                left = until - self._clock.monotonic()
                if wait is None or left <= 0:
                    raise
                await self._clock.sleep(min(wait, left))
        raise AssertionError("the last try returns or raises")

    async def result(self, run_id: str, seconds: float | None) -> Any:
        """Return the run's result once it has one. Raises RunFailed, RunCancelled, RunDropped or TimeoutError."""
        run = await self.ended(run_id, seconds)
        if run.state is RunState.SUCCEEDED:
            return run.result
        raise _ENDINGS[run.state](run.id, run.reason, run.error.message if run.error else None)

    async def ended(self, run_id: str, seconds: float | None) -> Run:
        """Return the run once it is in a terminal state. Raises TimeoutError after so many seconds."""
        deadline = math.inf if seconds is None else self._clock.monotonic() + seconds
        async with StoreChanges(self._store, self._clock) as changes:
            run = await self._get(run_id, deadline)
            while not run.ended:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    raise TimeoutError(f"run {run.id} has not ended in {seconds:g} s; it is {run.state.value}")
                await changes.wait(left)
                run = await self._get(run.id, deadline)
            return run

    async def _get(self, run_id: str, until: float = math.inf) -> Run:
        return await self.repeated(lambda: self._store.get(run_id), until)

    def events(self, run_id: str, after: int) -> AsyncGenerator[Event, None]:
        """Yield the run's events after a cursor, live, until `done`."""
        return self._following.follow(run_id, after)

    async def _page(self, run_id: str, after: int, limit: int) -> list[Event]:
        return await self.repeated(lambda: self._store.events(run_id, after=after, limit=limit))


_ENDINGS = {RunState.FAILED: RunFailed, RunState.CANCELLED: RunCancelled, RunState.DROPPED: RunDropped}
