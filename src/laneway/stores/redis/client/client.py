"""Calls to the server, from any event loop and any thread.

Every call of the store may be repeated: it carries ids or a call number, so a repeat changes nothing. `retry` repeats a
call whole when its connection broke or a server is changing roles, and the engine gets an error only if that lasts. A
call that was sent and got no reply is `maybe_done`.

All callers on one loop share one connection (`loop_connection`), with their commands in flight at the same time. A
thread that cannot wait for its loop calls through a loop on a background thread (`background_loop`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Any

from laneway.errors import BadURL, LanewayError, StoreUnavailable
from laneway.stores.redis.client import forks
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.background_loop import BackgroundLoop
from laneway.stores.redis.client.connection import BrokenConnection, Connection, Part, ReplyError, pack_command
from laneway.stores.redis.client.errors import Refusal, error_for, eviction_warning, has_functions, refuse_old
from laneway.stores.redis.client.loop_connection import LoopConnection
from laneway.stores.redis.client.pubsub import Subscriptions
from laneway.stores.redis.client.retry import Request, RetriedCall, is_retryable
from laneway.stores.redis.client.scripts import Library, Script
from laneway.stores.redis.client.topology import Topology

log = logging.getLogger("laneway.redis")


class RedisClient:
    """Connections to one store, one for each loop that calls; the first call opens them."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.topology = Topology(address)
        self._prefix = address.prefix
        self._opened = self._warned = self._has_functions = False
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self._background = BackgroundLoop()
        self.subscriptions = Subscriptions(self.topology, self._background)
        self._lock = threading.Lock()
        self._connections: dict[asyncio.AbstractEventLoop, LoopConnection] = {}

    def reset_after_fork(self) -> None:
        """Start again in a forked child, which must not use its parent's connections."""
        forks.keep(self._background, self.subscriptions, self._connections)
        self.subscriptions.reset_after_fork()
        for connection in self._connections.values():
            connection.reset_after_fork()
        self._begin()

    async def open(self) -> None:
        """Connect, and check that laneway can use the server. Calling it again is fine.

        Raises StoreUnavailable at once if no server is there, BadURL if it refuses the login, StoreError if it is too
        old. Logs a warning if the server would delete runs when it is full.
        """
        about = await self.info()
        refuse_old(about, self.address)
        self._warn(eviction_warning(about))
        self._has_functions = has_functions(about)
        self._opened = True

    async def load_functions(self, script: Script, *args: Part) -> None:
        """Let the server load its functions by a call of this one, so that the next caller need not wait for that.

        That takes a server some ten milliseconds, once. If it fails, the next call tries again and reports why.
        """
        if self._has_functions:
            with suppress(LanewayError, Refusal):
                await self.call(script, *args)

    async def close(self) -> None:
        """Close all connections. Later calls connect again."""
        self._opened = False
        with self._lock:
            connections, self._connections = list(self._connections.values()), {}
        await self.subscriptions.close()
        for connection in connections:
            await connection.close()
        await asyncio.to_thread(self._background.stop)

    async def call(self, script: Script, *args: Part) -> Any:
        """Run a script with `KEYS[1]` = the prefix; return its reply, texts as bytes. Raises Refusal if it refuses."""
        if self._has_functions and script.library is not None:
            return await self._call_function(script, script.library, args)
        reply = await self._reply(_sending(pack_command("EVALSHA", script.sha, 1, self._prefix, *args)))
        if type(reply) is ReplyError:
            if str(reply).startswith("NOSCRIPT"):
                reply = await self._reply(_sending(pack_command("EVAL", script.text, 1, self._prefix, *args)))
            return self._checked(reply, script)
        return reply

    async def _call_function(self, script: Script, library: Library, args: tuple[Part, ...]) -> Any:
        request = _sending(pack_command("FCALL", script.function, 1, self._prefix, *args))
        reply = await self._reply(request)
        if type(reply) is not ReplyError:
            return reply
        if str(reply).startswith("ERR Function not found"):
            loaded = await self._reply(_sending(pack_command("FUNCTION", "LOAD", "REPLACE", library.text)))
            if type(loaded) is ReplyError:
                return await self._call_without(loaded, script, args)
            reply = await self._reply(request)
        if type(reply) is ReplyError and str(reply).startswith("NOPERM"):
            return await self._call_without(reply, script, args)
        return self._checked(reply, script)

    async def _call_without(self, why: ReplyError, script: Script, args: tuple[Part, ...]) -> Any:
        # A user may lack the right to load or call functions; scripts do the same.
        log.debug("%s takes no functions: %s", self.address.shown, why)
        self._has_functions = False
        return await self.call(script, *args)

    def call_now(self, script: Script, *args: Part) -> Any:
        """Run a script and block until it has replied; from any thread, even while its own loop is blocked by this."""
        return self._background.run(self.call(script, *args))

    async def command(self, *parts: Part) -> Any:
        """Send one command and return the reply. Never one that blocks: all others of this loop would wait for it."""
        return self._checked(await self._reply(_sending(pack_command(*parts))))

    async def read(self, *commands: tuple[Part, ...]) -> list[Any]:
        """Send several reading commands in one transaction; return their replies, which are a snapshot."""
        text = b"".join([pack_command("MULTI"), *(pack_command(*parts) for parts in commands), pack_command("EXEC")])

        async def send(connection: Connection) -> Any:
            replies = await asyncio.gather(*connection.send_all(text, len(commands) + 2))
            return next((reply for reply in replies if isinstance(reply, ReplyError)), replies[-1])

        replies: list[Any] = self._checked(await self._reply(send))
        return [self._checked(reply) for reply in replies]

    async def info(self, *sections: str) -> dict[str, str]:
        """Return the fields of `INFO`; none if this user lacks the right to it."""
        reply = await self._reply(_sending(pack_command("INFO", *sections)))
        if isinstance(reply, ReplyError) and str(reply).startswith("NOPERM"):
            return {}
        lines = self._checked(reply).decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def _reply(self, request: Request) -> Any:
        connections = self._connections.get(asyncio.get_running_loop()) or self._new_connection()
        connection = connections.current
        if connection is None:
            return await RetriedCall(self.address, self.topology, connections, request).reply()
        try:
            reply = await request(connection)
        except BrokenConnection as error:
            return await RetriedCall(self.address, self.topology, connections, request).reply_after(error)
        if is_retryable(reply):
            return await RetriedCall(self.address, self.topology, connections, request).reply_after(reply, connection)
        return reply

    def _warn(self, text: str) -> None:
        if text and not self._warned:
            self._warned = True
            log.warning("%s: %s", self.address.shown, text)

    def _new_connection(self) -> LoopConnection:
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [other for other in self._connections if other.is_closed()]:
                del self._connections[closed]
            connection = self._connections[loop] = LoopConnection(loop, self.topology)
        return connection

    def _checked(self, reply: Any, script: Script | None = None) -> Any:
        """Return the reply, or raise the error that it is."""
        if not isinstance(reply, ReplyError):
            return reply
        text = str(reply)
        error = error_for(text, self.address, script.place(text) if script else "")
        raise self._softened(error) from (None if isinstance(error, Refusal) else reply)

    def _softened(self, error: LanewayError | Refusal) -> LanewayError | Refusal:
        """Return StoreUnavailable in place of BadURL once the store was opened.

        Before that, a wrong address is the caller's mistake. Afterwards it was right once: the server has been changed,
        and may be changed back.
        """
        return StoreUnavailable(str(error)) if self._opened and isinstance(error, BadURL) else error


def _sending(command: bytes) -> Request:
    return lambda connection: connection.send(command)
