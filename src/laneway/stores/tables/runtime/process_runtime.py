"""What a store has in one process: its two threads, and the callbacks of workers and followers.

A forked child has none of its parent's threads. So a runtime belongs to the process that made it, and a store makes a
new one in a child; `fork_safety` makes that safe.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from laneway.stores.tables.runtime.worker_thread import WorkerThread
from laneway.stores.tables.runtime.writer import Writer


class ProcessRuntime(ABC):
    """The threads of a store in this process, and who waits in it for wake-ups and events."""

    writer: Writer
    reader: WorkerThread

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.opened = self.closed = False
        self._workers: dict[str, Callable[[], None]] = {}  # what wakes a worker of this process, by incarnation
        self._watchers: list[Callable[[], None]] = []

    def add_worker(self, incarnation: str, wake: Callable[[], None]) -> str | None:
        """Remember what wakes a worker of this process; return where other processes reach it, if they can."""
        self._workers.setdefault(incarnation, wake)
        return self.listen_for_wake_ups()

    def remove_worker(self, incarnation: str) -> None:
        """Forget a worker of this process."""
        self._workers.pop(incarnation, None)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when any process wrote events; return what stops that."""
        self._watchers.append(changed)
        self.listen_for_events()

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._watchers.remove(changed)

        return stop

    def close(self) -> None:
        """Finish what waits in the queues, then close everything."""
        self.closed = True
        self.writer.stop()
        self.reader.stop()
        self.stop_listening()

    @abstractmethod
    def listen_for_wake_ups(self) -> str | None:
        """Listen for wake-ups of this process's workers; return the address to send them to."""

    async def wait_until_listening(self) -> None:  # noqa: B027 - most listen at once
        """Wait until wake-ups reach this process."""

    @abstractmethod
    def listen_for_events(self) -> None:
        """Listen for other processes' notice that they wrote events."""

    @abstractmethod
    def stop_listening(self) -> None:
        """Stop listening."""

    def wake(self, incarnation: str) -> bool:
        """Wake a worker up if it is of this process; return whether it is. From any thread."""
        wake = self._workers.get(incarnation)
        if wake is not None:
            # A callback whose loop is closed must not disturb its neighbours.
            with contextlib.suppress(Exception):
                wake()
        return wake is not None

    def wake_all(self) -> None:
        """Wake every worker of this process up: some wake-up may have been lost."""
        for incarnation in list(self._workers):
            self.wake(incarnation)

    def notify_watchers(self) -> None:
        """Notify those who watch events in this process."""
        for changed in list(self._watchers):
            with contextlib.suppress(Exception):
                changed()
