"""Subscriptions: wake-ups for workers, and the news that events were written.

Every loop that subscribes has a connection of its own for it. Callbacks are called on that loop, in the iteration in
which the message arrives. A thread without a loop subscribes through the client's background loop (`background_loop`).

Messages that are published while the connection is down are lost. So each time a subscription takes effect, also the
first time, its callbacks are called once: they may have missed something.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from laneway.errors import LanewayError
from laneway.stores.redis.client.background_loop import BackgroundLoop
from laneway.stores.redis.client.connection import BrokenConnection, Connection, ReplyError, pack_command
from laneway.stores.redis.client.topology import Topology, Unreachable

SILENCE = 5.0  # seconds without a message after which the server gets a PING
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before connecting again

Callback = Callable[[bytes], None]  # gets the message; an empty one if messages may have been missed
log = logging.getLogger("laneway.redis")


class Subscriptions:
    """Subscribes to channels until closed, however often the server goes away. Any thread may call any method."""

    def __init__(self, topology: Topology, background: BackgroundLoop, silence: float = SILENCE) -> None:
        self._topology, self._background, self._silence = topology, background, silence
        self._lock = threading.Lock()
        self._subscribers: dict[asyncio.AbstractEventLoop, LoopSubscriber] = {}

    @property
    def healthy(self) -> bool:
        """Tell whether all subscriptions are in effect right now."""
        with self._lock:
            return all(one.healthy for loop, one in self._subscribers.items() if not loop.is_closed())

    def subscribe(self, channel: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` for every message on the channel; return a function that ends that.

        It is called on the loop that is running now, must not block, and may be called without a message.
        """
        return self._subscribe(channel, lambda _: callback())

    def _subscribe(self, channel: str, callback: Callback) -> Callable[[], None]:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = self._background.loop()
        with self._lock:
            for closed in [other for other in self._subscribers if other.is_closed()]:
                del self._subscribers[closed]
            subscriber = self._subscribers.get(loop)
            if subscriber is None:
                subscriber = self._subscribers[loop] = LoopSubscriber(loop, self._topology, self._silence)
        return subscriber.subscribe(channel, callback)

    async def subscribe_from_now(self, channel: str, callback: Callback, within: float) -> Callable[[], None]:
        """Do the same with the messages themselves, and return once the subscription is in effect.

        Then no message was missed, so there is no first call without a message. If the subscription is not in effect
        within so many seconds, there is one when it is.
        """
        stop = self._subscribe(channel, callback)
        await self._subscribers[asyncio.get_running_loop()].wait_for(channel, callback, within)
        return stop

    def reset_after_fork(self) -> None:
        """Close the sockets in a forked child."""
        for subscriber in self._subscribers.values():
            subscriber.reset_after_fork()

    async def close(self) -> None:
        """End all subscriptions."""
        with self._lock:
            subscribers, self._subscribers = list(self._subscribers.values()), {}
        for subscriber in subscribers:
            await subscriber.close()


