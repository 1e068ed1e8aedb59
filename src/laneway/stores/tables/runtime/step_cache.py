"""What one step of a worker leaves in memory for the next one: the worker's row, and the counts of lanes.

**The model.** The writer owns one cache. A busy worker steps again and again, and reads mostly what its last step has
written. Nothing is decided or answered from the cache alone: every step writes all that it changes.

*Invariant*: the cache says what the tables say when a transaction begins. Steps and renewals keep that true. The writer
clears the cache before any other work, if anybody else has committed since, and after everything that is undone: a
savepoint, a transaction, a COMMIT that failed, a connection that broke.
"""

from __future__ import annotations

from typing import NamedTuple

from laneway.core.records.policy import Lane

_RECENT = 4  # lanes


class CachedLane(NamedTuple):
    """A lane and its counts, as the tables have them. `times` are virtual time and ready runs by priority."""

    lane: Lane
    paused: bool
    active: int
    pending: int
    times: dict[int, tuple[int, int]]

    @property
    def has_ready(self) -> bool:
        """Whether any run is in the ready order."""
        return any(ready for _, ready in self.times.values())


class CachedWorker(NamedTuple):
    """An incarnation as it is stored, and the number of its last step."""

    incarnation: str
    call: int


class StepCache:
    """The cache of one writer. It is as small as the number of lanes, and of workers in this process."""

    __slots__ = ("lanes", "recent_lanes", "workers")

    def __init__(self) -> None:
        self.lanes: dict[str, CachedLane] = {}
        self.workers: dict[str, CachedWorker] = {}  # by the id of the incarnation
        self.recent_lanes: list[str] = []  # that the last step used: a hint of what to prefetch, which may be wrong

    def clear(self) -> None:
        """Forget everything but the hint."""
        self.recent_lanes = list(self.lanes)[:_RECENT] or self.recent_lanes
        self.lanes.clear()
        self.workers.clear()
