"""A desk: one thread, a queue before it, and answers to whoever asked.

Callers put work down; the thread takes everything that lies there, does it as one batch (what that means is the
subclass's business: `Writer` commits once, `Reader` reads in snapshots), and answers. An asyncio caller's future
is resolved on its own loop, all futures of a loop with one call into it. A plain caller waits on a lock.

*Races*: a caller may stop waiting (cancelled, or its loop is closed) at any time; its work is done all the same, and
the answer is dropped. Whatever a piece of work raises goes to its caller and never ends the thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from laneway.errors import StoreUnavailable
from laneway.stores.tables.database import Database
from laneway.stores.tables.forking import Holder

T = TypeVar("T")
Work = Callable[[Database], T]
log = logging.getLogger("laneway.stores")


class Ask:
    """Work that waits for its answer. `note` is the subclass's own."""

    __slots__ = ("error", "future", "loop", "note", "value", "work")

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop | None, note: Any) -> None:
        self.work, self.loop, self.note = work, loop, note
        self.future: Any = Future() if loop is None else loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None


class Desk(Holder):
    """The thread and its queue. It starts with the first ask and ends with `stop`."""

    portable = False  # whether other threads may do the work while this one rests

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._queue: SimpleQueue[Ask | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    async def ask(self, work: Work[T], note: Any = None) -> T:
        """Have the work done, and return what it returned."""
        ask = Ask(work, asyncio.get_running_loop(), note)
        self._put(ask)
        answer: T = await ask.future
        return answer

    def ask_later(self, work: Work[T], note: Any = None) -> Future[T]:
        """Have the work done. Not for a loop's thread, which it may hold up.

        If the desk is portable and at rest the work is done here and now: to hand it over would take longer.
        """
        ask = Ask(work, None, note)
        if not (self.portable and self._done_here(ask)):
            self._put(ask)
        future: Future[T] = ask.future
        return future

    def stop(self) -> None:
        """Do what lies there, then let go of everything. Returns when the thread has ended."""
        with self._lock:
            first, self._stopped = not self._stopped, True
            if first:
                self._queue.put(None)
            thread = self._thread
        if thread is not None:
            thread.join()

    def do(self, batch: list[Ask]) -> None:
        """Do the batch: set `value` or `error` of each ask."""
        raise NotImplementedError

    def rest(self) -> None:
        """Do what can wait until the answers are given."""

    def _put(self, ask: Ask) -> None:
        with self._lock:
            if self._stopped:
                raise StoreUnavailable("this store is closed; open() it again before using it")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._queue.put(ask)

    def _done_here(self, ask: Ask) -> bool:
        # Invariant: whoever has `busy` may use what the desk holds. Its own thread has it while it works.
        if not self.busy.acquire(blocking=False):
            return False
        try:
            if self._stopped or self._thread is None or not self._queue.empty():
                return False
            self._do_and_answer([ask])
            return True
        finally:
            self.busy.release()

    def _serve(self) -> None:
        going = True
        while going:
            batch, going = self._everything()
            if batch:
                with self.busy:
                    self._do_and_answer(batch)
        with self.busy, contextlib.suppress(Exception):
            self.let_go()

    def _everything(self) -> tuple[list[Ask], bool]:
        batch: list[Ask] = []
        ask = self._queue.get()
        with contextlib.suppress(Empty):
            while ask is not None:
                batch.append(ask)
                ask = self._queue.get_nowait()
            return batch, False
        return batch, True

    def _do_and_answer(self, batch: list[Ask]) -> None:
        """Do the batch; whoever calls this is `busy`."""
        try:
            self.do(batch)
        except Exception as error:  # noqa: BLE001 - a bug of ours must reach its callers and not end the thread
            for ask in batch:
                ask.error = ask.error or error
        _answer(batch)
        try:
            self.rest()
        except Exception:
            log.exception("%s could not tidy up", self._name)


def _answer(batch: list[Ask]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[Ask]] = {}
    for ask in batch:
        if ask.loop is None:
            _resolve([ask])
        else:
            loops.setdefault(ask.loop, []).append(ask)
    for loop, asks in loops.items():
        # Race: the loop may be closed by now; then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, asks)


def _resolve(asks: list[Ask]) -> None:
    for ask in asks:
        if ask.future.done():
            continue
        if ask.error is not None:
            ask.future.set_exception(ask.error)
        else:
            ask.future.set_result(ask.value)
