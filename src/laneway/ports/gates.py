"""Gates: holding back what an operator wants held, and saying what holds a run."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from laneway.core.run import Reason


class Held(StrEnum):
    """What can be paused as a whole: accepted and held, until resumed."""

    LANE = "lane"
    USER = "user"
    SESSION = "session"
    TASK = "task"


class TaskState(msgspec.Struct, frozen=True, kw_only=True):
    """A task that live workers know, or that an operator has paused or disabled, or that has runs set aside."""

    name: str
    paused: bool = False
    disabled: bool = False
    workers: int = 0  # live ones that know it
    aside: int = 0  # runs that a claim has set aside


class Depths(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what there is: runs by state, and pending ones by where they wait."""

    runs: dict[str, int]
    ready: int = 0
    parked: int = 0
    held: int = 0
    due: int = 0


class GateStore(Protocol):
    """Closes and opens gates for all processes, and explains them."""

    async def hold(self, what: Held, name: str, *, held: bool) -> None:
        """Pause or resume a lane, user, session or task: what is pending of it does not start, what runs goes on.

        Resuming takes effect at once. Raises UnknownLane.
        """
        ...

    async def disable(self, task: str, *, disabled: bool) -> None:
        """Refuse new runs of the task (`task_disabled`), or not any more. What was accepted is kept and goes on."""
        ...

    async def tasks(self) -> list[TaskState]:
        """Return the tasks, by name."""
        ...

    async def why(self, run_id: str) -> list[Reason]:
        """Return every gate that is closed for the run; nothing for one that is running or has ended.

        Complete: a pending run has a reason. Sound: with all of them open it starts. Raises UnknownRun.
        """
        ...

    async def depths(self) -> Depths:
        """Return how many runs there are, by state and by where they wait."""
        ...
