"""The order of one lane, simulated from the prose: nothing is counted, everything is looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from laneway.core.records.policy import Lane
from tests.core.queue.plain_shelves import Floor

WIDE = 1_000_000


@dataclass
class Sim:
    """One run of the simulation."""

    number: int
    user: str | None
    priority: int
    tag: int = 0
    where: str = "ready"  # or parked, active, gone
    started: bool = False  # was claimed at least once
    back: bool = False  # came back from parking


@dataclass
class Oracle:
    """The prose, taken literally: nothing is counted, everything is looked up.

    `last` is never forgotten, V is kept for every priority, and the ready order is a search.
    """

    cap: int | None = None
    runs: list[Sim] = field(default_factory=list)
    v: dict[int, int] = field(default_factory=dict)
    last: dict[tuple[str | None, int], int] = field(default_factory=dict)

    def arrive(self, user: str | None, priority: int) -> None:
        run = Sim(len(self.runs) + 1, user, priority)
        run.where = "parked" if self.of(user, "parked") and user is not None else "nowhere"
        v = self.current(priority)
        waiting = sum(
            not r.started and r.where in ("ready", "parked") and r.priority == priority for r in self.all(user)
        )
        run.tag = max(v, min(self.last.get((user, priority), 0), v + waiting)) + 1
        self.last[user, priority] = run.tag
        if run.where == "nowhere":
            run.where = "ready"
        self.runs.append(run)
        self.bring_back(user)

    def claim(self, room: int) -> list[int]:
        started: list[int] = []
        while len(started) < room and (ready := [run for run in self.runs if run.where == "ready"]):
            run = min(ready, key=lambda run: (run.tag - 1000 * run.priority, run.number))
            fresh = not run.started and not run.back
            if run.user is not None and (self.full(run.user) or (fresh and self.comes_after_others(run))):
                run.where, run.back = "parked", False
            else:
                run.where, run.started, run.back = "active", True, False
                self.v[run.priority] = max(self.v.get(run.priority, 0), run.tag)
                started.append(run.number)
            self.bring_back(run.user)
        return started

    def stop(self, number: int, *, again: bool) -> None:
        run = self.runs[number - 1]
        run.where = "gone"
        self.bring_back(run.user)
        if again:
            run.tag = self.current(run.priority) + 1
            run.where = "ready"

    def set_cap(self, cap: int | None) -> None:
        self.cap = cap
        for user in sorted({run.user for run in self.runs if run.user is not None}):
            self.bring_back(user)

    def bring_back(self, user: str | None) -> None:
        parked = self.of(user, "parked")
        if user is None or not parked or self.full(user) or any(run.back for run in self.of(user, "ready")):
            return
        run = min(parked, key=lambda run: (run.tag - 1000 * run.priority, run.number))
        run.tag = self.current(run.priority) + 1
        run.where, run.back = "ready", True

    def current(self, priority: int) -> int:
        """Return V of the priority, first raised if nothing of it is in the ready order."""
        if not any(run.where == "ready" and run.priority == priority for run in self.runs):
            busy = {run.priority for run in self.runs if run.where == "ready"}
            target = min((self.v.get(p, 0) for p in busy), default=max(self.v.values(), default=0))
            self.v[priority] = max(self.v.get(priority, 0), target)
        return self.v.get(priority, 0)

    def comes_after_others(self, run: Sim) -> bool:
        """Tell whether runs of its user were parked before this one and have not started, unless it is more urgent."""
        back = [other for other in self.of(run.user, "ready") if other.back and other.priority >= run.priority]
        return bool(back or self.of(run.user, "parked"))

    def full(self, user: str) -> bool:
        return self.cap is not None and len(self.of(user, "active")) >= self.cap

    def all(self, user: str | None) -> list[Sim]:
        return [run for run in self.runs if run.user == user]

    def of(self, user: str | None, where: str) -> list[Sim]:
        return [run for run in self.all(user) if run.where == where]


USERS = st.sampled_from([None, "ann", "bob", "cyd"])
PRIORITIES = st.sampled_from([0, 0, 0, 1, -1, 2, 100, -100])
TRACES = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), USERS, PRIORITIES, st.integers(1, 4)),
        st.tuples(st.just("claim"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["end", "again"]), st.integers(0, 9)),
        st.tuples(st.just("cap"), st.sampled_from([None, 1, 1, 2])),
    ),
    max_size=40,
)


def apply(floor: Floor, oracle: Oracle, op: str, given_: Sequence[object]) -> None:
    match op, given_:
        case "arrive", [str() | None as user, int(priority), int(times)]:
            for _ in range(times):
                floor.join(user=user, priority=priority)
                oracle.arrive(user, priority)
        case "claim", [int(room)]:
            assert [item.number for item in floor.claim(room)] == oracle.claim(room)
        case (("end" | "again"), [int(which)]) if floor.active:
            item = floor.active[which % len(floor.active)]
            (floor.again if op == "again" else floor.end)(item)
            oracle.stop(item.number, again=op == "again")
        case "cap", [int() | None as cap]:
            floor.set_lane(Lane("main", limit=WIDE, per_user=cap))
            oracle.set_cap(cap)
