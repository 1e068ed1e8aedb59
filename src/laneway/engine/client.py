"""The client: submits runs and reads them back, repeating calls that got no answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from laneway.core.events import Event
from laneway.core.run import NewRun, Receipt, Run, Why
from laneway.core.states import RunState
from laneway.engine.following import Following
from laneway.engine.watching import Changes
from laneway.errors import RunCancelled, RunDropped, RunFailed, StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.store import Store

T = TypeVar("T")
REPEAT_AFTER = (1.0, 3.0, 8.0)  # seconds between the tries of a call
BATCH = 1000  # runs one call to the store submits at most
LANE_WAIT = Why.LANE_WAIT  # looking up an enum's member costs more than comparing it

Waiting = list[tuple[NewRun, "asyncio.Future[Receipt]"]]


class Client:
    """Talks to an open store on behalf of callers."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        # What callers of a loop have asked for since its last tick.
        self._gathering: tuple[asyncio.AbstractEventLoop | None, Waiting] = (None, [])
        self._sending: set[asyncio.Task[None]] = set()
        self._following = Following(store, clock, self._get, self._page)

    def submit(self, new: NewRun) -> asyncio.Future[Receipt]:
        """Submit a run; callers of the same tick of the loop share one call to the store.

        No timer: who comes alone does not wait for company.
        """
        loop = asyncio.get_running_loop()
        its, waiting = self._gathering
        if its is not loop:
            # Race: loops of several threads take this place from each other, and each sends what it has gathered. What
            # an abandoned loop left unsent was never acknowledged, and nobody waits for it.
            waiting = []
            self._gathering = loop, waiting
            loop.call_soon(self._send_waiting, waiting)
        receipt: asyncio.Future[Receipt] = loop.create_future()
        waiting.append((new, receipt))
        return receipt

    async def submit_and_wait(self, batch: Sequence[NewRun], seconds: float) -> list[Receipt]:
        """Submit runs, again and again while their lane is full and lets its callers wait, for so many seconds."""
        receipts = await self.submit_all(batch)
        waiting = [index for index, receipt in enumerate(receipts) if receipt.reason == LANE_WAIT]
        if not waiting:
            return receipts
        deadline = self._clock.monotonic() + seconds
        async with Changes(self._store, self._clock) as changes:
            while waiting:
                left = deadline - self._clock.monotonic()
                if left > 0:
                    await changes.wait(left)
                again = [msgspec.structs.replace(batch[index], patient=left > 0) for index in waiting]
                # Those who wait alone come back together: a change wakes all of them.
                answers = [await self.submit(again[0])] if len(again) == 1 else await self.submit_all(again)
                for index, receipt in zip(waiting, answers, strict=True):
                    receipts[index] = receipt
                waiting = [index for index in waiting if receipts[index].reason == LANE_WAIT]
        return receipts

    async def submit_all(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Submit many runs, in calls of at most a thousand."""
        receipts: list[Receipt] = []
        for first in range(0, len(batch), BATCH):
            try:
                receipts += await self.repeated(partial(self._store.submit, batch[first : first + BATCH]))
            except StoreUnavailable as error:
                error.maybe_done = error.maybe_done or bool(receipts)
                raise
        return receipts

    async def repeated(self, call: Callable[[], Awaitable[T]], until: float = math.inf) -> T:
        """Make a call that may be repeated, up to four times, or `until` a moment; then raise StoreUnavailable."""
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
        """Return the run's result once it has one; raise RunFailed, RunCancelled, RunDropped or TimeoutError."""
        run = await self.ended(run_id, seconds)
        if run.state is RunState.SUCCEEDED:
            return run.result
        raise _ENDINGS[run.state](run.id, run.reason, run.error.message if run.error else None)

    async def ended(self, run_id: str, seconds: float | None) -> Run:
        """Return the run once it is in a terminal state; raise TimeoutError if it is not within so many seconds."""
        deadline = math.inf if seconds is None else self._clock.monotonic() + seconds
        async with Changes(self._store, self._clock) as changes:
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
        """Yield the run's events from a cursor on, live, until `done`."""
        return self._following.follow(run_id, after)

    async def _page(self, run_id: str, after: int, limit: int) -> list[Event]:
        return await self.repeated(lambda: self._store.events(run_id, after=after, limit=limit))

    def _send_waiting(self, waiting: Waiting) -> None:
        if self._gathering[1] is waiting:
            self._gathering = None, []
        for first in range(0, len(waiting), BATCH):
            task = asyncio.get_running_loop().create_task(self._send(waiting[first : first + BATCH]))
            # The loop keeps only weak references to tasks.
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, batch: Waiting) -> None:
        # Who has stopped waiting by now was never told of a run, and shall leave none behind.
        batch = [(new, future) for new, future in batch if not future.cancelled()]
        if not batch:
            return
        try:
            receipts = await self.repeated(lambda: self._store.submit([new for new, _ in batch]))
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the callers must hear of it
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), receipt in zip(batch, receipts, strict=True):
            if not future.done():
                future.set_result(receipt)


_ENDINGS = {RunState.FAILED: RunFailed, RunState.CANCELLED: RunCancelled, RunState.DROPPED: RunDropped}
