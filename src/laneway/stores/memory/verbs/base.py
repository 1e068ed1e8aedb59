"""The base of the memory store's verbs: one lock, the state, and the wake-ups after a change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from laneway.core.transfer.move_state import refuse_change
from laneway.ports.clock import Clock
from laneway.stores.memory.rules.liveness import Liveness
from laneway.stores.memory.rules.wakeups import WakeUps
from laneway.stores.memory.state.state import MemoryState


class MemoryVerbs:
    """Keeps the state under a lock. After a change it wakes workers and calls watchers."""

    def __init__(self, clock: Clock) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._state = MemoryState(clock)
        self._liveness = Liveness(self._state)
        self._wakeups = WakeUps(self._state)
        self._watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after every write; see `EventStore`."""
        with self._lock:
            self._watchers = [*self._watchers, changed]
        return lambda: self._unwatch(changed)

    @contextmanager
    def _changed(self) -> Iterator[None]:
        with self._lock:
            refuse_change(self._state.moving)
            yield
            self._wakeups.wake_for_work()
            self._tell_watchers()

    def _tell_watchers(self) -> None:
        self._state.said = False
        for changed in self._watchers:
            changed()

    def _unwatch(self, changed: Callable[[], None]) -> None:
        # Race: without the lock, because a watcher may stop itself while it is called; so no list is ever changed.
        self._watchers = [watcher for watcher in self._watchers if watcher is not changed]
