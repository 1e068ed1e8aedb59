"""What a SQLite store has in one process: its two threads, and the sockets by which processes tell each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from laneway.stores.sqlite.connection import Place
from laneway.stores.sqlite.reader import SQLiteReader
from laneway.stores.sqlite.wake_sockets import LONGEST, WATCHERS, WORKERS, Ear, Folder
from laneway.stores.sqlite.writer import SQLiteWriter
from laneway.stores.tables.lending import written
from laneway.stores.tables.runtime.after_commit import Lender, Woken
from laneway.stores.tables.runtime.process_runtime import Presence


class SQLitePresence(Presence):
    """The threads, connections and sockets of a store in this process."""

    writer: SQLiteWriter
    reader: SQLiteReader

    def __init__(self, place: Place, now: Callable[[], int]) -> None:
        super().__init__()
        self.writer = SQLiteWriter(place, now, self._wake_all, self._tell_everybody, self.is_there)
        self.reader = SQLiteReader(place, now)
        self._folder = Folder(place.path)
        self._lock = threading.Lock()
        self._watching: Ear | None = None
        self._working: dict[asyncio.AbstractEventLoop, Ear | None] = {}  # by the loop of the workers

    def address(self) -> str | None:
        """Listen for wake-ups on the running loop; return the name of the socket, if there is one."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for gone in [other for other in self._working if other.is_closed()]:
                self._close(self._working.pop(gone))
            if loop not in self._working:
                self._working[loop] = self._folder.listen(WORKERS, lambda message: self.hear(message.decode()), loop)
            ear = self._working[loop]
        return None if ear is None else ear.name

    def attend(self) -> None:
        """Listen for news of events."""
        with self._lock:
            if self._watching is None:
                self._watching = self._folder.listen(WATCHERS, lambda _: self.tell_watchers())

    def fall_silent(self) -> None:
        """Close the sockets."""
        with self._lock:
            ears = [self._watching, *self._working.values()]
            self._watching, self._working = None, {}
        for ear in ears:
            self._close(ear)
        self._folder.close()

    @staticmethod
    def _close(ear: Ear | None) -> None:
        if ear is not None:
            ear.close()

    def reaches(self, lender: Lender) -> bool:
        """Tell whether anybody listens to the worker's socket: it is gone with its process."""
        return lender.socket is not None and self._folder.reaches(lender.socket)

    def _wake_all(self, workers: list[Woken]) -> None:
        for woken in workers:
            if not self.wake(woken.incarnation, woken.answer) and woken.socket is not None:
                self._folder.send(woken.socket, written(woken, LONGEST).encode())

    def _tell_everybody(self) -> None:
        self.tell_watchers()
        own = self._watching
        for name in self._folder.watchers():
            if own is None or name != own.name:
                self._folder.send(name, b"")
