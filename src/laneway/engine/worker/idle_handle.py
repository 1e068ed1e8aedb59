"""How a store reaches a resting worker: by its bell, or with the answer to the step that the worker has lent.

Without lending, a wake-up leads to a step, which goes back to the store and is one more transaction there. A resting
worker that executes nothing has lent its next step: who submits a run has it claimed in the transaction that it makes
anyway, and the wake-up brings the answer.

*Race*: the worker may step for another reason meanwhile. Then it makes the step that it has lent, and the store answers
as it does to any repeat. The answer that comes here, too, is of a step that was made, and nobody asks for it.
"""

from __future__ import annotations

import asyncio

from laneway.core.lifecycle.step import LentReply, StepReply
from laneway.engine.common.threads import from_thread, is_on
from laneway.engine.common.wakeup import Wakeup
from laneway.ports.workers import Standby


class IdleHandle(Standby):
    """The rests of one incarnation. On the worker's loop, but for what a `Standby` is asked."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._loop, self._wakeup = asyncio.get_running_loop(), wakeup
        self._lent: int | None = None  # the number of the step that the worker has lent
        self._answer: LentReply | None = None
        self._over = False

    @property
    def is_there(self) -> bool:
        """Tell whether the incarnation goes on, from any thread."""
        return not self._over and not self._loop.is_closed()

    def __call__(self) -> None:
        """Ring, from any thread."""
        self._wakeup.set_from_thread()

    def answer(self, lent: LentReply) -> None:
        """Hand over an answer, from any thread; on the loop's own it is heard at once."""
        if is_on(self._loop):
            self._hear(lent)
        else:
            from_thread(self._loop, lambda: self._hear(lent))

    @property
    def lends(self) -> bool:
        """Tell whether the next step is lent."""
        return self._lent is not None

    @property
    def is_answered(self) -> bool:
        """Tell whether the answer to the step that is lent has come."""
        return self._lent is not None and self._answer is not None and self._answer.call == self._lent

    def lend(self, call: int) -> None:
        """Lend the step of that number."""
        # Race: it may have been done and answered before the worker knows that it rests.
        self._lent = call

    def take_back(self) -> StepReply | None:
        """Lend nothing any more; return the answer to the step that was lent, if it has come."""
        reply = self._answer.reply if self._answer is not None and self.is_answered else None
        self._lent = self._answer = None
        return reply

    def end(self) -> None:
        """Hear that the incarnation has ended."""
        self._over = True

    def _hear(self, lent: LentReply) -> None:
        self._answer = lent
        if self.is_answered:
            self._wakeup.notify()
