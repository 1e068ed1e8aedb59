"""Shelves: where a store keeps pending runs, and what the rules must know of a run.

Each shelf has an order of its own:

    due      runs of the future, by due time
    held     runs of a session that wait to be admitted, by joining
    ready    runs that may start, per lane, by (rank, acceptance)
    parked   runs a claim could not start, per lane and gate, by (rank, acceptance):
             gate "user:ann" (at the cap), gate "task:x" (the claiming worker does not know the task, or it is paused),
             gate "session:x" (paused; these are brought back by number, all at once),
             gate "breaker:x" (the circuit of that key lets nothing start)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from enum import StrEnum
from typing import Protocol, TypeVar

from laneway.core.queue.circuits import key_of
from laneway.core.queue.turns import ASIDE, BROKEN, BROKEN_USER, FRESH, STILL, Placed

NO_GATES: Set[str] = frozenset()
TASK, BREAKER = "task:", "breaker:"  # prefixes of gates


class Pending(Placed, Protocol):
    """What the claim needs to know of a run, whatever else a store keeps of it."""

    number: int
    fence: int
    task: str
    lane: str
    session: str | None

    @property
    def paused(self) -> bool:
        """Whether this run itself is paused."""


class Entry:
    """The smallest `Pending`. Stores may extend it."""

    __slots__ = ("fence", "kind", "lane", "number", "paused", "priority", "rank", "session", "task", "user")

    def __init__(
        self,
        number: int,
        task: str,
        lane: str,
        user: str | None,
        session: str | None,
        priority: int,
        kind: int = FRESH,
        rank: int = 0,
    ) -> None:
        self.number, self.task, self.lane, self.user, self.session = number, task, lane, user, session
        self.priority, self.kind, self.rank, self.paused, self.fence = priority, kind, rank, False, 0


E = TypeVar("E", bound=Pending)


def gate_of(run: Pending) -> str:
    """Return the gate of a parked run."""
    if run.kind & STILL:
        return f"session:{run.session}"
    if run.kind & BROKEN:
        return BREAKER + run.task
    if run.kind & BROKEN_USER:
        return BREAKER + key_of(run.task, run.user or "")
    return TASK + run.task if run.kind & ASIDE else f"user:{run.user}"


class Shelf(StrEnum):
    """Where a pending run is kept."""

    DUE = "due"
    HELD = "held"
    READY = "ready"
    PARKED = "parked"


class Shelves(Protocol[E]):
    """Where a store keeps pending runs. Each `take` removes the run that it returns; the rules never peek.

    `broken` has the keys of the breakers with parked sets, per lane; at least those that a claim could take from.
    """

    @property
    def broken(self) -> Mapping[str, Collection[str]]:
        """The keys of circuits with parked runs, by lane."""

    def put_ready(self, run: E) -> None:
        """Put the run into its lane's ready order, at its rank."""

    def taking(self, lane: str, tasks: Set[str], gates: Set[str] = NO_GATES) -> Callable[[], E | None]:
        """Return a function that takes the first run of the lane's ready order and these tasks' parked sets.

        `gates` are the gates of other parked sets to take from; the caller may remove one meanwhile. While the function
        is in use, no run of these tasks is parked by its task, and none behind one of these gates.
        """

    def put_parked(self, run: E, gate: str) -> None:
        """Put the run into its lane's parked set of that gate, at its rank."""

    def take_parked(self, lane: str, gate: str) -> E:
        """Take the first run of that parked set."""

    def put_held(self, run: E, place: int) -> None:
        """Put the run behind its session, at that place."""

    def take_held(self, session: str) -> E:
        """Take the first run held by that session."""
