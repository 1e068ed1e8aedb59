"""What handlers save before they go on: checkpoints, memos, and the arguments prepared before the first start."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future

from laneway.core.lifecycle.step import Saved
from laneway.core.records.memos import Memo
from laneway.core.records.run import Request
from laneway.engine.attempts.running_attempt import RunningAttempt, Stop
from laneway.engine.common.threads import from_thread
from laneway.engine.common.wakeup import Wakeup
from laneway.engine.handlers.replay import Unwound
from laneway.errors import LeaseLost

Save = tuple[RunningAttempt, Saved, "Future[None]"]


class SaveQueue:
    """What waits to be saved, of the attempts that are `running`. It wakes the worker when it gets something."""

    def __init__(self, running: Mapping[int, RunningAttempt], loop: asyncio.AbstractEventLoop, wakeup: Wakeup) -> None:
        self._running, self._loop, self._wakeup = running, loop, wakeup
        self._waiting: list[Save] = []
        self._closed = False

    def add(
        self, attempt: RunningAttempt, state: str | None = None, prepared: str | None = None, memo: Memo | None = None
    ) -> Future[None]:
        """Save something; the future ends when it is stored. The loop's thread or a handler's may call it."""
        future = Future[None]()
        future.set_running_or_notify_cancel()  # a caller that stops waiting does not undo it

        def add() -> None:
            if self._closed or self._running.get(attempt.run.number) is not attempt:
                # Now, because the worker that would report it may be gone; its threads go on without it.
                future.set_exception(_lost(attempt))
                return
            saved = Saved(attempt.run.number, attempt.run.fence, state, prepared, memo)
            self._waiting.append((attempt, saved, future))
            self._wakeup.set()

        if not from_thread(self._loop, add):
            future.set_exception(_lost(attempt))
        return future

    def take(self) -> list[Save]:
        """Return what waits, and remove it."""
        saves, self._waiting = self._waiting, []
        return saves

    def stored(self, saves: list[Save]) -> None:
        """Record that the store has these. Their handlers go on, or unwind if they must pause or stop."""
        for attempt, saved, future in saves:
            if self._running.get(attempt.run.number) is not attempt:
                future.set_exception(_lost(attempt))
                continue
            if saved.state is not None or saved.memo is not None:
                attempt.run.crashes = 0  # as in the store: progress resets the crashes in a row
            if attempt.stopped is None and attempt.request is not Request.PAUSE:
                future.set_result(None)
            else:
                attempt.stopped = attempt.stopped or Stop.PAUSED
                future.set_exception(Unwound())

    @staticmethod
    def refuse(saves: list[Save]) -> None:
        """Fail these: it will not be known whether they were saved."""
        for attempt, _, future in saves:
            future.set_exception(_lost(attempt))

    def close(self) -> None:
        """Save nothing any more."""
        self._closed = True
        self.refuse(self.take())


def _lost(attempt: RunningAttempt) -> LeaseLost:
    return LeaseLost(f"run {attempt.run.id} is not this worker's any more; nothing more of it is saved")
