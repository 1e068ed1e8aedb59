"""What a SQLite store has in one process: its two threads, and the sockets for wake-ups between processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from laneway.stores.sqlite.connection import StoreFile
from laneway.stores.sqlite.reader import SQLiteReader
from laneway.stores.sqlite.wake_sockets import WATCHERS, WORKERS, ListeningSocket, SocketFolder
from laneway.stores.sqlite.writer import SQLiteWriter
from laneway.stores.tables.runtime.after_commit import WakeUp
from laneway.stores.tables.runtime.process_runtime import ProcessRuntime


class SQLiteRuntime(ProcessRuntime):
    """The threads, connections and sockets of a store in this process."""

    writer: SQLiteWriter
    reader: SQLiteReader

    def __init__(self, file: StoreFile, now: Callable[[], int]) -> None:
        super().__init__()
        self.writer = SQLiteWriter(file, now, self._wake, self._publish)
        self.reader = SQLiteReader(file, now)
        self._folder = SocketFolder(file.path)
        self._lock = threading.Lock()
        self._for_events: ListeningSocket | None = None
        self._for_wake_ups: dict[asyncio.AbstractEventLoop, ListeningSocket | None] = {}  # by the workers' loop

    def listen_for_wake_ups(self) -> str | None:
        """Listen on the running loop; return the name of the socket, if there is one."""
        loop, sockets = asyncio.get_running_loop(), self._for_wake_ups
        with self._lock:
            for gone in [other for other in sockets if other.is_closed()]:
                _close(sockets.pop(gone))
            if loop not in sockets:
                sockets[loop] = self._folder.listen(WORKERS, lambda message: self.wake(message.decode()), loop)
            socket = sockets[loop]
        return None if socket is None else socket.name

    def listen_for_events(self) -> None:
        """Listen on a thread."""
        with self._lock:
            if self._for_events is None:
                self._for_events = self._folder.listen(WATCHERS, lambda _: self.notify_watchers())

    def stop_listening(self) -> None:
        """Close the sockets."""
        with self._lock:
            sockets = [self._for_events, *self._for_wake_ups.values()]
            self._for_events, self._for_wake_ups = None, {}
        for socket in sockets:
            _close(socket)
        self._folder.close()

    def _wake(self, workers: list[WakeUp]) -> None:
        for worker in workers:
            if not self.wake(worker.incarnation) and worker.address is not None:
                self._folder.send(worker.address, worker.incarnation.encode())

    def _publish(self) -> None:
        self.notify_watchers()
        own = self._for_events
        for name in self._folder.watchers():
            if own is None or name != own.name:
                self._folder.send(name, b"")


def _close(socket: ListeningSocket | None) -> None:
    if socket is not None:
        socket.close()
