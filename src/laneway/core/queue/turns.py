"""The order of one lane: users take turns, priority is a head start, nobody starves.

**The model** (start-time fair queueing by tags). Per priority the lane keeps V, the highest tag claimed there. A run
that becomes startable for the first time gets

    tag = max(V, min(last, V + waiting)) + 1

where `last` is the tag that its user got last at this priority, and `waiting` is how many of that user's runs still
wait. A user with 100,000 waiting runs holds V+1 ... V+100,000; another user's first run gets V+1 and is next. A user
who cancelled 100,000 runs is not punished for them, because `waiting` fell with them. A run that was claimed before, or
comes back from parking, gets V+1 and leaves `last` unchanged. The ready order is `rank = tag - 1000 * priority`, then
acceptance: a step of priority is worth 1000 turns, so an urgent run goes ahead, and a low one still gets its turn.

**Raising V.** V of a priority that was empty for a while is out of date. Comparing such tags across priorities would
let a burst at one priority punish fresh users of another. So when a priority has nothing in the ready order, its V is
first raised to the smallest V among the priorities that have, or, if none has, to the highest V of the lane.

**Caps by lazy parking.** A run that a claim may not start because its user is at the cap moves to that user's parked
set. Invariant: a parked set is empty, or its gate is closed, or one of its runs is back in the ready order
(`Seat.out`). When that one leaves the order, the next one comes back. A fresh run of a user with parked runs joins the
parked set. One that is already in the order, with an older tag, does not pass the one that came back, unless it is more
urgent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from laneway.core.records.policy import Lane

HEAD_START = 1000  # turns that one step of priority is worth

# How a run came into the order: flags of `Entry.kind`.
FRESH = 0  # never claimed, never parked
AGAIN = 1  # claimed before: holds its session place, does not count as waiting
BACK = 2  # brought back from its user's parked set
ASIDE = 4  # parked because the claiming worker does not know the task, or by a breaker; keeps its rank
STILL = 8  # parked because its session is paused: in no order, and not counted as waiting for a turn
BROKEN = 16  # set aside by a breaker: that of its task
BROKEN_USER = 32  # set aside by a breaker: that of its task and user

OUT = 101  # `Seat.out` is this plus a priority, so it is greater than zero


# Plain classes, not Structs: they are written for every run, which takes four times as long with a Struct.


class VirtualTime:
    """The progress of one priority in a lane: V, and how many runs are in its ready order."""

    __slots__ = ("ready", "v")

    def __init__(self, v: int = 0, ready: int = 0) -> None:
        self.v, self.ready = v, ready


class Turn:
    """A user at one priority of a lane: the last tag given, and how many first-time runs wait.

    If none waits, the last tag makes no difference: such a turn may be kept or dropped.
    """

    __slots__ = ("last", "waiting")

    def __init__(self, last: int = 0, waiting: int = 0) -> None:
        self.last, self.waiting = last, waiting


class Seat:
    """A user in a lane: its active runs, its parked runs, and `out`: whether one of the parked is back in the order.

    `out` is 0 if none is, else `OUT` plus its priority. `gate` is the name of the parked set, once it was needed.
    """

    __slots__ = ("active", "gate", "out", "parked")

    def __init__(self, active: int = 0, parked: int = 0, out: int = 0) -> None:
        self.active, self.parked, self.out = active, parked, out
        self.gate = ""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to count."""
        return not (self.active or self.parked or self.out)


K = TypeVar("K")
V = TypeVar("V")


