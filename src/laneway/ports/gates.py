"""Gates: what keeps runs from starting, and how many runs wait where."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from laneway.core.common.instants import instant
from laneway.core.queue.circuits import FOREVER, named
from laneway.core.records.breakers import Circuit, Phase
from laneway.core.records.run import Reason


class Held(StrEnum):
    """What can be paused as a whole: its runs are accepted, and held until it is resumed."""

    LANE = "lane"
    USER = "user"
    SESSION = "session"
    TASK = "task"


class CircuitState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task's breaker, or of the breaker of one of its users; the user "" stands for runs without one.

    `opens_at` is when one run is tried, if that is known. `probing` says whether such a run is executed now. `parked`
    counts the runs that claims have put aside because of the breaker.
    """

    user: str | None = None
    phase: Phase = Phase.CLOSED
    failures: int = 0  # in a row
    opens_at: datetime | None = None
    probing: bool = False
    parked: int = 0

    @classmethod
    def of(cls, key: str, circuit: Circuit, now: int, parked: int) -> CircuitState:
        """Return the state of a circuit at that time."""
        phase = circuit.phase(now)
        known = phase is Phase.OPEN and circuit.until is not None and circuit.until < FOREVER
        return cls(
            user=named(key)[1],
            phase=phase,
            failures=circuit.failures,
            opens_at=instant(circuit.until) if known and circuit.until is not None else None,
            probing=circuit.probe is not None,
            parked=parked,
        )


class TaskState(msgspec.Struct, frozen=True, kw_only=True):
    """A task that live workers know, that is paused or disabled, that has runs set aside, or that a breaker counts."""

    name: str
    paused: bool = False
    disabled: bool = False
    workers: int = 0  # live ones that know it
    aside: int = 0  # runs that a claim has set aside
    circuits: tuple[CircuitState, ...] = ()  # of its breaker; those that are closed and count nothing are not kept


class Depths(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs there are, by state, and the pending ones by where they wait."""

    runs: dict[str, int]
    ready: int = 0
    parked: int = 0
    held: int = 0
    due: int = 0


class GateStore(Protocol):
    """Reads the state of tasks, and what keeps runs from starting."""

    async def tasks(self) -> list[TaskState]:
        """Return the tasks, by name."""
        ...

    async def why(self, run_id: str) -> list[Reason]:
        """Return every gate that is closed for the run; nothing for one that is running or has ended.

        Complete: a pending run has a reason. Sound: with all of them open it starts. Raises UnknownRun.
        """
        ...

    async def depths(self) -> Depths:
        """Return how many runs there are, by state if there are any, and of the pending ones by where they wait."""
        ...
