"""A desk: one thread, a queue before it, and answers to whoever asked.

Callers put work down; the thread takes everything that lies there, does it as one batch (what that means is the
subclass's business: `Writer` commits once, `Reader` reads in snapshots), and answers. An asyncio caller's future
is resolved on its own loop, all futures of a loop with one call into it. A plain caller waits on a lock.

A batch may still have something to wait for once it is done, as for the disk: it is answered when that is `finished`.
Short work of an asyncio caller is *begun* on its own loop while the desk rests, if the subclass can do it at once; the
thread has only the waiting then. To hand over the work and its data takes longer than such work.

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
from laneway.stores.tables.runtime.fork_safety import Holder
from laneway.stores.tables.sql.database import Database

T = TypeVar("T")
Work = Callable[[Database], T]
log = logging.getLogger("laneway.stores")


class Ask:
    """Work that waits for its answer. `note` is the subclass's own. What `is_done` has yet to be finished."""

    __slots__ = ("error", "future", "is_done", "loop", "note", "value", "work")

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop | None, note: Any) -> None:
        self.work, self.loop, self.note = work, loop, note
        self.future: Any = Future() if loop is None else loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_done = False


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
        self._lying = 0  # what was put down and is not finished

    async def ask(self, work: Work[T], note: Any = None, *, short: bool = False) -> T:
        """Have the work done, and return what it returned. If it is `short` it may be begun here."""
        ask = Ask(work, asyncio.get_running_loop(), note)
        if short and self.portable and self._begun_here(ask) and ask.error is not None:
            raise ask.error
        try:
            self._put(ask)
        except StoreUnavailable:
            if not ask.is_done:
                raise
            # Race: the store was closed in between. What was begun holds, and there is no thread to wait for it.
            with self.busy:
                self._do([ask])
            _answer([ask])
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

    def begin(self, ask: Ask) -> bool:
        """Do the work now if that needs no waiting, set `value` or `error`, and tell whether it is done.

        On the caller's loop, by whoever is `busy`.
        """
        raise NotImplementedError

    def do(self, batch: list[Ask]) -> None:
        """Do the batch: set `value` or `error` of each ask."""
        raise NotImplementedError

    def finish(self, batch: list[Ask]) -> None:
        """Wait for what must be over before the batch, which is done, is answered; if that fails, set `error`."""

    @property
    def has_chores(self) -> bool:
        """Tell whether there is anything to do when everybody is answered."""
        return True

    def rest(self) -> None:
        """Do what can wait until the answers are given."""

    def _put(self, ask: Ask) -> None:
        with self._lock:
            if self._stopped:
                raise StoreUnavailable("this store is closed; open() it again before using it")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._lying += 1
            self._queue.put(ask)

    @property
    def _rests(self) -> bool:
        # What came first is done first: nothing may lie there, nor be under way.
        return not (self._lying or self._stopped or self._thread is None)

    def _begun_here(self, ask: Ask) -> bool:
        # Invariant: whoever has `busy` may use what the desk holds. Its own thread has it while it works.
        # Ctrl-C on a loop may come when any call has ended: so one call takes the lock and keeps that it did.
        taken: list[bool] = []
        try:
            taken.extend(map(self.busy.acquire, (False,)))
            ask.is_done = taken[0] and self._rests and self.begin(ask)
            return ask.is_done
        finally:
            if True in taken:
                self.busy.release()

    def _done_here(self, ask: Ask) -> bool:
        if not self.busy.acquire(blocking=False):
            return False
        try:
            if not self._rests:
                return False
            self._do([ask])
        finally:
            self.busy.release()
        _answer([ask])
        self._tidy_up()
        return True

    def _serve(self) -> None:
        going = True
        while going:
            batch, going = self._everything()
            if batch:
                with self.busy:
                    self._do(batch)
                with self._lock:
                    self._lying -= len(batch)
                _answer(batch)
                self._tidy_up()
        with self.busy, contextlib.suppress(Exception):
            self.let_go()

    def _everything(self) -> tuple[list[Ask], bool]:
        """Return what lies there, once anything does; and whether to go on."""
        batch: list[Ask] = []
        with contextlib.suppress(Empty):
            ask = self._queue.get()
            while ask is not None:
                batch.append(ask)
                ask = self._queue.get_nowait()
            return batch, False
        return batch, True

    def _do(self, batch: list[Ask]) -> None:
        """Do what is not done of the batch, and finish it; whoever calls this is `busy`."""
        try:
            if left := [ask for ask in batch if not ask.is_done]:
                self.do(left)
            self.finish(batch)
        except Exception as error:  # noqa: BLE001 - a bug of ours must reach its callers and not end the thread
            for ask in batch:
                ask.error = ask.error or error

    def _tidy_up(self) -> None:
        if not self.has_chores:
            return
        with self.busy:
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