class Ledger(dict[K, V]):
    """Counts by key; an absent one is zero. A store may load a missing one instead of making it."""

    def __init__(self, make: Callable[[], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        value = self[key] = self._make()
        return value

    def emptied(self, key: K) -> None:
        """Drop a count that fell to zero."""
        del self[key]

    def put_back(self, key: K, value: V) -> None:
        """Put back an entry that was taken from here before, whatever is here by now."""
        self[key] = value


class Turns(Ledger[tuple[str | None, int], Turn]):
    """The turns of a lane, by user and priority. Idle ones are removed once they may be half of all.

    So a user whose runs come one by one keeps the same turn, and a million users leave none behind.
    """

    FEW = 64

    def __init__(self) -> None:
        super().__init__(Turn)
        self._most = self.FEW

    def __missing__(self, key: tuple[str | None, int]) -> Turn:
        if len(self) >= self._most:
            for idle in [key for key, turn in self.items() if not turn.waiting]:
                del self[idle]
            self._most = max(self.FEW, 2 * len(self))
        return super().__missing__(key)


class Placed(Protocol):
    """What the order needs to know of a run."""

    user: str | None
    priority: int
    kind: int
    rank: int


class LaneBook:
    """The counts of one lane."""

    __slots__ = ("active", "caps", "lane", "paces", "paused", "pending", "seats", "turns")

    def __init__(
        self,
        lane: Lane,
        paces: dict[int, VirtualTime],
        turns: Ledger[tuple[str | None, int], Turn],
        seats: Ledger[str, Seat],
        active: int = 0,
        pending: int = 0,
        *,
        paused: bool = False,
    ) -> None:
        self.lane, self.paces, self.turns, self.seats = lane, paces, turns, seats
        self.active, self.pending, self.paused = active, pending, paused
        self.caps: dict[str, int] = {}  # of users with a cap other than the lane's; 0 for a paused user

    def ready(self) -> int:
        """Return how many runs are in the ready order."""
        return sum(pace.ready for pace in self.paces.values())

    def room(self) -> int:
        """Return how many more runs may be active; below zero if the limit was lowered under the active ones."""
        return 0 if self.paused else self.lane.limit - self.active

    def cap(self, user: str) -> int | None:
        """Return how many runs of `user` may be active here at once."""
        return self.caps.get(user, self.lane.per_user)

    def enter(self, run: Placed, ready: int = 1) -> None:
        """Give the run its place in the ready order, or, with `ready=0`, in its user's parked set: sets `run.rank`."""
        pace = self._pace(run.priority)
        pace.ready += ready
        tag = self._first_tag(run.user, run.priority, pace.v) if run.kind == FRESH else pace.v + 1
        run.rank = tag - HEAD_START * run.priority

    def enter_fresh(self, user: str | None, priority: int, count: int = 1) -> int:
        """Give `count` first-time runs of this user their places in the ready order; return the rank of the first.

        The others follow one by one: the tag after t is t + 1, because t is at most V + waiting + 1.
        """
        pace = self._pace(priority)
        pace.ready += count
        return self._first_tag(user, priority, pace.v, count) - HEAD_START * priority

    def leave(self, run: Placed) -> None:
        """Take the run out of the ready order, for whatever reason."""
        self.paces[run.priority].ready -= 1
        if run.kind & BACK and run.user is not None:
            self.seats[run.user].out = 0

    def set_aside(self, run: Placed) -> None:
        """Take the run out of the ready order without losing its rank, because this worker may not start it."""
        self.leave(run)
        run.kind = run.kind & ~BACK | ASIDE

    def set_back(self, run: Placed) -> None:
        """Put a run that was set aside into the ready order again, at the rank it had."""
        run.kind &= ~(ASIDE | BROKEN | BROKEN_USER)
        self.paces[run.priority].ready += 1

    def start(self, run: Placed) -> bool:
        """Take the run out of the ready order to start it, unless it must park; tell if it did.

        The caller counts it as active in its lane: `begin`.
        """
        if self.must_park(run):
            return False
        self.leave(run)
        if run.user is not None:
            self.seats[run.user].active += 1
        pace = self.paces[run.priority]
        pace.v = max(pace.v, run.rank + HEAD_START * run.priority)
        if not run.kind & AGAIN:
            self.wait_no_more(run)
        return True

    def begin(self, count: int) -> None:
        """Count that many pending runs as active."""
        self.active += count
        self.pending -= count

    def wait_no_more(self, run: Placed) -> None:
        """Stop counting a first-time run as waiting."""
        self.turns[run.user, run.priority].waiting -= 1

    def must_park(self, run: Placed) -> bool:
        """Tell whether the user keeps the run from starting: by the cap, or by runs that were parked before it."""
        if run.user is None:
            return False
        seat = self.seats[run.user]
        cap = self.cap(run.user)
        if cap is not None and seat.active >= cap:
            return True
        return run.kind == FRESH and (seat.parked > 0 or seat.out >= OUT + run.priority)

    def _first_tag(self, user: str | None, priority: int, v: int, count: int = 1) -> int:
        turn = self.turns[user, priority]
        tag = max(v, min(turn.last, v + turn.waiting)) + 1
        turn.last = tag + count - 1
        turn.waiting += count
        return tag

    def _pace(self, priority: int) -> VirtualTime:
        """Return the virtual time of a priority. V is raised first if none of its runs is in the ready order."""
        pace = self.paces.get(priority)
        if pace is None:
            pace = self.paces[priority] = VirtualTime()
        if not pace.ready and len(self.paces) > 1:
            others = [other.v for other in self.paces.values() if other.ready]
            target = min(others) if others else max(other.v for other in self.paces.values())
            pace.v = max(pace.v, target)
        return pace
