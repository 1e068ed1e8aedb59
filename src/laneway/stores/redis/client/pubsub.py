"""Hearing what is published: wake-ups for workers, and that something was said.

Who listens does so on a connection of its own, one for each loop that listens; callbacks are called on that loop, in
the turn in which the message comes, so nothing stands between the server and who waits. What listens from a thread
without a loop is heard on the link's own (`background_loop.py`).

What is published while nobody is connected is lost. So every time a subscription takes effect, the first time too, its
callbacks are called once: something may have been missed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from laneway.errors import LanewayError
from laneway.stores.redis.client.background_loop import Beside
from laneway.stores.redis.client.connection import Broken, Failed, Wire, packed
from laneway.stores.redis.client.topology import Reach, Unreachable

QUIET = 5.0  # seconds without a word after which the server is asked whether it is there
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before connecting again

Callback = Callable[[bytes], None]  # it is given what was published; nothing if something may have been missed
log = logging.getLogger("laneway.redis")


class Hearing:
    """Listens to channels, for ever, however often the server goes away. Every method may be called from any thread."""

    def __init__(self, reach: Reach, beside: Beside, quiet: float = QUIET) -> None:
        self._reach, self._beside, self._quiet = reach, beside, quiet
        self._lock = threading.Lock()
        self._ears: dict[asyncio.AbstractEventLoop, Ear] = {}

    @property
    def healthy(self) -> bool:
        """Tell whether everything that is listened to is being heard right now."""
        with self._lock:
            return all(ear.hears for loop, ear in self._ears.items() if not loop.is_closed())

    def listen(self, channel: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever something is published there, until the returned function is called.

        It is called on the loop that is running now, must not block, and may be called for nothing.
        """
        return self._listen(channel, lambda _: callback())

    def _listen(self, channel: str, callback: Callback) -> Callable[[], None]:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = self._beside.loop()
        with self._lock:
            for gone in [other for other in self._ears if other.is_closed()]:
                del self._ears[gone]
            ear = self._ears.get(loop)
            if ear is None:
                ear = self._ears[loop] = Ear(loop, self._reach, self._quiet)
        return ear.listen(channel, callback)

    async def listen_from_now(self, channel: str, callback: Callback, within: float) -> Callable[[], None]:
        """Do the same with what is published; return when it is heard.

        Nothing was missed then, so nothing is called for nothing at first. If it is not heard within so many seconds,
        it will be called once it is.
        """
        stop = self._listen(channel, callback)
        await self._ears[asyncio.get_running_loop()].attend_quietly(channel, callback, within)
        return stop

    def forget(self) -> None:
        """Let go of the connections in a forked child."""
        for ear in self._ears.values():
            ear.forget()

    async def close(self) -> None:
        """Hear no more."""
        with self._lock:
            ears, self._ears = list(self._ears.values()), {}
        for ear in ears:
            await ear.close()


