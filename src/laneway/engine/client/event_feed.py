"""Follow runs: one feed reads a run's log, however many followers it has.

**The feed.** All followers of a run on one event loop share its feed. It waits until the store reports a change, reads
the new events once, keeps the newest in a window, and wakes its followers. It lives from its first follower to its
last.

**A follower** has a position, the number of the last event that it has seen. It reads events before the window from the
store, page after page; the window has all later ones. Reading by itself, it may get ahead of the feed for a moment;
then the feed's next page has nothing new for it. So each follower gets every event once, in order, whatever the others
do.

**The end.** `done` is the last event of a log, written in the same step that ends the run. A follower ends when it has
passed `done` on, or at once if its position is that of `done`. If the feed cannot read the log, because the store is
out of reach or the run was deleted, every follower gets the error.

**A log that lost its end.** A failover may bring up a server that lacks the last moments; it writes new events under
numbers that were used before. A feed without news checks now and then whether the last event it knows is still there.
If not, its followers read the log from the start, skip the numbers that they have seen, and go on.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import Context
from operator import attrgetter

from laneway.core.records.events import DONE, Event
from laneway.core.records.run import Run
from laneway.engine.client.store_changes import StoreChanges
from laneway.ports.clock import Clock
from laneway.ports.store import Store

PAGE = 1000  # events that one call reads at most
WINDOW = 1000  # events a feed keeps for followers that are a little behind
LOOK_BACK_EVERY = 5.0  # seconds between two checks of a feed that its last event is still there

Read = Callable[[str, int, int], Awaitable[list[Event]]]  # run, after, limit


class EventFeeds:
    """The feeds of a store. `get` and `read` call it, with the client's retries."""

    def __init__(self, store: Store, clock: Clock, get: Callable[[str], Awaitable[Run]], read: Read) -> None:
        self._store, self._clock, self._get, self._read = store, clock, get, read
        self._feeds: dict[tuple[asyncio.AbstractEventLoop, str], EventFeed] = {}

    async def follow(self, run_id: str, after: int) -> AsyncGenerator[Event, None]:
        """Yield the run's events with numbers greater than `after`, live, up to `done`. Raises UnknownRun."""
        seen = after
        # Closed at once: a follower that goes away must not leave its feed to the garbage collector.
        async with aclosing(self._pages(run_id, after)) as pages:
            async for page in pages:
                for event in page:
                    if event.seq > seen:
                        yield event
                        seen = event.seq
                    if event.kind == DONE:
                        return

    async def _pages(self, run_id: str, after: int) -> AsyncGenerator[list[Event], None]:
        position = after
        while True:
            run = await self._get(run_id)
            while page := await self._read(run.id, position, PAGE):
                yield page
                position = page[-1].seq
                if len(page) < PAGE:
                    break  # these were all there are: many followers that come together read once each
            if run.ended:
                return  # it had ended before the page was read, so nothing follows
            checked = await self._checked(run.id, after) if position == after > 0 else position
            if checked is None:
                return
            position = checked
            with self._shared_feed(run.id, position) as feed:
                while page := await feed.after(position):
                    yield page
                    position = page[-1].seq
            position = 0  # the log has lost its end

    async def _checked(self, run_id: str, cursor: int) -> int | None:
        """Return the position for a cursor with no events after it; None if the cursor is at `done`.

        A cursor ahead of the log cannot be shared or waited at. Then the log is read from its start, and events up to
        the cursor are skipped.
        """
        found = await self._read(run_id, cursor - 1, 1)
        if not found:
            return 0
        return None if found[0].kind == DONE else cursor

    @contextmanager
    def _shared_feed(self, run_id: str, position: int) -> Iterator[EventFeed]:
        key = asyncio.get_running_loop(), run_id
        feed = self._feeds.get(key)
        if feed is None or feed.over:
            feed = self._feeds[key] = EventFeed(self._store, self._clock, self._read, run_id, position)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                feed.close()
                if self._feeds.get(key) is feed:
                    del self._feeds[key]


class EventFeed:
    """Reads the log of one run from a position on, for all its followers on this loop."""

    def __init__(self, store: Store, clock: Clock, read: Read, run_id: str, position: int) -> None:
        self._store, self._clock, self._read, self._run_id = store, clock, read, run_id
        self._start = self._head = position  # the window has what is between them
        self._window: list[Event] = []
        self._news = asyncio.Event()
        self._error: Exception | None = None
        self._cut = False  # the log has lost its end
        self._looked_at = clock.monotonic()
        self.followers = 0
        # The feed may outlive its first follower, so it must not keep that one's context variables.
        self._task = asyncio.get_running_loop().create_task(self._feed(), context=Context(), name="laneway-feed")

    @property
    def over(self) -> bool:
        """Whether it reads no more: its run is done, or cannot be read."""
        return self._task.done()

    async def after(self, position: int) -> list[Event]:
        """Return events after a position, once there are some; none if the log has lost its end.

        Raises the error that keeps them from being read.
        """
        while position >= self._head:
            if self._error is not None:
                # Raised twice, one object would collect two tracebacks.
                raise self._error.with_traceback(None)
            if self._cut:
                return []
            await self._news.wait()
        if position < self._start:
            return await self._read(self._run_id, position, PAGE)
        return self._window[bisect_right(self._window, position, key=attrgetter("seq")) :]

    def close(self) -> None:
        """Stop reading: nobody follows."""
        self._task.cancel()

    async def _feed(self) -> None:
        try:
            async with StoreChanges(self._store, self._clock) as changes:
                while not self._window or self._window[-1].kind != DONE:
                    page = await self._read(self._run_id, self._head, PAGE)
                    if page:
                        self._put(page)
                    elif await self._is_cut():
                        self._cut = True
                        return self._wake_followers()
                    if len(page) < PAGE:
                        await changes.wait()
        except Exception as error:  # noqa: BLE001  # whatever it is, the followers must get it
            self._error = error
            self._wake_followers()

    async def _is_cut(self) -> bool:
        """Check now and then whether the last known event is gone from the log."""
        now = self._clock.monotonic()
        if not self._head or now - self._looked_at < LOOK_BACK_EVERY:
            return False
        self._looked_at = now
        return not await self._read(self._run_id, self._head - 1, 1)

    def _put(self, page: list[Event]) -> None:
        self._window += page
        self._head = page[-1].seq
        if len(self._window) > 2 * WINDOW:
            self._start = self._window[-WINDOW - 1].seq
            del self._window[:-WINDOW]
        self._wake_followers()

    def _wake_followers(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
