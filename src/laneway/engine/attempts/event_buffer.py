"""When what handlers say goes to the store: soon, and not too often.

**Soon.** An event of a worker that has been quiet waits 5 ms, in which a short handler ends and takes it along with its
outcome. After that, events wait until 50 ms have passed since the last were taken, so nobody reads what is older.

**Not too often.** A run that has said 64 things need not wait for the clock. If it goes on like that it has to say
twice as many the next time, up to 256, and 64 again once it has come to rest: a thousand events cost a few steps.
While a step is under way nothing is added to it; what is said meanwhile goes into the next one.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Mapping
from functools import partial

from laneway.core.common.instants import instant
from laneway.core.lifecycle.step import Emitted
from laneway.core.records.events import Draft
from laneway.engine.attempts.running_attempt import ENOUGH, RunningAttempt
from laneway.engine.attempts.subscribers import Subscribers
from laneway.engine.common.threads import from_thread
from laneway.engine.common.wakeup import Wakeup
from laneway.ports.clock import Clock

FIRST_AFTER = 0.005  # seconds the first event after a quiet time waits for company
FLUSH_AFTER = 0.05  # seconds between two flushes, unless one run alone has said enough
MOST = 4 * ENOUGH


class EventBuffer:
    """What the attempts that are `running` say and the store has not heard; rings the bell, and tells subscribers."""

    def __init__(
        self,
        running: Mapping[int, RunningAttempt],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        wakeup: Wakeup,
        subscribers: Subscribers,
    ) -> None:
        self._running, self._clock, self._loop, self._wakeup = running, clock, loop, wakeup
        self._subscribers = subscribers
        self._thread = threading.get_ident()
        self._unsaved: set[RunningAttempt] = set()
        self._timer: asyncio.Task[None] | None = None
        self._taken_at = -math.inf

    def say(self, attempt: RunningAttempt, draft: Draft, *, own: bool = False) -> None:
        """Say something of an attempt: its handler's `own` words, or the engine's. From any thread.

        What handlers say is not stored if their task wants that; subscribers hear it all the same.
        """
        self._publish(attempt, draft)
        if own and not attempt.task.keeps_events:
            return
        attempt.say(draft)
        if threading.get_ident() == self._thread:
            self._add(attempt)
        else:
            from_thread(self._loop, partial(self._add, attempt))

    def add_now(self, attempt: RunningAttempt, draft: Draft) -> None:
        """Say something of the engine's that shall not wait."""
        self._publish(attempt, draft)
        attempt.say(draft)
        self._unsaved.add(attempt)
        self._wakeup.set()

    def take(self) -> list[Emitted]:
        """Return what was said by runs that go on, and forget it."""
        if not self._unsaved:
            return []
        unsaved, self._unsaved = self._unsaved, set()
        self._taken_at = self._clock.monotonic()
        return [
            self._taken(attempt)
            for attempt in unsaved
            if attempt.drafts and self._running.get(attempt.run.number) is attempt
        ]

    def clear(self) -> None:
        """Forget everything: nobody will be told."""
        self._unsaved.clear()

    def close(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _publish(self, attempt: RunningAttempt, draft: Draft) -> None:
        if self._subscribers.listening and not attempt.over:
            run = attempt.run
            self._subscribers.publish(run.id, *draft, run.attempt, instant(self._clock.now()))

    def _taken(self, attempt: RunningAttempt) -> Emitted:
        if len(attempt.drafts) < ENOUGH:
            attempt.enough = ENOUGH  # it has come to rest
        return Emitted(attempt.run.number, attempt.run.fence, attempt.take_drafts())

    def _add(self, attempt: RunningAttempt) -> None:
        self._unsaved.add(attempt)
        if len(attempt.drafts) >= attempt.enough:
            attempt.enough = min(2 * attempt.enough, MOST)
            self._wakeup.set()
        elif self._timer is None or self._timer.done():
            self._timer = self._loop.create_task(self._wake_soon())

    async def _wake_soon(self) -> None:
        await self._clock.sleep(FIRST_AFTER)
        # What was taken meanwhile was taken with all that had waited then.
        while (left := self._taken_at + FLUSH_AFTER - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        if any(attempt.drafts for attempt in self._unsaved):
            self._wakeup.set()


class AttemptSink:
    """Where the context of an attempt puts what its handler says."""

    __slots__ = ("_attempt", "_buffer")

    def __init__(self, buffer: EventBuffer, attempt: RunningAttempt) -> None:
        self._buffer, self._attempt = buffer, attempt

    def append(self, draft: Draft) -> None:
        """Say it. From any thread."""
        self._buffer.say(self._attempt, draft, own=True)