class Ear:
    """The subscriptions of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reach: Reach, quiet: float) -> None:
        self._loop, self._reach, self._quiet = loop, reach, quiet
        self._lock = threading.Lock()
        self._callbacks: dict[bytes, dict[object, Callback]] = {}
        self._subscribed: set[bytes] = set()
        self._heard: set[bytes] = set()
        self._quiet_ones: dict[bytes, list[tuple[Callback, asyncio.Event]]] = {}  # who waits to be heard at first
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._heard_at = 0.0

    @property
    def hears(self) -> bool:
        """Tell whether every channel that somebody listens to is subscribed to, and the connection is alive."""
        wire = self._wire
        listening = [channel for channel, callbacks in list(self._callbacks.items()) if callbacks]
        return not listening or (wire is not None and wire.alive and self._heard.issuperset(listening))

    def listen(self, channel: str, callback: Callback) -> Callable[[], None]:
        """Add a callback; return what takes it away."""
        name, token = channel.encode(), object()
        with self._lock:
            # Replaced and not changed: a message that comes meanwhile goes through what it found.
            self._callbacks[name] = {**self._callbacks.get(name, {}), token: callback}

        def stop() -> None:
            with self._lock:
                left = {key: other for key, other in self._callbacks.get(name, {}).items() if key is not token}
                self._callbacks[name] = left

        if self._loop is _running():
            self._attend(name)
        else:
            self._loop.call_soon_threadsafe(self._attend, name)
        return stop

    async def attend_quietly(self, channel: str, callback: Callback, within: float) -> None:
        """Wait until the channel is heard; the callback that waits is not called for that."""
        name = channel.encode()
        if name in self._heard:
            return
        waits = (callback, asyncio.Event())
        self._quiet_ones.setdefault(name, []).append(waits)
        try:
            await asyncio.wait_for(waits[1].wait(), within)
        except TimeoutError:
            self._quiet_ones[name].remove(waits)

    async def close(self) -> None:
        """Hear no more; from whatever loop."""
        if self._loop is _running():
            task = self._task
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._task.cancel() if self._task is not None else None)

    def forget(self) -> None:
        """Let go of the connection in a forked child."""
        if self._wire is not None:
            self._wire.forget()

    def _attend(self, name: bytes) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._attended(), name="laneway-hearing")
        elif self._wire is not None and name not in self._subscribed:
            self._subscribe(self._wire, {name})

    async def _attended(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._wanted:
                if await self._hear():
                    pause = FIRST_PAUSE
                if self._wanted:
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            self._task = None

    @property
    def _wanted(self) -> set[bytes]:
        return {channel for channel, callbacks in list(self._callbacks.items()) if callbacks}

    async def _hear(self) -> bool:
        """Hear until the connection ends or nobody listens; tell whether there was a connection."""
        try:
            wire = await self._reach.wire(self._on_message)
        except (Unreachable, Broken, Failed, LanewayError) as error:
            log.debug("cannot listen for wake-ups: %s", error)
            return False
        self._wire, self._heard_at = wire, self._loop.time()
        try:
            self._subscribe(wire, self._wanted)
            await self._until_gone(wire)
        finally:
            self._wire = None
            self._subscribed, self._heard = set(), set()
            wire.close()
        return True

    def _subscribe(self, wire: Wire, channels: set[bytes]) -> None:
        self._subscribed |= channels
        wire.send(packed("SUBSCRIBE", *channels))

    async def _until_gone(self, wire: Wire) -> None:
        """Look after the connection: a server that says nothing is asked, and left if it does not answer."""
        gone = self._loop.create_task(wire.gone())
        asked_at = 0.0
        try:
            while wire.alive:
                await asyncio.wait([gone], timeout=self._quiet)
                if asked_at > self._heard_at:
                    return
                wanted = self._wanted
                if not wanted:
                    return
                # Channels are left late: who listens again a moment later finds them still there.
                if left := self._subscribed - wanted:
                    self._subscribed -= left
                    self._heard -= left
                    wire.send(packed("UNSUBSCRIBE", *left))
                if self._loop.time() - self._heard_at >= self._quiet * 0.9:
                    asked_at = self._loop.time()
                    wire.send(packed("PING"))
        finally:
            gone.cancel()

    def _on_message(self, reply: Any) -> None:
        self._heard_at = self._loop.time()
        if isinstance(reply, Failed):
            log.warning("cannot listen for wake-ups, workers look once a second instead: %s", reply)
            return
        kind, channel, said = (*reply, b"", b"")[:3]
        quiet: list[Callback] = []
        if kind == b"subscribe":
            self._heard.add(channel)
            said = b""
            for callback, heard in self._quiet_ones.pop(channel, ()):
                quiet.append(callback)
                heard.set()
        elif kind != b"message":
            return
        for callback in self._callbacks.get(channel, {}).values():
            if callback in quiet:
                continue
            try:
                callback(said)
            except Exception:
                log.exception("a wake-up's callback failed")


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
