"""Calls to the server, from any event loop and any thread.

Every call of the store may be repeated: it carries ids or a call number, and a repeat changes nothing. So the link
repeats what a broken connection or a server that is changing roles got in the way of, whole and at once
(`retry.py`), and tells the engine only of what lasts. What was sent and not answered is `maybe_done`.

All who call from one loop share one connection (`connection.py`): what they ask is under way at the same time. A thread
that cannot wait for its loop calls through a loop on a thread of the link's own (`background_loop.py`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Any

from laneway.errors import BadURL, LanewayError, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.background_loop import Beside
from laneway.stores.redis.client.connection import Broken, Failed, Part, Wire, packed
from laneway.stores.redis.client.errors import Refusal, eviction, has_functions, meant, refuse_old
from laneway.stores.redis.client.forking import leave_behind, remember
from laneway.stores.redis.client.loop_connection import Shore
from laneway.stores.redis.client.pubsub import Hearing
from laneway.stores.redis.client.retry import Persisting, Question, heeds
from laneway.stores.redis.client.scripts import Library, Script
from laneway.stores.redis.client.topology import Reach

log = logging.getLogger("laneway.redis")


class Link:
    """Connections to one store, one for each loop that calls; the first call makes them. `hearing` is what listens."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.reach = Reach(address)
        self._prefix = address.prefix
        self._opened = self._warned = self._has_functions = False
        self._begin()
        remember(self)

    def _begin(self) -> None:
        self._beside = Beside()
        self.hearing = Hearing(self.reach, self._beside)
        self._lock = threading.Lock()
        self._shores: dict[asyncio.AbstractEventLoop, Shore] = {}

    def forget(self) -> None:
        """Begin anew in a forked child, which has its parent's connections but must not use them."""
        leave_behind(self._beside, self.hearing, self._shores)
        self.hearing.forget()
        for shore in self._shores.values():
            shore.forget()
        self._begin()

    async def open(self) -> None:
        """Connect and see that the server is one that laneway can use. Again is fine.

        Raises StoreUnavailable at once if nobody is there, BadURL if the server does not let us in, StoreError if it is
        too old. A server that would delete runs when it is full is warned of, in the log.
        """
        about = await self.info()
        refuse_old(about, self.address)
        self._warn(eviction(about))
        self._has_functions = has_functions(about)
        self._opened = True

    async def make_functions(self, script: Script, *args: Part) -> None:
        """Have the server make its functions by a call of this one, whatever comes of it: who calls next need not wait.

        It takes a server some ten milliseconds, once. If it does not now, the next call does it, or hears why not.
        """
        if self._has_functions:
            with suppress(LanewayError, Refusal):
                await self.call(script, *args)

    async def close(self) -> None:
        """Let go of all connections. Calls after it connect anew."""
        self._opened = False
        with self._lock:
            shores, self._shores = list(self._shores.values()), {}
        await self.hearing.close()
        for shore in shores:
            await shore.leave()
        await asyncio.to_thread(self._beside.stop)

    async def call(self, script: Script, *args: Part) -> Any:
        """Run a script with `KEYS[1]` = the prefix; return its answer, texts as bytes. Raises Refusal if it says no."""
        if self._has_functions and script.library is not None:
            return await self._call_function(script, script.library, args)
        reply = await self._answer(_asking(packed("EVALSHA", script.sha, 1, self._prefix, *args)))
        if type(reply) is Failed:
            if str(reply).startswith("NOSCRIPT"):
                reply = await self._answer(_asking(packed("EVAL", script.text, 1, self._prefix, *args)))
            return self._good(reply, script)
        return reply

    async def _call_function(self, script: Script, library: Library, args: tuple[Part, ...]) -> Any:
        question = _asking(packed("FCALL", script.function, 1, self._prefix, *args))
        reply = await self._answer(question)
        if type(reply) is not Failed:
            return reply
        if str(reply).startswith("ERR Function not found"):
            made = await self._answer(_asking(packed("FUNCTION", "LOAD", "REPLACE", library.text)))
            if type(made) is Failed:
                return await self._call_without(made, script, args)
            reply = await self._answer(question)
        if type(reply) is Failed and str(reply).startswith("NOPERM"):
            return await self._call_without(reply, script, args)
        return self._good(reply, script)

    async def _call_without(self, why: Failed, script: Script, args: tuple[Part, ...]) -> Any:
        # Not everybody may load functions, or call them: scripts do the same.
        log.debug("%s takes no functions: %s", self.address.shown, why)
        self._has_functions = False
        return await self.call(script, *args)

    def call_now(self, script: Script, *args: Part) -> Any:
        """Run a script and block until it has answered, from any thread, also while its loop is blocked by that."""
        return self._beside.run(self.call(script, *args))

    async def command(self, *parts: Part) -> Any:
        """Give one command and return the answer. None that blocks: all others of this loop would wait behind it."""
        return self._good(await self._answer(_asking(packed(*parts))))

    async def read(self, *commands: tuple[Part, ...]) -> list[Any]:
        """Give several commands that only read, in one transaction, and return their answers: one moment's picture."""
        question = b"".join([packed("MULTI"), *(packed(*command) for command in commands), packed("EXEC")])

        async def ask(wire: Wire) -> Any:
            answers = await asyncio.gather(*wire.ask_all(question, len(commands) + 2))
            return next((reply for reply in answers if isinstance(reply, Failed)), answers[-1])

        replies: list[Any] = self._good(await self._answer(ask))
        return [self._good(reply) for reply in replies]

    async def info(self, *sections: str) -> dict[str, str]:
        """Return what `INFO` says; nothing where this user may not ask."""
        reply = await self._answer(_asking(packed("INFO", *sections)))
        if isinstance(reply, Failed) and str(reply).startswith("NOPERM"):
            return {}
        lines = self._good(reply).decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def _answer(self, question: Question) -> Any:
        shore = self._shores.get(asyncio.get_running_loop()) or self._new_shore()
        wire = shore.wire
        if wire is None:
            return await Persisting(self.address, self.reach, shore, question).answer()
        try:
            reply = await question(wire)
        except Broken as error:
            return await Persisting(self.address, self.reach, shore, question).answer_after(error)
        if heeds(reply):
            return await Persisting(self.address, self.reach, shore, question).answer_after(reply, wire)
        return reply

    def _warn(self, text: str) -> None:
        if text and not self._warned:
            self._warned = True
            log.warning("%s: %s", self.address.shown, text)

    def _new_shore(self) -> Shore:
        loop = asyncio.get_running_loop()
        with self._lock:
            for gone in [other for other in self._shores if other.is_closed()]:
                del self._shores[gone]
            shore = self._shores[loop] = Shore(loop, self.reach)
        return shore

    def _good(self, reply: Any, script: Script | None = None) -> Any:
        if not isinstance(reply, Failed):
            return reply
        said = str(reply)
        error = meant(said, self.address, script.place(said) if script else "")
        raise self._bearable(error) from (None if isinstance(error, Refusal) else reply)

    def _bearable(self, error: LanewayError | Refusal) -> LanewayError | Refusal:
        """Return the error as who is at work already can bear it.

        Before the store was opened, a wrong address is the caller's mistake. Afterwards it was right once: somebody has
        changed the server, and may change it back.
        """
        return StoreUnavailable(str(error)) if self._opened and isinstance(error, BadURL) else error


def _asking(command: bytes) -> Question:
    return lambda wire: wire.ask(command)
