"""An event loop on a background thread, for calls that cannot wait for the caller's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from laneway.errors import StoreUnavailable

CLOSED = "the store was closed"
CHECK_EVERY = 1.0  # seconds

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines on a daemon thread, which the first call starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Block until the coroutine has returned. Raises what it raises, or StoreUnavailable if stopped meanwhile.

        Do not call it from the background thread, which would wait for itself.
        """
        loop = self.loop()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:
            coroutine.close()
            raise StoreUnavailable(CLOSED) from None
        while True:
            try:
                return future.result(CHECK_EVERY)
            except CancelledError:
                raise StoreUnavailable(CLOSED, maybe_done=True) from None
            except TimeoutError:
                # Race: a loop that was just ending has taken the coroutine and will never start it.
                if loop.is_closed() and not future.done():
                    coroutine.close()
                    raise StoreUnavailable(CLOSED) from None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop."""
        with self._lock:
            if self._loop is None:
                ready = threading.Event()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._main(ready)), name="laneway-redis", daemon=True
                )
                self._thread.start()
                ready.wait()
            assert self._loop is not None
            return self._loop

    def stop(self) -> None:
        """End the thread and cancel what runs there. The next call starts another one."""
        with self._lock:
            loop, thread, stop = self._loop, self._thread, self._stop
            self._loop = self._thread = self._stop = None
        if loop is not None and thread is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)
            if thread is not threading.current_thread():
                thread.join(5)

    async def _main(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        stop = self._stop
        ready.set()
        await stop.wait()
