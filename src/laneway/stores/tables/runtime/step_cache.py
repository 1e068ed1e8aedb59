"""What a writer knows of the tables without reading them: what its own last transactions have read and written.

**The model.** A worker that is busy steps again and again, and each step needs what the one before has just written:
the counts of the same lanes, users and sessions, the leases it gave, the fronts of the same shelves. Reading them back
took half of a step's time. So the writer hands what a step has used to the next one.

**Why it is true.** Only the file tells what holds. What is remembered is used only if nobody else can have changed it:
`PRAGMA data_version`, asked with the write lock in hand, says whether another connection has committed since, and the
verbs that write tables by themselves, as most do, make the writer forget. So does everything that is undone: a
savepoint, a transaction, a COMMIT that failed, a connection that broke. See `Writer`.

It is bounded by what was read into it: once that is `MOST`, all is forgotten and begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Generic, TypeVar

from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.turns import LaneBook, Seat, Turn
from laneway.stores.tables.rows.leased_run import LeasedRun
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import Shelf
from laneway.stores.tables.sql.statements import Row

TurnKey = tuple[str | None, int]  # user, priority
K = TypeVar("K")
V = TypeVar("V")

_args: Callable[[RunRow], str] = attrgetter("args")

MOST = 20_000  # rows; one with long arguments counts as one for every KiB of them
_RECENT = 4  # lanes


class Known(Generic[K, V]):
    """Values by their keys, and of those that are stored their rows."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.values: dict[K, V] = {}
        self.rows: dict[K, Row] = {}


class StepCache:
    """Counts, leases and the fronts of shelves, as the tables have them."""

    __slots__ = (
        "held",
        "lanes",
        "leases",
        "parked",
        "recent_lanes",
        "rows",
        "seats",
        "sessions",
        "turns",
        "unopened",
        "workers",
    )

    def __init__(self) -> None:
        self.recent_lanes: list[str] = []  # that the last step used: a hint of what to prefetch, which may be wrong
        self.lanes: dict[str, tuple[LaneBook, tuple[Row, dict[int, Row]]]] = {}  # each with its counts as stored
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.recent_lanes = list(self.lanes)[:_RECENT] or self.recent_lanes
        # Anew: a transaction that has begun goes on with what it has.
        self.lanes = {}
        self.turns: dict[str, Known[TurnKey, Turn]] = {}  # by lane
        self.seats: dict[str, Known[str, Seat]] = {}  # by lane
        self.sessions: Known[str, SessionBook] = Known()
        self.leases: dict[int, LeasedRun] = {}
        self.parked: dict[tuple[str, str], Shelf] = {}  # by lane and gate
        self.held: dict[str, Shelf] = {}
        self.unopened: set[str] | None = None  # lanes with startable runs whose books were not read; None if unknown
        self.workers: dict[str, tuple[str, int]] = {}  # incarnations by id, as they are stored, and their last calls
        self.rows = 0

    @property
    def is_full(self) -> bool:
        """Tell whether it is time to clear it."""
        return self.rows > MOST

    def count(self, runs: list[RunRow]) -> None:
        """Count runs that were read, with their arguments."""
        self.rows += len(runs) + (sum(map(len, map(_args, runs))) >> 10)
