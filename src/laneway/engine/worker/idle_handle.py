"""How a store reaches an idle worker: it wakes the worker, or pushes the reply to the step that the worker offered.

A wake-up alone leads to a step, one more transaction in the store. An idle worker that executes nothing offers its next
step: then a submission may claim the run for it in its own transaction, and the wake-up brings the reply (claim-ahead).

*Race*: the worker may step for another reason meanwhile. Then it makes the step that it offered, and the store answers
as to any repeat. The pushed reply is a duplicate then, and is dropped.
"""

from __future__ import annotations

import asyncio

from laneway.core.lifecycle.step import PushedReply, StepReply
from laneway.engine.common.threads import from_thread, is_on
from laneway.engine.common.wakeup import Wakeup
from laneway.ports.workers import WakeHandle


class IdleHandle(WakeHandle):
    """Wakes one incarnation. Any thread may use the methods of `WakeHandle`, the others belong to the worker's loop."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._loop, self._wakeup = asyncio.get_running_loop(), wakeup
        self._offered: int | None = None  # the call number of the offered step
        self._pushed: PushedReply | None = None
        self._over = False

    @property
    def is_alive(self) -> bool:
        """Whether the incarnation goes on."""
        return not self._over and not self._loop.is_closed()

    def __call__(self) -> None:
        """Wake the worker."""
        self._wakeup.set_from_thread()

    def push(self, reply: PushedReply) -> None:
        """Take a pushed reply and wake the worker; on the worker's own loop, at once."""
        if is_on(self._loop):
            self._take(reply)
        else:
            from_thread(self._loop, lambda: self._take(reply))

    @property
    def is_offered(self) -> bool:
        """Whether the worker has offered its next step."""
        return self._offered is not None

    @property
    def has_reply(self) -> bool:
        """Whether the reply to the offered step was pushed."""
        return self._pushed is not None and self._pushed.call == self._offered

    def offer(self, call: int) -> None:
        """Offer the step of that call number."""
        # Race: the store may have made it, and pushed the reply, before the worker knows that it is idle.
        self._offered = call

    def take_reply(self) -> StepReply | None:
        """Withdraw the offer; return the reply if it was pushed."""
        reply = self._pushed.reply if self._pushed is not None and self.has_reply else None
        self._offered = self._pushed = None
        return reply

    def end(self) -> None:
        """Mark the incarnation as ended."""
        self._over = True

    def _take(self, reply: PushedReply) -> None:
        self._pushed = reply
        if self.has_reply:
            self._wakeup.notify()
