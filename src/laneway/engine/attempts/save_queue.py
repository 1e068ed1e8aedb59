"""What handlers want saved before they go on: checkpoints, memos, and what was prepared before the first start."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future

from laneway.core.lifecycle.step import Saved
from laneway.core.records.memos import Memo
from laneway.core.records.run import Request
from laneway.engine.attempts.running_attempt import Execution, Stop
from laneway.engine.common.threads import from_thread
from laneway.engine.common.wakeup import Bell
from laneway.engine.handlers.replay import Unwound
from laneway.errors import LeaseLost

Save = tuple[Execution, Saved, "Future[None]"]


class Saves:
    """What waits to be saved, of the attempts that are `running`. It rings the worker's bell when something does."""

    def __init__(self, running: Mapping[int, Execution], loop: asyncio.AbstractEventLoop, bell: Bell) -> None:
        self._running, self._loop, self._bell = running, loop, bell
        self._waiting: list[Save] = []
        self._closed = False

    def add(
        self, execution: Execution, state: str | None = None, prepared: str | None = None, memo: Memo | None = None
    ) -> Future[None]:
        """Have something saved; the future ends when it is stored. From the loop's thread or a handler's."""
        future = Future[None]()
        future.set_running_or_notify_cancel()  # whoever stops waiting for it does not undo it

        def add() -> None:
            if self._closed or self._running.get(execution.run.number) is not execution:
                # Now, because the worker that would tell may be gone; its threads go on without it.
                future.set_exception(_lost(execution))
                return
            saved = Saved(execution.run.number, execution.run.fence, state, prepared, memo)
            self._waiting.append((execution, saved, future))
            self._bell.ring()

        if not from_thread(self._loop, add):
            future.set_exception(_lost(execution))
        return future

    def take(self) -> list[Save]:
        """Return what waits, and forget it."""
        saves, self._waiting = self._waiting, []
        return saves

    def told(self, saves: list[Save]) -> None:
        """Hear that the store was told these: their handlers go on, or unwind if they shall pause or stop."""
        for execution, saved, future in saves:
            if self._running.get(execution.run.number) is not execution:
                future.set_exception(_lost(execution))
                continue
            if saved.state is not None or saved.memo is not None:
                execution.run.crashes = 0  # as the store has it now: what it has got done, no crash can undo
            if execution.stopped is None and execution.request is not Request.PAUSE:
                future.set_result(None)
            else:
                execution.stopped = execution.stopped or Stop.PAUSED
                future.set_exception(Unwound())

    @staticmethod
    def refuse(saves: list[Save]) -> None:
        """Hear that nobody will know whether these were saved."""
        for execution, _, future in saves:
            future.set_exception(_lost(execution))

    def close(self) -> None:
        """Save nothing any more."""
        self._closed = True
        self.refuse(self.take())


def _lost(execution: Execution) -> LeaseLost:
    return LeaseLost(f"run {execution.run.id} is not this worker's any more; nothing more of it is saved")
