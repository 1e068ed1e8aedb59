"""The record of an incarnation in the memory store."""

from __future__ import annotations

from collections.abc import Callable

from laneway.core.lifecycle.step import StepReply
from laneway.core.records.events import STARTED, draft
from laneway.core.records.liveness import Incarnation
from laneway.stores.memory.state.records import RunRecord


class WorkerRecord:
    """An incarnation and its leases."""

    __slots__ = (
        "call",
        "idle",
        "incarnation",
        "leases",
        "left",
        "renewed_at",
        "reply",
        "short",
        "started",
        "told",
        "wake",
    )

    def __init__(self, incarnation: Incarnation, wake: Callable[[], None], now: int) -> None:
        self.incarnation, self.wake, self.renewed_at = incarnation, wake, now
        self.leases: dict[int, RunRecord] = {}
        self.call, self.reply = 0, StepReply()
        self.idle = self.left = self.short = False
        self.told: int | None = None  # the next due time that it knew when it became idle
        self.started = (draft(STARTED, {"worker": incarnation.id}),)

    def spare(self, lane: str, limit: int) -> int:
        """Return how many more runs of the lane it may take, of `most` together."""
        return limit - sum(run.lane == lane and not run.lapsed for run in self.leases.values())
