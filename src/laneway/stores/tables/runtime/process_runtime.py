"""What a store has in one process: its two threads, and whom to call when something happened.

A forked child has none of its parent's threads. So a presence belongs to the process that made it, and a store makes a
new one in a child; what `fork_safety` does makes that safe.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from laneway.core.lifecycle.step import LentReply
from laneway.ports.workers import Standby
from laneway.stores.tables.lending import read
from laneway.stores.tables.runtime.after_commit import Lender
from laneway.stores.tables.runtime.worker_thread import Desk
from laneway.stores.tables.runtime.writer import Writer


class Presence(ABC):
    """The threads of a store in this process, and who waits here for wake-ups and news."""

    writer: Writer
    reader: Desk

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.opened = self.closed = False
        self._wakes: dict[str, Callable[[], None]] = {}
        self._watchers: list[Callable[[], None]] = []

    def welcome(self, incarnation: str, wake: Callable[[], None]) -> str | None:
        """Remember whom to call for a worker of this process; return where others reach it, if they can."""
        self._wakes.setdefault(incarnation, wake)
        return self.address()

    def forget(self, incarnation: str) -> None:
        """Forget a worker of this process."""
        self._wakes.pop(incarnation, None)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when anybody wrote events; return what stops it."""
        self._watchers.append(changed)
        self.attend()

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._watchers.remove(changed)

        return stop

    def close(self) -> None:
        """Finish what lies on the desks, then let go of everything."""
        self.closed = True
        self.writer.stop()
        self.reader.stop()
        self.fall_silent()

    @abstractmethod
    def address(self) -> str | None:
        """Listen for wake-ups of this process's workers; return where they are to be sent."""

    async def settle(self) -> None:  # noqa: B027 - most are heard at once
        """Wait until wake-ups reach this process."""

    @abstractmethod
    def attend(self) -> None:
        """Listen for news of events."""

    @abstractmethod
    def fall_silent(self) -> None:
        """Listen no more."""

    @abstractmethod
    def reaches(self, lender: Lender) -> bool:
        """Tell whether the process of a worker that is not of this one is seen to live."""

    def is_there(self, lender: Lender) -> bool:
        """Tell whether a worker is seen to live. From any thread."""
        wake = self._wakes.get(lender.incarnation)
        if wake is None:
            return self.reaches(lender)
        return wake.is_there if isinstance(wake, Standby) else True

    def wake(self, incarnation: str, answer: LentReply | None = None) -> bool:
        """Wake a worker, if it is of this process, with the answer to the step that it lent. Return whether it is."""
        wake = self._wakes.get(incarnation)
        if wake is not None:
            # A callback whose loop is closed must not disturb its neighbours.
            with contextlib.suppress(Exception):
                wake.answer(answer) if answer is not None and isinstance(wake, Standby) else wake()
        return wake is not None

    def hear(self, text: str) -> None:
        """Hear a wake-up of another process."""
        self.wake(*read(text))

    def wake_all_here(self) -> None:
        """Wake every worker of this process: some wake-up may have been lost."""
        for incarnation in list(self._wakes):
            self.wake(incarnation)

    def tell_watchers(self) -> None:
        """Tell who watches in this process."""
        for changed in list(self._watchers):
            with contextlib.suppress(Exception):
                changed()
