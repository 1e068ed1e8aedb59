"""The client: submits runs and reads them back, repeating calls that got no answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from laneway.core.events import DONE, Event
from laneway.core.run import NewRun, Receipt, Run
from laneway.core.states import RunState
from laneway.engine.watching import Changes
from laneway.errors import LanewayError, RunCancelled, RunDropped, RunFailed, StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.store import Store

T = TypeVar("T")
REPEAT_AFTER = (1.0, 3.0, 8.0)  # seconds between the tries of a call
BATCH = 500  # runs one call to the store submits at most

Waiting = list[tuple[NewRun, "asyncio.Future[Receipt]"]]


class Client:
    """Talks to an open store on behalf of callers."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: Waiting = []
        self._sending: set[asyncio.Task[None]] = set()

    def submit(self, new: NewRun) -> asyncio.Future[Receipt]:
        """Submit a run; callers of the same tick of the loop share one call to the store.

        No timer: who comes alone does not wait for company.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Another loop than last time: what an abandoned loop left unsent was never acknowledged, and nobody waits.
            self._loop, self._waiting = loop, []
        if not self._waiting:
            loop.call_soon(self._send_waiting)
        receipt: asyncio.Future[Receipt] = loop.create_future()
        self._waiting.append((new, receipt))
        return receipt

    async def submit_all(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Submit many runs, in calls of at most 500."""
        receipts: list[Receipt] = []
        for first in range(0, len(batch), BATCH):
            part = batch[first : first + BATCH]
            receipts += await self.repeated(lambda part=part: self._store.submit(part))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        return receipts

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that may be repeated, up to four times; then raise StoreUnavailable."""
        maybe_done = False
        for wait in (*REPEAT_AFTER, None):
            try:
                return await call()
            except StoreUnavailable as error:
                error.maybe_done = maybe_done = maybe_done or error.maybe_done
                if wait is None:
                    raise
                await self._clock.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def result(self, run_id: str) -> Any:
        """Return the run's result once it has one; raise RunFailed, RunCancelled or RunDropped."""
        run = await self.ended(run_id)
        if run.state is RunState.SUCCEEDED:
            return run.result
        raise _ENDINGS[run.state](run.id, run.reason, run.error.message if run.error else None)

    async def ended(self, run_id: str) -> Run:
        """Return the run once it is in a terminal state."""
        async with Changes(self._store, self._clock) as changes:
            while True:
                run = await self.repeated(lambda: self._store.get(run_id))
                if run.ended:
                    return run
                await changes.wait()

    async def events(self, run_id: str, after: int) -> AsyncIterator[Event]:
        """Yield the run's events from a cursor on, live, until `done`."""
        async with Changes(self._store, self._clock) as changes:
            run = await self.repeated(lambda: self._store.get(run_id))
            while True:
                # Read the state first: a run that had ended by then has no events beyond the page that follows.
                ended = (await self.repeated(lambda: self._store.get(run.id))).ended
                page = await self._page(run.id, after)
                for event in page:
                    yield event
                    after = event.seq
                    if event.kind == DONE:
                        return
                if not page:
                    if ended:
                        return  # the cursor was at `done` or behind it
                    await changes.wait()

    async def _page(self, run_id: str, after: int) -> list[Event]:
        return await self.repeated(lambda: self._store.events(run_id, after=after))

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), BATCH):
            task = asyncio.get_running_loop().create_task(self._send(waiting[first : first + BATCH]))
            # The loop keeps only weak references to tasks.
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, batch: Waiting) -> None:
        try:
            receipts = await self.repeated(lambda: self._store.submit([new for new, _ in batch]))
        except (LanewayError, asyncio.CancelledError) as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error) if isinstance(error, LanewayError) else future.cancel()
            return
        for (_, future), receipt in zip(batch, receipts, strict=True):
            if not future.done():
                future.set_result(receipt)


_ENDINGS = {RunState.FAILED: RunFailed, RunState.CANCELLED: RunCancelled, RunState.DROPPED: RunDropped}
