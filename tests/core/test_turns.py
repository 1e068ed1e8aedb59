"""The order of one lane, against a simulation written from the prose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.policy import Lane
from laneway.core.turns import BACK, FRESH, HEAD_START, OUT, LaneBook, Ledger, Pace, Seat, Turn, Turns
from tests.core.shelves import Floor, Item

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


# One capped user beside runs that have no user, mostly at one priority: parking and coming back happen all the time.
NARROW = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.sampled_from([None, "ann"]), st.sampled_from([0, 0, 0, 1]), st.integers(1, 4)),
        st.tuples(st.just("claim"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["end", "end", "again"]), st.integers(0, 9)),
    ),
    max_size=30,
)


@given(TRACES | NARROW, st.sampled_from([None, 1]))
@settings(max_examples=1000, deadline=None)
def test_the_order_is_that_of_the_prose(trace: list[tuple[str, ...]], cap: int | None) -> None:
    floor, oracle = Floor(Lane("main", limit=WIDE, per_user=cap)), Oracle(cap)

    for op, *given_ in trace:
        apply(floor, oracle, op, given_)
        assert placed(floor) == [
            (run.number, run.tag - 1000 * run.priority, run.where) for run in oracle.runs if run.where != "gone"
        ]


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


def placed(floor: Floor) -> list[tuple[int, int, str]]:
    items = [item for item in floor.shelves.items if item.shelf != "ended"]
    where = {"ready": "ready", "active": "active"}
    return [(item.number, item.rank, where.get(item.shelf, "parked")) for item in sorted(items, key=lambda i: i.number)]


# The promises


def starts_before(floor: Floor, wanted: Item) -> list[Item]:
    """Claim one by one until `wanted` starts; return who came before it."""
    before: list[Item] = []
    while True:
        [item] = floor.claim(1)
        if item is wanted:
            return before
        before.append(item)


@given(st.integers(1, 500), st.integers(0, 400))
@settings(max_examples=30, deadline=None)
def test_one_users_flood_delays_another_by_one_turn(flood: int, claimed: int) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    for _ in range(flood):
        floor.join(user="ann")
    floor.claim(min(claimed, flood))

    new = floor.join(user="bob")

    assert len(starts_before(floor, new)) <= 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_a_newcomer_waits_for_the_rest_of_a_round_and_one_more(backlogs: list[int], claimed: int) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    for user, backlog in enumerate(backlogs):
        for _ in range(backlog):
            floor.join(user=f"user{user}")
    floor.claim(claimed)

    new = floor.join(user="newcomer")

    before = Counter(item.user for item in starts_before(floor, new))
    assert all(times <= 2 for times in before.values())


@given(st.lists(st.tuples(USERS, st.integers(1, 30)), max_size=12), st.data())
@settings(max_examples=40, deadline=None)
def test_a_user_with_runs_waiting_is_never_passed_over_twice_in_a_row(
    arrivals: list[tuple[str | None, int]], data: st.DataObject
) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    waiting: Counter[str | None] = Counter()
    starts: list[tuple[str | None, frozenset[str | None]]] = []
    for user, number in arrivals:
        for _ in range(number):
            floor.join(user=user)
        waiting[user] += number
        for item in floor.claim(data.draw(st.integers(0, 20))):
            starts.append((item.user, frozenset(other for other, left in waiting.items() if left)))
            waiting[item.user] -= 1

    for user in waiting:
        others: Counter[str | None] = Counter()
        for starter, present in starts:
            if starter == user or user not in present:
                others.clear()
            else:
                others[starter] += 1
                assert others[starter] <= 2


def ended(floor: Floor, item: Item) -> None:
    """Let a run end and be gone: PlainShelves search, and would search what has ended, too."""
    floor.end(item)
    floor.shelves.items.remove(item)


@pytest.mark.parametrize("gap", [1, 2, 3])
@pytest.mark.parametrize("users", [1, 3])
def test_a_low_priority_run_starts_in_bounded_time_though_the_flood_never_ends(gap: int, users: int) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    for user in range(users):
        for _ in range(3):
            floor.join(user=f"user{user}", priority=5)
    low = floor.join(user="low", priority=5 - gap)

    turns = 0
    while low.shelf != "active":
        [item] = floor.claim(1)
        if item is not low:
            floor.join(user=item.user, priority=5)
            ended(floor, item)
            turns += 1

    assert (gap * HEAD_START - 1) * users <= turns <= (gap * HEAD_START + 1) * users


@pytest.mark.parametrize(("burst_at", "fresh_at"), [(0, 0), (1, 0), (0, 1), (3, 1), (-2, 1), (1, -2), (-1, -2)])
@pytest.mark.parametrize("claimed", [0, 700, 2500])
def test_a_burst_delays_a_fresh_user_of_another_priority_by_the_head_start_at_most(
    burst_at: int, fresh_at: int, claimed: int
) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    # A burst is made of few runs that come again and again.
    for _ in range(5):
        floor.join(user="burst", priority=burst_at)
    for _ in range(claimed):
        [item] = floor.claim(1)
        floor.join(user="burst", priority=burst_at)
        ended(floor, item)

    fresh = floor.join(user="fresh", priority=fresh_at)
    waited = 0
    while fresh.shelf != "active":
        [item] = floor.claim(1)
        if item is not fresh:
            floor.join(user="burst", priority=burst_at)
            ended(floor, item)
            waited += 1

    assert waited <= max(0, burst_at - fresh_at) * HEAD_START + 1


def test_a_user_who_comes_back_is_not_punished_for_what_was_done() -> None:
    floor = Floor(Lane("main", limit=WIDE))
    for _ in range(50):
        floor.join(user="ann")
    for item in floor.claim(50):
        floor.end(item)
    for _ in range(10):
        floor.join(user="bob")

    ann = floor.join(user="ann")

    assert len(starts_before(floor, ann)) <= 1


def test_a_retry_comes_before_its_users_backlog() -> None:
    floor = Floor(Lane("main", limit=WIDE))
    for user in ("ann", "bob"):
        for _ in range(100):
            floor.join(user=user)
    first, *_ = floor.claim(10)

    floor.again(first)

    assert len(starts_before(floor, first)) <= 2


@given(st.integers(1, 200), st.integers(0, 100), st.integers(0, 200), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_a_cancelled_backlog_does_not_punish_its_user(
    backlog: int, claimed: int, cancelled: int, random: Random
) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    mine = [floor.join(user="ann") for _ in range(backlog)]
    for _ in range(20):
        floor.join(user="bob")
    floor.claim(claimed)
    waiting = [item for item in mine if item.shelf == "ready"]
    random.shuffle(waiting)
    for item in waiting[: max(cancelled, len(waiting) - 3)]:
        floor.cancel(item)
    left = [item for item in mine if item.shelf == "ready"]

    new = floor.join(user="ann")

    # Its own runs that are left and as many turns of the other, no matter how many were cancelled.
    before = Counter(item.user for item in starts_before(floor, new))
    assert before["ann"] <= len(left)
    assert before["bob"] <= len(left) + 2


@given(st.integers(1, 300), st.integers(1, 6), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_small_users_start_within_one_round_of_a_flood(flood: int, users: int, claimed: int) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    for _ in range(flood):
        floor.join(user="flood")
    floor.claim(min(claimed, flood))
    small = [floor.join(user=f"small{user}") for user in range(users)]

    started = floor.claim(users + 1)

    assert set(small) <= set(started)


@given(TRACES, USERS, st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_a_retry_does_not_go_behind_its_users_backlog(
    trace: list[tuple[str, ...]], user: str | None, which: int
) -> None:
    floor, oracle = Floor(Lane("main", limit=WIDE)), Oracle()
    for op, *given_ in trace:
        if op != "cap":
            apply(floor, oracle, op, given_)
    priority = 0
    first = floor.join(user=user, priority=priority)
    starts_before(floor, first)
    backlog = [floor.join(user=user, priority=priority) for _ in range(5 + which)]

    floor.again(first)

    before = starts_before(floor, first)
    assert sum(item in before for item in backlog) <= 1


@given(
    burst=st.lists(st.tuples(st.sampled_from(["b1", "b2"]), st.integers(-2, 2)), min_size=1, max_size=5),
    fresh_at=st.integers(-2, 2),
    claimed=st.integers(0, 60),
)
@settings(max_examples=20, deadline=None)
def test_a_burst_of_mixed_priorities_delays_a_fresh_user_by_the_head_start_at_most(
    burst: list[tuple[str, int]], fresh_at: int, claimed: int
) -> None:
    floor = Floor(Lane("main", limit=WIDE))
    for user, priority in burst:
        for _ in range(3):
            floor.join(user=user, priority=priority)

    def turn() -> Item:
        [item] = floor.claim(1)
        if item.user != "fresh":
            floor.join(user=item.user, priority=item.priority)
            ended(floor, item)
        return item

    for _ in range(claimed):
        turn()
    fresh = floor.join(user="fresh", priority=fresh_at)
    waited: Counter[tuple[str | None, int]] = Counter()
    while (item := turn()) is not fresh:
        waited[item.user, item.priority] += 1

    for (_, priority), turns in waited.items():
        assert turns <= max(0, priority - fresh_at) * HEAD_START + 2


@pytest.mark.parametrize("last", [0, 10, 11, 500])
def test_a_turn_that_nobody_waits_for_gives_the_tag_that_a_new_one_gives(last: int) -> None:
    turns: Ledger[tuple[str | None, int], Turn] = Ledger(Turn)
    turns["ann", 0] = Turn(last, waiting=0)
    book = LaneBook(Lane("main"), {0: Pace(v=10, ready=1)}, turns, Ledger(Seat))

    ranks = [book.enter_fresh("ann", 0), book.enter_fresh("bob", 0)]

    assert ranks == [11, 11]


@given(v=st.integers(0, 30), last=st.integers(0, 60), waiting=st.integers(0, 30), ready=st.sampled_from([0, 1]))
def test_a_first_time_run_gets_the_same_place_alone_and_among_many(v: int, last: int, waiting: int, ready: int) -> None:
    ranks = []
    for alone in (True, False):
        turns = Turns()
        turns["ann", 5] = Turn(last, waiting)
        book = LaneBook(Lane("main"), {5: Pace(v, ready=3)}, turns, Ledger(Seat))
        run = Item(1, user="ann", priority=5)
        if alone:
            book.enter(run, ready)
            assert book.paces[5].ready == 3 + ready
        else:
            run.rank = book.enter_fresh("ann", 5)
        turn = turns["ann", 5]
        ranks.append((run.rank, turn.last, turn.waiting))

    assert ranks[0] == ranks[1]


@given(
    active=st.integers(0, 3),
    parked=st.integers(0, 2),
    out=st.sampled_from([0, OUT, OUT + 5, OUT + 10]),
    kind=st.sampled_from([FRESH, BACK]),
    cap=st.sampled_from([None, 0, 2]),
    own=st.booleans(),
)
def test_a_run_is_started_unless_it_must_park(
    active: int, parked: int, out: int, kind: int, cap: int | None, own: bool
) -> None:
    seats: Ledger[str, Seat] = Ledger(Seat)
    seats["ann"] = Seat(active, parked, out)
    book = LaneBook(Lane("main", per_user=2), {5: Pace(0, ready=1)}, Turns(), seats, pending=1)
    if own and cap is not None:
        book.caps["ann"] = cap
    run = Item(1, user="ann", priority=5)
    run.kind, run.rank = kind, 1 - 5 * HEAD_START
    must_park = book.must_park(run)

    assert book.start(run) is not must_park

    assert book.active == (not must_park)
    assert seats["ann"].active == active + (not must_park)
    assert seats["ann"].out == (0 if kind & BACK and not must_park else out)


def test_turns_that_nobody_waits_for_are_swept_out_and_the_others_stay() -> None:
    turns = Turns()
    turns["waiting", 0].waiting = 1

    for number in range(10_000):
        turns[f"user-{number}", 0].last = 7

    assert turns["waiting", 0].waiting == 1
    assert len(turns) <= Turns.FEW


def test_many_turns_that_are_waited_for_are_looked_through_seldom() -> None:
    looks = 0

    class Counted(Turns):
        def items(self):  # type: ignore[no-untyped-def]
            nonlocal looks
            looks += len(self)
            return super().items()

    turns = Counted()
    for number in range(10_000):
        turns[f"user-{number}", 0].waiting = 1

    assert len(turns) == 10_000
    assert looks < 2 * 10_000
