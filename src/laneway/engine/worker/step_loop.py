"""The steps of a worker's incarnation, one at a time: what is said in each, and which of them are lent.

A worker that executes nothing lends its next step (`idle_handle`): a store that would wake it may have done that step
when the wake-up comes. So the worker makes it next, whatever it is woken for, and says what it has to say in the one
after.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.step import Result, Step, StepReply, has_lent
from laneway.core.records.run import Claimed
from laneway.engine.common.wakeup import Wakeup
from laneway.engine.worker.attempt_table import AttemptTable
from laneway.engine.worker.idle_handle import IdleHandle
from laneway.ports.clock import Clock


class StepLoop:
    """Makes an incarnation's steps. `ask` returns the store's answer, whatever it takes.

    `heard` hears each, with the results that were said and the moment from which its times count.
    `may_lend`: a worker that leaves as soon as nothing is due lends nothing.
    """

    def __init__(
        self,
        incarnation: str,
        idle_handle: IdleHandle,
        attempts: AttemptTable,
        wakeup: Wakeup,
        clock: Clock,
        ask: Callable[[Step], Awaitable[StepReply]],
        heard: Callable[[StepReply, list[Result], float], None],
        *,
        may_lend: bool,
    ) -> None:
        self._incarnation, self._idle_handle, self._attempts = incarnation, idle_handle, attempts
        self._wakeup, self._clock, self._answer_to, self._heard = wakeup, clock, ask, heard
        self._may_lend = may_lend
        self._call = self._last = 0  # of the last step, and of the last in which anything was said or given
        self._answered_at = 0  # by the store's clock
        self.asked_at = 0.0
        """When the last step was made, by this process's clock: the times in its answer count from then."""

    async def make(self, room: int, *, short: bool) -> StepReply:
        """Make the next step of a worker that has room for so many runs, or is `short` of memory."""
        if self._idle_handle.lends:
            return await self._make_lent(room, short=short)
        self._wakeup.clear()
        attempts = self._attempts
        results, emitted, saves = attempts.take_results(), attempts.event_buffer.take(), attempts.saves.take()
        self._call += 1
        more = ([saved for _, saved, _ in saves], attempts.take_overdue())
        step = Step(
            self._incarnation, self._call, results, emitted, room, room > 0, *more, short, self._lends(room), self._last
        )
        self.asked_at = self._clock.monotonic()
        try:
            reply = await self._ask(step)
        except BaseException:
            attempts.saves.refuse(saves)  # or a thread would wait for its checkpoint for ever
            raise
        attempts.settled(results)
        self._hear(reply, results, said=bool(results or emitted or saves or step.overdue))
        attempts.saves.told(saves)
        return reply

    async def still_held(self) -> list[Claimed]:
        """Make the last step again, so that nothing is done; return what of its claims is this worker's still."""
        return (await self._answer_to(Step(self._incarnation, self._call, last=self._last))).claimed

    async def _make_lent(self, room: int, *, short: bool) -> StepReply:
        """Make the step that was lent, if the store has not done it and said so. There is nothing in it."""
        reply, at = self._idle_handle.take_back(), self._clock.monotonic()
        self._call += 1
        if reply is None:
            self._wakeup.clear()
            lends = self._lends(room)
            reply = await self._ask(
                Step(self._incarnation, self._call, room=room, park=room > 0, short=short, lends=lends, last=self._last)
            )
        # It may have been done long before: between two answers as much time went by here as there, unless a clock
        # was set meanwhile.
        passed = (reply.now - self._answered_at) / SECOND
        self.asked_at = min(self.asked_at + max(0.0, passed), at)
        self._hear(reply, [], said=False)
        return reply

    def _lends(self, room: int) -> bool:
        """Tell whether it lends the step after this one: it would have nothing to say in that.

        Not while it executes something: a handler that holds up the loop would hold up what is claimed behind its back,
        and another worker might be free.
        """
        return room > 0 and not (self._attempts or self._attempts.results) and self._may_lend

    async def _ask(self, step: Step) -> StepReply:
        reply = await self._answer_to(step)
        if has_lent(step, reply):
            self._idle_handle.lend(step.call + 1)
        return reply

    def _hear(self, reply: StepReply, results: list[Result], *, said: bool) -> None:
        self._answered_at = reply.now
        if reply.claimed or (said and reply.moved is None):  # a store that has moved may take nothing down
            self._last = self._call
        self._heard(reply, results, self.asked_at)