class LoopSubscriber:
    """The subscriptions of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, topology: Topology, silence: float) -> None:
        self._loop, self._topology, self._silence = loop, topology, silence
        self._lock = threading.Lock()
        self._callbacks: dict[bytes, dict[object, Callback]] = {}
        self._requested: set[bytes] = set()  # channels for which SUBSCRIBE was sent
        self._confirmed: set[bytes] = set()  # channels that the server has confirmed
        self._waiters: dict[bytes, list[tuple[Callback, asyncio.Event]]] = {}  # for a confirmation
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._last_message_at = 0.0

    @property
    def healthy(self) -> bool:
        """Tell whether the connection is alive, and subscribed to every channel that has callbacks."""
        connection, wanted = self._connection, self._wanted
        return not wanted or (connection is not None and connection.alive and self._confirmed.issuperset(wanted))

    def subscribe(self, channel: str, callback: Callback) -> Callable[[], None]:
        """Add a callback; return a function that removes it."""
        name, token = channel.encode(), object()
        with self._lock:
            # Replaced, not changed: `_on_push` may be iterating over the old one.
            self._callbacks[name] = {**self._callbacks.get(name, {}), token: callback}

        def stop() -> None:
            with self._lock:
                left = {key: other for key, other in self._callbacks.get(name, {}).items() if key is not token}
                self._callbacks[name] = left

        if self._loop is _running():
            self._start(name)
        else:
            self._loop.call_soon_threadsafe(self._start, name)
        return stop

    async def wait_for(self, channel: str, callback: Callback, within: float) -> None:
        """Wait until the server has confirmed the channel; this callback is not called for that."""
        name = channel.encode()
        if name in self._confirmed:
            return
        waiter = (callback, asyncio.Event())
        self._waiters.setdefault(name, []).append(waiter)
        try:
            await asyncio.wait_for(waiter[1].wait(), within)
        except TimeoutError:
            self._waiters[name].remove(waiter)

    async def close(self) -> None:
        """End the subscriptions, from any loop."""
        if self._loop is _running():
            task = self._task
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._task.cancel() if self._task is not None else None)

    def reset_after_fork(self) -> None:
        """Close the socket in a forked child."""
        if self._connection is not None:
            self._connection.reset_after_fork()

    def _start(self, name: bytes) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._stay_connected(), name="laneway-pubsub")
        elif self._connection is not None and name not in self._requested:
            self._request(self._connection, {name})

    async def _stay_connected(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._wanted:
                if await self._receive():
                    pause = FIRST_PAUSE
                if self._wanted:
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            self._task = None

    @property
    def _wanted(self) -> set[bytes]:
        return {channel for channel, callbacks in list(self._callbacks.items()) if callbacks}

    async def _receive(self) -> bool:
        """Receive until the connection ends or no callback is left; return whether there was a connection."""
        try:
            connection = await self._topology.connect(self._on_push)
        except (Unreachable, BrokenConnection, ReplyError, LanewayError) as error:
            log.debug("cannot listen for wake-ups: %s", error)
            return False
        self._connection, self._last_message_at = connection, self._loop.time()
        try:
            self._request(connection, self._wanted)
            await self._until_closed(connection)
        finally:
            self._connection = None
            self._requested, self._confirmed = set(), set()
            connection.close()
        return True

    def _request(self, connection: Connection, channels: set[bytes]) -> None:
        self._requested |= channels
        connection.send_only(pack_command("SUBSCRIBE", *channels))

    async def _until_closed(self, connection: Connection) -> None:
        """Watch the connection: a silent server gets a PING, and the connection ends if it does not reply."""
        closed = self._loop.create_task(connection.closed())
        pinged_at = 0.0
        try:
            while connection.alive:
                await asyncio.wait([closed], timeout=self._silence)
                if pinged_at > self._last_message_at:
                    return
                wanted = self._wanted
                if not wanted:
                    return
                # Unsubscribed late: a caller that subscribes again a moment later finds the channel still confirmed.
                if left := self._requested - wanted:
                    self._requested -= left
                    self._confirmed -= left
                    connection.send_only(pack_command("UNSUBSCRIBE", *left))
                if self._loop.time() - self._last_message_at >= self._silence * 0.9:
                    pinged_at = self._loop.time()
                    connection.send_only(pack_command("PING"))
        finally:
            closed.cancel()

    def _on_push(self, reply: Any) -> None:
        self._last_message_at = self._loop.time()
        if isinstance(reply, ReplyError):
            log.warning("cannot listen for wake-ups, workers look once a second instead: %s", reply)
            return
        kind, channel, message = (*reply, b"", b"")[:3]
        waited: list[Callback] = []
        if kind == b"subscribe":
            self._confirmed.add(channel)
            message = b""
            for callback, confirmed in self._waiters.pop(channel, ()):
                waited.append(callback)
                confirmed.set()
        elif kind != b"message":
            return
        for callback in self._callbacks.get(channel, {}).values():
            if callback in waited:
                continue
            try:
                callback(message)
            except Exception:
                log.exception("a wake-up's callback failed")


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
