"""Lanes: their limits and how full they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laneway.core.policy import Lane


class LaneState(msgspec.Struct, frozen=True):
    """A lane, how many of its runs are running, and how many are startable (parked ones are not)."""

    lane: Lane
    active: int
    ready: int


class LaneStore(Protocol):
    """Keeps the lanes. The default lanes exist from the start."""

    async def set_lanes(self, lanes: Sequence[Lane]) -> None:
        """Create these lanes, or change those that exist.

        A lower limit stops nothing that runs; it holds new starts. A higher one takes effect at once and wakes workers.
        """
        ...

    async def lanes(self) -> list[LaneState]:
        """Return all lanes, by name."""
        ...
