"""A thread with a queue in front of it: callers enqueue work, the thread does it in batches and answers.

The thread takes everything that waits in the queue and processes it as one batch. What that means is the subclass's
business: a writer commits once, a reader reads from snapshots. The future of an asyncio caller is resolved on its own
loop, all futures of one loop by one call into it.

# Race: a caller may stop waiting at any time (it is cancelled, or its loop is closed). Its work is done all the same,
and the answer is dropped. An exception that work raises goes to its caller and never ends the thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from laneway.errors import StoreUnavailable
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.commit_options import DEFAULT, CommitOptions
from laneway.stores.tables.runtime.fork_safety import ConnectionHolder

T = TypeVar("T")
Work = Callable[..., T]
log = logging.getLogger("laneway.stores")


class WorkItem:
    """Work that waits for its thread, then its answer. `loop` is the caller's, None for a plain thread.

    A reader calls `work(db)`, a writer `work(db, after_commit)`.
    """

    __slots__ = ("after_commit", "error", "future", "loop", "options", "value", "work")

    def __init__(
        self, work: Work[Any], options: CommitOptions = DEFAULT, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.work, self.options, self.loop = work, options, loop
        self.future: Any = Future() if loop is None else loop.create_future()
        self.reset()

    def reset(self) -> None:
        """Forget what an earlier try has brought: it was undone."""
        self.value: Any = None
        self.error: BaseException | None = None
        self.after_commit = AfterCommit()


class WorkerThread(ConnectionHolder):
    """The thread and its queue. It starts with the first call and ends with `stop`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._queue: SimpleQueue[WorkItem | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    async def call(self, work: Work[T], options: CommitOptions = DEFAULT) -> T:
        """Have the work done, and return what it returned. Raises StoreUnavailable if the store is closed."""
        item = WorkItem(work, options, asyncio.get_running_loop())
        self._put(item)
        answer: T = await item.future
        return answer

    def submit(self, work: Work[T], options: CommitOptions = DEFAULT) -> Future[T]:
        """Have the work done for a plain thread. Raises StoreUnavailable if the store is closed."""
        item = WorkItem(work, options)
        self._put(item)
        future: Future[T] = item.future
        return future

    def stop(self) -> None:
        """Do what waits in the queue, then close the connection. Returns when the thread has ended."""
        with self._lock:
            first, self._stopped = not self._stopped, True
            if first:
                self._queue.put(None)
            thread = self._thread
        if thread is not None:
            thread.join()

    @abstractmethod
    def process(self, batch: list[WorkItem]) -> None:
        """Do the batch: set `value` or `error` of each item."""

    @property
    def has_housekeeping(self) -> bool:
        """Tell whether there is anything to do once everybody is answered."""
        return False

    def housekeeping(self) -> None:
        """Do what can wait until the answers are given."""

    def _put(self, item: WorkItem) -> None:
        with self._lock:
            if self._stopped:
                raise StoreUnavailable("this store is closed; open() it again before using it")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._queue.put(item)

    def _serve(self) -> None:
        going = True
        while going:
            batch, going = self._next_batch()
            if batch:
                with self.busy:
                    self._process(batch)
                _answer(batch)
                if self.has_housekeeping:
                    self._do_housekeeping()
        with self.busy, contextlib.suppress(Exception):
            self.close_connection()

    def _next_batch(self) -> tuple[list[WorkItem], bool]:
        """Wait for work; return everything that waits, and whether to go on."""
        batch: list[WorkItem] = []
        with contextlib.suppress(Empty):
            item = self._queue.get()
            while item is not None:
                batch.append(item)
                item = self._queue.get_nowait()
            return batch, False
        return batch, True

    def _process(self, batch: list[WorkItem]) -> None:
        try:
            self.process(batch)
        except Exception as error:  # noqa: BLE001 - a bug of ours must reach its callers and not end the thread
            for item in batch:
                item.error = item.error or error

    def _do_housekeeping(self) -> None:
        with self.busy:
            try:
                self.housekeeping()
            except Exception:
                log.exception("housekeeping of %s failed", self._name)


def _answer(batch: list[WorkItem]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[WorkItem]] = {}
    for item in batch:
        if item.loop is None:
            _resolve([item])
        else:
            loops.setdefault(item.loop, []).append(item)
    for loop, items in loops.items():
        # Race: the loop may be closed by now; then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, items)


def _resolve(items: list[WorkItem]) -> None:
    for item in items:
        if item.future.done():
            continue
        if item.error is not None:
            item.future.set_exception(item.error)
        else:
            item.future.set_result(item.value)
