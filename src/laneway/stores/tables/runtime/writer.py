"""The writer: one thread per store object, one transaction per batch of waiting work (group commit).

Each piece of work runs inside the transaction, so that one that fails is undone alone. One COMMIT makes all of them
durable; only then are wake-ups sent and callers answered. How a transaction begins, ends and breaks is a store's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from copy import copy

from laneway.core.lifecycle.step import StepReply
from laneway.errors import StoreError
from laneway.stores.tables.runtime.after_commit import AfterCommit, WakeUp
from laneway.stores.tables.runtime.worker_thread import WorkerThread, WorkItem

_RECENT = 4  # lanes


class Writer(WorkerThread):
    """Does work inside transactions. After a commit it calls `wake`, and `publish` once the callers are answered."""

    def __init__(self, name: str, wake: Callable[[list[WakeUp]], None], publish: Callable[[], None]) -> None:
        super().__init__(name)
        self._wake, self._publish = wake, publish
        self.recent_lanes: list[str] = []  # that were claimed from last: a hint of what a step reads first
        self._has_news = False  # events were written, and followers are not notified yet

    def process(self, batch: list[WorkItem]) -> None:
        """Do the batch in one transaction, then wake workers up."""
        try:
            self.commit(batch)
        except StoreError as error:
            for item in batch:
                item.error = copied(error)
            return
        self.follow_up(item.after_commit for item in batch if item.error is None)

    def follow_up(self, done: Iterable[AfterCommit]) -> None:
        """Do what committed work wants done."""
        for each in done:
            self._has_news = self._has_news or each.events
            if each.wake_ups:
                self._wake(each.wake_ups)

    def note_lanes(self, reply: StepReply) -> None:
        """Note the lanes of the runs that a step has claimed."""
        if reply.claimed:
            self.recent_lanes = list(dict.fromkeys(run.lane for run in reply.claimed))[:_RECENT]

    @property
    def has_housekeeping(self) -> bool:
        """Tell whether followers of events are to be notified."""
        return self._has_news

    def housekeeping(self) -> None:
        """Notify followers of events."""
        if self._has_news:
            self._has_news = False
            self._publish()

    @abstractmethod
    def commit(self, batch: list[WorkItem]) -> None:
        """Do the batch and commit it. Raises StoreError if nothing of the batch may have been done, or all of it."""

    @abstractmethod
    def look(self) -> bool:
        """Tell whether anybody else has committed since the last look. From any thread; it never waits."""


def copied(error: StoreError) -> StoreError:
    """Return the error for one more caller: raised twice, one object would grow two tracebacks."""
    other = copy(error)
    other.__cause__ = error.__cause__
    return other
