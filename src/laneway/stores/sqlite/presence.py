"""What a store has in one process: its two threads, its sockets, and whom to call when something happened.

A forked child has none of its parent's threads. So a presence belongs to the process that made it, and `SQLiteStore`
makes a new one in a child; what `forking` does makes that safe.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

from laneway.stores.sqlite.connection import Place
from laneway.stores.sqlite.reading import Reader
from laneway.stores.sqlite.wakeups import WATCHERS, WORKERS, Ear, Folder
from laneway.stores.sqlite.writer import Writer


class Presence:
    """The threads, connections and sockets of a store in this process."""

    def __init__(self, place: Place) -> None:
        self.pid = os.getpid()
        self.opened = self.closed = False
        self.writer = Writer(place, self._wake_all, self._tell_everybody)
        self.reader = Reader(place)
        self._folder = Folder(place.path)
        self._lock = threading.Lock()
        self._ears: dict[str, Ear | None] = {}
        self._wakes: dict[str, Callable[[], None]] = {}
        self._watchers: list[Callable[[], None]] = []

    def welcome(self, incarnation: str, wake: Callable[[], None]) -> str | None:
        """Remember whom to call for a worker of this process; return the socket others reach it by, if any."""
        self._wakes.setdefault(incarnation, wake)
        ear = self._ear(WORKERS, self._heard)
        return None if ear is None else ear.name

    def forget(self, incarnation: str) -> None:
        """Forget a worker of this process."""
        self._wakes.pop(incarnation, None)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when anybody wrote events; return what stops it."""
        self._watchers.append(changed)
        self._ear(WATCHERS, lambda _: self._tell_watchers())

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._watchers.remove(changed)

        return stop

    def close(self) -> None:
        """Finish what lies on the desks, then let go of everything."""
        self.closed = True
        self.writer.stop()
        self.reader.stop()
        with self._lock:
            ears, self._ears = self._ears, {}
        for ear in ears.values():
            if ear is not None:
                ear.close()
        self._folder.close()

    def _ear(self, kind: str, heard: Callable[[bytes], None]) -> Ear | None:
        with self._lock:
            if kind not in self._ears:
                self._ears[kind] = self._folder.listen(kind, heard)
            return self._ears[kind]

    def _wake_all(self, workers: list[tuple[str, str | None]]) -> None:
        for incarnation, name in workers:
            if not self._wake(incarnation) and name is not None:
                self._folder.send(name, incarnation.encode())

    def _tell_everybody(self) -> None:
        self._tell_watchers()
        own = self._ears.get(WATCHERS)
        for name in self._folder.watchers():
            if own is None or name != own.name:
                self._folder.send(name, b"")

    def _heard(self, message: bytes) -> None:
        self._wake(message.decode())

    def _wake(self, incarnation: str) -> bool:
        wake = self._wakes.get(incarnation)
        if wake is not None:
            # A callback whose loop is closed must not disturb its neighbours.
            with contextlib.suppress(Exception):
                wake()
        return wake is not None

    def _tell_watchers(self) -> None:
        for changed in list(self._watchers):
            with contextlib.suppress(Exception):
                changed()
