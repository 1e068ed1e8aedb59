"""Lanes: their limits and how full they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laneway.core.records.policy import Lane


class LaneState(msgspec.Struct, frozen=True):
    """A lane and how full it is.

    `lane` is what holds, `declared` what code, environment and `laneway.toml` say, `ruled` whether an operator set it.
    `active` counts its running runs, `ready` its startable ones (without parked ones), `pending` all that wait, for any
    reason. `counts` says, since the lane exists, what happened to submissions and runs other than plain acceptance:
    {"merged": 3, "refused lane_full": 1, "dropped session_full": 2}.
    """

    lane: Lane
    active: int
    ready: int
    pending: int = 0
    paused: bool = False
    ruled: bool = False
    declared: Lane | None = None
    counts: dict[str, int] = {}


class LaneStore(Protocol):
    """Keeps the lanes. The default lanes exist from the start."""

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Create these lanes, or change what is declared of existing ones. Settings of operators continue to hold.

        Of two lanes with one name the last counts. Writes nothing if nothing differs. Effects on runs are those of
        `LaneSetting`. Repeating it is harmless.
        """
        ...

    async def lanes(self) -> list[LaneState]:
        """Return all lanes, by name."""
        ...
