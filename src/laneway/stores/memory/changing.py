"""The memory store's changes: each under the lock, and who waits for something is told afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from laneway.core.moving.standing import refuse_change
from laneway.ports.clock import Clock
from laneway.stores.memory.reading import Reading
from laneway.stores.memory.waking import Waking


class Changing(Reading):
    """Wakes workers that have something to do now, and tells watchers that events were written."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._clock = clock
        self._watchers: list[Callable[[], None]] = []
        self._waking = Waking(self._kept)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after every write; see `EventStore`."""
        with self._lock:
            self._watchers = [*self._watchers, changed]
        return lambda: self._unwatch(changed)

    @contextmanager
    def _changed(self) -> Iterator[None]:
        with self._lock:
            refuse_change(self._kept.moving)
            yield
            self._waking.wake_for_work()
            self._tell_watchers()

    def _tell_watchers(self) -> None:
        self._kept.said = False
        for changed in self._watchers:
            changed()

    def _unwatch(self, changed: Callable[[], None]) -> None:
        # Race: without the lock, because a watcher may stop itself while it is told; so the list is never changed.
        self._watchers = [watcher for watcher in self._watchers if watcher is not changed]
