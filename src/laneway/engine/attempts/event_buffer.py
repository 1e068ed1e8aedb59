"""The buffer of handlers' events. It decides when they go to the store: soon, and not too often.

**Soon.** An event of a quiet worker waits 5 ms, in which a short handler ends and takes the event along with its
outcome. After that, events wait until 50 ms have passed since the last flush. So readers are at most so far behind.

**Not too often.** A run with 64 buffered events is flushed without waiting. If it goes on like that, it needs twice as
many the next time, up to 256, and 64 again once it slows down: a thousand events take a few steps. Events that come
while a step is under way go into the next one.
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
from laneway.engine.attempts.running_attempt import FLUSH_AT, RunningAttempt
from laneway.engine.attempts.subscribers import Subscribers
from laneway.engine.common.threads import from_thread
from laneway.engine.common.wakeup import Wakeup
from laneway.ports.clock import Clock

FIRST_AFTER = 0.005  # seconds that the first event after a quiet time waits for others
FLUSH_AFTER = 0.05  # seconds between two flushes, unless one run alone has many events
FLUSH_AT_MOST = 4 * FLUSH_AT


class EventBuffer:
    """Events of the attempts that are `running`, on their way to the store. Wakes the worker, and tells subscribers."""

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

    def add(self, attempt: RunningAttempt, draft: Draft, *, own: bool = False) -> None:
        """Add an event of an attempt: the handler's `own`, or the engine's. Any thread may call it.

        A task can say that handlers' events are not stored. Subscribers get them all the same.
        """
        self._publish(attempt, draft)
        if own and not attempt.task.keeps_events:
            return
        attempt.add_draft(draft)
        if threading.get_ident() == self._thread:
            self._add(attempt)
        else:
            from_thread(self._loop, partial(self._add, attempt))

    def add_now(self, attempt: RunningAttempt, draft: Draft) -> None:
        """Add an event of the engine that must not wait."""
        self._publish(attempt, draft)
        attempt.add_draft(draft)
        self._unsaved.add(attempt)
        self._wakeup.set()

    def take(self) -> list[Emitted]:
        """Return the events of runs that go on, and remove them."""
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
        """Remove all events: they will not be stored."""
        self._unsaved.clear()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _publish(self, attempt: RunningAttempt, draft: Draft) -> None:
        if self._subscribers.listening and not attempt.over:
            run = attempt.run
            self._subscribers.publish(run.id, *draft, run.attempt, instant(self._clock.now()))

    def _taken(self, attempt: RunningAttempt) -> Emitted:
        if len(attempt.drafts) < FLUSH_AT:
            attempt.flush_at = FLUSH_AT  # it has slowed down
        return Emitted(attempt.run.number, attempt.run.fence, attempt.take_drafts())

    def _add(self, attempt: RunningAttempt) -> None:
        self._unsaved.add(attempt)
        if len(attempt.drafts) >= attempt.flush_at:
            attempt.flush_at = min(2 * attempt.flush_at, FLUSH_AT_MOST)
            self._wakeup.set()
        elif self._timer is None or self._timer.done():
            self._timer = self._loop.create_task(self._wake_soon())

    async def _wake_soon(self) -> None:
        await self._clock.sleep(FIRST_AFTER)
        # A step since then took all events that waited.
        while (left := self._taken_at + FLUSH_AFTER - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        if any(attempt.drafts for attempt in self._unsaved):
            self._wakeup.set()


class AttemptSink:
    """Where the context of an attempt puts its handler's events."""

    __slots__ = ("_attempt", "_buffer")

    def __init__(self, buffer: EventBuffer, attempt: RunningAttempt) -> None:
        self._buffer, self._attempt = buffer, attempt

    def append(self, draft: Draft) -> None:
        """Add an event. Any thread may call it."""
        self._buffer.add(self._attempt, draft, own=True)
