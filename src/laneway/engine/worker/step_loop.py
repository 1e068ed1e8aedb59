"""The steps of one incarnation, one at a time, with what each sends.

An idle worker that executes nothing offers its next step (`idle_handle`): a store that would wake it may make that step
instead. So when the worker wakes up, for whatever reason, it makes the offered step first, which is empty, and sends
what it has in the one after.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.step import Emitted, Result, Saved, Step, StepReply, offers_next_step
from laneway.core.records.run import Claimed
from laneway.engine.common.wakeup import Wakeup
from laneway.engine.worker.attempt_table import AttemptTable
from laneway.engine.worker.idle_handle import IdleHandle
from laneway.ports.clock import Clock


class StepLoop:
    """Makes an incarnation's steps. `send` returns the store's reply, however long that takes.

    `handle` is called with each reply, the results that were sent, and the time from which the reply's delays count. A
    worker that leaves as soon as nothing is due never offers a step: `may_offer` is False.
    """

    def __init__(
        self,
        incarnation: str,
        idle_handle: IdleHandle,
        attempts: AttemptTable,
        wakeup: Wakeup,
        clock: Clock,
        send: Callable[[Step], Awaitable[StepReply]],
        handle: Callable[[StepReply, list[Result], float], None],
        *,
        may_offer: bool,
    ) -> None:
        self._incarnation, self._idle_handle, self._attempts = incarnation, idle_handle, attempts
        self._wakeup, self._clock, self._send, self._handle = wakeup, clock, send, handle
        self._may_offer = may_offer
        self._call = 0  # the number of the last step
        self._last = 0  # the number of the last step that sent or brought anything
        self._replied_at = 0  # by the store's clock
        self.made_at = 0.0
        """When the last step was made, by this process's clock. The delays in its reply count from then."""

    async def make(self, room: int, *, short: bool) -> StepReply:
        """Make the next step of a worker that has room for so many runs, or is `short` of memory."""
        if self._idle_handle.is_offered:
            return await self._make_offered(room, short=short)
        self._wakeup.clear()
        attempts = self._attempts
        results, emitted, saves = attempts.take_results(), attempts.event_buffer.take(), attempts.saves.take()
        saved, overdue = [saved for _, saved, _ in saves], attempts.take_overdue()
        step = self._step(room, results, emitted, saved, overdue, short=short)
        self.made_at = self._clock.monotonic()
        try:
            reply = await self._send_step(step)
        except BaseException:
            attempts.saves.refuse(saves)  # or a thread would wait for its checkpoint for ever
            raise
        attempts.settled(results)
        self._take(reply, results, sent=bool(results or emitted or saves or overdue))
        attempts.saves.stored(saves)
        return reply

    async def still_held(self) -> list[Claimed]:
        """Repeat the last step, which changes nothing; return those of its claims that this worker still holds."""
        return (await self._send(Step(self._incarnation, self._call, last=self._last))).claimed

    async def _make_offered(self, room: int, *, short: bool) -> StepReply:
        """Make the offered step, which is empty, unless the store has made it and pushed the reply."""
        reply, at = self._idle_handle.take_reply(), self._clock.monotonic()
        if reply is None:
            self._wakeup.clear()
            reply = await self._send_step(self._step(room, short=short))
        else:
            self._call += 1
        # The store may have made it long before. Between two replies as much time passed here as there, unless a
        # clock was set meanwhile.
        passed = (reply.now - self._replied_at) / SECOND
        self.made_at = min(self.made_at + max(0.0, passed), at)
        self._take(reply, [], sent=False)
        return reply

    def _step(
        self,
        room: int,
        results: list[Result] | None = None,
        emitted: list[Emitted] | None = None,
        saved: list[Saved] | None = None,
        overdue: list[tuple[int, int]] | None = None,
        *,
        short: bool,
    ) -> Step:
        self._call += 1
        # The step after this one is offered if it would send nothing. Not while a handler is executed: one that blocks
        # the loop would block claimed runs that another worker could execute.
        offers = room > 0 and not (self._attempts or self._attempts.results) and self._may_offer
        return Step(
            self._incarnation,
            self._call,
            results or [],
            emitted or [],
            room,
            park=room > 0,
            saved=saved or [],
            overdue=overdue or [],
            short=short,
            offers_next=offers,
            last=self._last,
        )

    async def _send_step(self, step: Step) -> StepReply:
        reply = await self._send(step)
        if offers_next_step(step, reply):
            self._idle_handle.offer(step.call + 1)
        return reply

    def _take(self, reply: StepReply, results: list[Result], *, sent: bool) -> None:
        self._replied_at = reply.now
        if reply.claimed or (sent and reply.moved is None):  # a store that has moved may record nothing
            self._last = self._call
        self._handle(reply, results, self.made_at)
