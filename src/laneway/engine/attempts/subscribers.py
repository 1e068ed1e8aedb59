"""Subscribers: functions of this process that receive the events of its worker's runs, as they happen.

**Events.** A handler's events come at once. The engine's come when the store has them: `started`, and the events of the
settlement. They are in order for each run. They have no number before they are stored, so `seq` is 0.

**Isolation.** Each subscriber has a queue and a task of its own on the worker's loop; plain functions are called in a
thread. So a subscriber that is slow, or raises, disturbs neither runs nor other subscribers. The first error of each
kind is logged, and the subscriber goes on. A full queue drops its oldest events, and the log says how many.

**Lifetime.** Subscribers receive events while a worker works. When it ends, they get some seconds for what is still in
their queues. Without subscribers, all of this costs a worker one look at a flag.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import copy_context
from datetime import datetime
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from laneway.core.records import codec
from laneway.core.records.events import Event
from laneway.engine.common.threads import from_thread, on_thread
from laneway.engine.common.wakeup import Wakeup
from laneway.errors import BadSetting

log = logging.getLogger("laneway.subscribers")

ROOM = 10_000  # events that a subscriber's queue holds
BATCH = 256  # events that one call of a thread delivers
LAST_WORDS = 5.0  # seconds that a worker which has ended waits for its subscribers

Later = asyncio.Future[list[Event]]  # events that are still being read
Item = Event | Later


class Subscribers:
    """All subscribers, and their tasks while a worker works."""

    def __init__(self) -> None:
        self._all: tuple[Subscriber, ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[Subscriber, asyncio.Task[None]] = {}
        self._lock = threading.Lock()
        self.listening = False  # whether there are subscribers and a worker

    def add(self, call: Callable[[Event], Any], run: str | None, kinds: Iterable[str] | None) -> Callable[[], None]:
        """Add a subscriber to all events, or those of a run or of some kinds; return a function that removes it."""
        if not callable(call):
            raise BadSetting(f"{call!r} cannot be called; subscribe a function that takes an event")
        wanted = None if kinds is None else [*kinds]
        if isinstance(kinds, str) or not all(isinstance(kind, str) for kind in wanted or ()):
            raise BadSetting(f"kinds is {kinds!r}; it must be a list of event kinds")
        subscriber = Subscriber(call, run, None if wanted is None else frozenset(wanted))
        with self._lock:
            self._all = (*self._all, subscriber)
            self._update_listening()
            if self._loop is not None:
                from_thread(self._loop, lambda: self._start(subscriber))
        return lambda: self._remove(subscriber)

    def begin(self) -> object:
        """Begin to deliver on this loop; return the value for `end`.

        If an older worker of this scheduler still lingers, the newest one delivers.
        """
        with self._lock:
            self._loop, self._tasks = asyncio.get_running_loop(), {}
            self._update_listening()
        for subscriber in self._all:
            self._start(subscriber)
        return self._tasks

    async def end(self, life: object) -> None:
        """Wait, a few seconds at most, until the subscribers have received everything; then stop delivering."""
        if self._tasks is not life:
            return
        hearing = [asyncio.ensure_future(subscriber.drained()) for subscriber in self._tasks]
        if hearing:
            await asyncio.wait(hearing, timeout=LAST_WORDS)
        with self._lock:
            tasks, self._tasks, self._loop = self._tasks, {}, None
            self._update_listening()
        for task in (*hearing, *tasks.values()):
            task.cancel()
        await asyncio.gather(*hearing, *tasks.values(), return_exceptions=True)
        for subscriber in tasks:
            subscriber.forget()

    def publish(self, run_id: str, kind: str, data: str, attempt: int, at: datetime) -> None:
        """Deliver an event, whose data is JSON text. Any thread may call it."""
        event: Event | None = None
        for subscriber in self._all:
            if subscriber.wants(run_id, kind):
                event = event or Event(run_id, 0, kind, codec.from_json(data), attempt, at)
                subscriber.put(event)

    def publish_later(self, run_id: str, found: Callable[[], Coroutine[Any, Any, list[Event]]]) -> None:
        """Deliver, in their turn, events that `found` still has to read. On the loop."""
        wanting = [subscriber for subscriber in self._all if subscriber.wants(run_id, None)]
        if wanting:
            later = asyncio.ensure_future(found())
            for subscriber in wanting:
                subscriber.put(later)

    def _update_listening(self) -> None:
        self.listening = bool(self._all) and self._loop is not None

    def _start(self, subscriber: Subscriber) -> None:
        if subscriber in self._all and subscriber not in self._tasks and self._loop is not None:
            context = subscriber.context.copy()
            task = self._loop.create_task(subscriber.run(), context=context, name="laneway-subscriber")
            self._tasks[subscriber] = task

    def _remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._all = tuple(each for each in self._all if each is not subscriber)
            self._update_listening()
        subscriber.close()


class Subscriber:
    """One function and its queue."""

    def __init__(self, call: Callable[[Event], Any], run: str | None, kinds: frozenset[str] | None) -> None:
        self._call, self._run, self._kinds = call, run, kinds
        self._name = getattr(call, "__qualname__", None) or repr(call)
        self._is_async = iscoroutinefunction(call) or iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # an object
        self.context = copy_context()
        self._queue: deque[Item] = deque()
        self._dropped = 0
        self._known: set[type[BaseException]] = set()  # kinds of errors that were reported
        self._wakeup: Wakeup | None = None
        self._thread = 0
        self._busy = self._closed = False
        self._idle = asyncio.Event()

    def wants(self, run_id: str, kind: str | None) -> bool:
        """Tell whether it wants this run, and events of this kind; with None, events of any kind."""
        return (self._run is None or self._run == run_id) and (
            kind is None or self._kinds is None or kind in self._kinds
        )

    def put(self, item: Item) -> None:
        """Add to its queue. Any thread may call it."""
        # Race: two threads may both find one place left. A queue that is one too long does no harm.
        if len(self._queue) >= ROOM:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append(item)
        if self._wakeup is not None:
            self._wakeup.set() if threading.get_ident() == self._thread else self._wakeup.set_from_thread()

    def close(self) -> None:
        """Deliver nothing any more, except the event that is being delivered now. Any thread may call it."""
        self._closed = True
        self._queue.clear()
        if self._wakeup is not None:
            self._wakeup.set_from_thread()

    def forget(self) -> None:
        """Drop what was not delivered: no worker is left to deliver it."""
        left = len(self._queue) + self._dropped
        self._queue.clear()
        self._wakeup, self._dropped = None, 0
        if left:
            log.warning("subscriber %s was too slow: %d events it had not heard yet were dropped", self._name, left)

    async def drained(self) -> None:
        """Return once everything was delivered."""
        while (self._queue or self._busy) and not self._closed:
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Deliver what comes, until closed or cancelled."""
        wakeup, before = Wakeup(), self._wakeup
        self._wakeup, self._thread = wakeup, threading.get_ident()
        if before is not None:
            before.set_from_thread()  # ends the delivery for a worker that lingers
        self._idle = idle = asyncio.Event()
        while self._wakeup is wakeup and not self._closed:
            while self._queue and self._wakeup is wakeup and not self._closed:
                self._busy = True
                await self._deliver(await self._taken())
            self._busy = False
            idle.set()
            if self._wakeup is wakeup and not self._closed:
                await wakeup.wait_and_clear()

    async def _taken(self) -> list[Event]:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            log.warning("subscriber %s is too slow: %d events were dropped", self._name, dropped)
        events: list[Event] = []
        while self._queue and len(events) < BATCH:
            item = self._queue.popleft()
            if isinstance(item, Event):
                events.append(item)
            else:
                found = await asyncio.shield(item)  # other subscribers wait for it, too
                events += [event for event in found if self.wants(event.run_id, event.kind)]
        return events

    async def _deliver(self, events: list[Event]) -> None:
        if not self._is_async:
            loop, context = asyncio.get_running_loop(), self.context.copy()
            await on_thread("laneway-subscriber", lambda stopped: context.run(self._call_all, events, stopped, loop))
            return
        for event in events:
            if self._closed:
                return
            try:
                await self._call(event)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                self._report(error, event)  # a cancellation of its own
            except BaseException as error:  # noqa: BLE001  # whatever it is, it must not disturb others
                self._report(error, event)

    def _call_all(self, events: list[Event], stopped: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        for event in events:
            if stopped.is_set() or self._closed:
                return
            try:
                value = self._call(event)
                if isawaitable(value):
                    # A decorator that does not know async turns an async function into a plain one that returns an
                    # awaitable.
                    asyncio.run_coroutine_threadsafe(_awaited(value), loop).result()
            except BaseException as error:  # noqa: BLE001  # as above
                self._report(error, event)

    def _report(self, error: BaseException, event: Event) -> None:
        if type(error) not in self._known:
            self._known.add(type(error))
            log.error(
                "subscriber %s failed on event %r of run %s; more errors of this kind are not reported",
                *(self._name, event.kind, event.run_id),
                exc_info=error,
            )


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
