"""The flow keeps its invariants, whatever is done to it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from laneway.core.queue.claim import MOST_MOVES
from laneway.core.queue.turns import AGAIN, BACK
from laneway.core.records.policy import Lane
from tests.core.queue.plain_shelves import Floor, Item, is_started

TASKS = ("work", "mail", "scan")
LANES = ("main", "team")
LIMITS = st.builds(Lane, st.sampled_from(LANES), st.integers(1, 4), st.sampled_from([None, 1, 2]))


class FlowMachine(RuleBasedStateMachine):
    """Runs come, start, end and come again; limits change; workers know this task or that."""

    def __init__(self) -> None:
        super().__init__()
        self.floor = Floor(Lane("main", 3, 1), Lane("team", 2))
        self.turn = 0

    @rule(
        task=st.sampled_from(TASKS),
        lane=st.sampled_from(LANES),
        user=st.sampled_from([None, "ann", "bob"]),
        session=st.sampled_from([None, None, "s1", "s2"]),
        priority=st.sampled_from([0, 0, 1, -1]),
        max_concurrent=st.sampled_from([None, None, 1, 2, 3]),
        pass_on_retry=st.sampled_from([None, True, False]),
    )
    def join(
        self,
        task: str,
        lane: str,
        user: str | None,
        session: str | None,
        priority: int,
        max_concurrent: int | None,
        pass_on_retry: bool | None,
    ) -> None:
        self.floor.join(
            task=task,
            lane=lane,
            user=user,
            session=session,
            priority=priority,
            max_concurrent=max_concurrent,
            pass_on_retry=pass_on_retry,
        )

    @rule(tasks=st.sets(st.sampled_from(TASKS), min_size=1), room=st.integers(1, 5))
    def claim(self, tasks: set[str], room: int) -> None:
        self.turn += 1
        before = Counter(item.lane for item in self.floor.active)
        waiting = [item for item in self.floor.shelves.items if item.shelf != "ended"]
        fresh = {item.number for item in waiting if not item.kind & AGAIN}
        started = self.floor.claim(room, tasks, self.turn)
        assert len(started) <= room
        assert all(item.task in tasks for item in started)
        for item in started:
            earlier = [other for other in self.floor.shelves.items if other.session == item.session is not None]
            assert item.number not in fresh or not any(o.number in fresh and o.number < item.number for o in earlier)
            fresh.discard(item.number)
            lane = self.floor.books[item.lane].lane
            mine = [other for other in self.floor.active if (other.lane, other.user) == (item.lane, item.user)]
            assert Counter(other.lane for other in self.floor.active)[item.lane] <= max(lane.limit, before[item.lane])
            assert item.user is None or lane.per_user is None or len(mine) <= lane.per_user

    @rule(which=st.integers(0, 9), how=st.sampled_from(["end", "again", "later"]))
    def stop(self, which: int, how: str) -> None:
        if self.floor.active:
            getattr(self.floor, how)(self.floor.active[which % len(self.floor.active)])

    @rule(which=st.integers(0, 9))
    def due(self, which: int) -> None:
        if waiting := self.floor.shelves.on("due"):
            self.floor.due(waiting[which % len(waiting)])

    @rule(which=st.integers(0, 19), pause=st.booleans())
    def steer(self, which: int, pause: bool) -> None:
        waiting = [item for item in self.floor.shelves.items if item.shelf not in ("active", "ended")]
        if waiting:
            item = waiting[which % len(waiting)]
            if not pause:
                self.floor.cancel(item)
            elif item.paused:
                self.floor.resume(item)
            else:
                self.floor.pause(item)

    @rule()
    def resume_all(self) -> None:
        for item in [item for item in self.floor.shelves.items if item.paused]:
            self.floor.resume(item)

    @rule(session=st.sampled_from(["s1", "s2"]), held=st.booleans())
    def hold(self, session: str, held: bool) -> None:
        self.floor.hold(session, held=held)

    @rule(lane=LIMITS)
    def set_lane(self, lane: Lane) -> None:
        self.floor.set_lane(lane)

    @invariant()
    def every_run_is_in_one_place(self) -> None:
        assert len(self.floor.shelves.items) == len({item.number for item in self.floor.shelves.items})
        assert not self.floor.shelves.on("nowhere")
        assert sorted(map(id, self.floor.shelves.on("active"))) == sorted(map(id, self.floor.active))

    @invariant()
    def no_parked_set_is_stranded(self) -> None:
        for lane, book in self.floor.books.items():
            for user in ("ann", "bob"):
                parked = [item for item in self.floor.shelves.on(f"user:{user}") if item.lane == lane]
                ready = [item for item in self.floor.shelves.on("ready") if (item.lane, item.user) == (lane, user)]
                out = [item for item in ready if item.kind & BACK]
                active = sum((item.lane, item.user) == (lane, user) for item in self.floor.active)
                at_cap = book.lane.per_user is not None and active >= book.lane.per_user
                assert len(out) <= 1
                assert not parked or at_cap or out, (lane, user, parked)

    @invariant()
    def no_session_holds_back_whom_it_could_admit(self) -> None:
        for name in ("s1", "s2"):
            items = [item for item in self.floor.shelves.items if item.session == name and item.shelf != "ended"]
            held = self.floor.shelves.held(name)
            book = self.floor.sessions.get(name)
            if book is None:
                assert not items
                continue
            outside = [item for item in items if item.number in book.outside]
            inside = {item.number for item in items if item not in held and item not in outside}
            assert (book.held, set(book.admitted)) == (len(held), inside)
            assert book.back == sum(map(is_started, held))
            assert [is_started(item) for item in held] == [True] * book.back + [False] * (book.held - book.back)
            assert not held or not book.admits()

    @invariant()
    def a_session_is_in_its_order(self) -> None:
        for name in ("s1", "s2"):
            fresh = [item.number for item in self.floor.shelves.held(name) if not is_started(item)]
            inside = [item for item in self.floor.shelves.items if item.session == name and item.shelf != "ended"]
            unstarted = [item.number for item in inside if not is_started(item) and item.number not in fresh]
            assert len(unstarted) <= 1
            assert [*unstarted, *fresh] == sorted([*unstarted, *fresh])

    @invariant()
    def counts_equal_what_they_count(self) -> None:
        for lane, book in self.floor.books.items():
            mine = [item for item in self.floor.shelves.items if item.lane == lane]
            assert book.active == sum(item.shelf == "active" for item in mine)
            assert book.ready() == sum(item.shelf == "ready" for item in mine)
            assert book.pending == sum(item.shelf not in ("active", "ended") and not item.paused for item in mine)
            for user in ("ann", "bob"):
                seat = book.seats.get(user)
                parked = sum(item.shelf == f"user:{user}" for item in mine)
                active = sum(item.shelf == "active" and item.user == user for item in mine)
                assert (seat.parked, seat.active) == (parked, active) if seat else parked == active == 0
            assert sum(turn.waiting for turn in book.turns.values()) == sum(map(waits, mine))

    def teardown(self) -> None:
        floor = self.floor
        self.resume_all()
        for session in ("s1", "s2"):
            floor.hold(session, held=False)
        while True:
            for item in [*floor.shelves.on("due")]:
                floor.due(item)
            for item in list(floor.active):
                floor.end(item)
            if not floor.claim(10, frozenset(TASKS)):
                break
        assert [item for item in floor.shelves.items if item.shelf != "ended"] == []
        assert not floor.sessions
        for book in floor.books.values():
            assert not book.seats
            assert not any(turn.waiting for turn in book.turns.values())


def waits(item: Item) -> bool:
    elsewhere = ("held", "active", "paused", "due", "ended", f"session:{item.session}")
    return not item.kind & AGAIN and item.shelf not in elsewhere


TestFlow = FlowMachine.TestCase
TestFlow.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("number", [2, 3, 7])
def test_whatever_the_stride_of_its_calls_a_worker_begins_with_every_lane(stride: int, number: int) -> None:
    floor = Floor(*(Lane(f"lane{index}", 1000) for index in range(number)))
    for lane in floor.books:
        for _ in range(200):
            floor.join(lane=lane)

    firsts = Counter(floor.claim(1, turn=call)[0].lane for call in range(0, stride * 100, stride))

    assert set(firsts) == set(floor.books)
    assert min(firsts.values()) >= 100 // number // 2


def test_a_claim_moves_a_bounded_number_aside_and_says_so() -> None:
    floor = Floor(Lane("main", 10))
    for _ in range(MOST_MOVES + 5):
        floor.join(task="scan")
    floor.join(task="mail")

    started, more = floor.flow.claim(["main"], 1, {"mail"}, 0)
    assert (started, more) == ([], True)
    started, more = floor.flow.claim(["main"], 1, {"mail"}, 1)

    assert ([item.task for item in started], more) == (["mail"], False)
    assert floor.flow.aside == {"scan"}


def test_a_run_set_aside_keeps_its_rank() -> None:
    floor = Floor(Lane("main", 10))
    first = floor.join(task="scan", user="ann")
    rank = first.rank
    for _ in range(5):
        floor.join(task="mail", user="ann")

    floor.claim(2, {"mail"})
    assert first.shelf == "task:scan"

    assert floor.claim(1, {"mail", "scan"}) == [first]
    assert first.rank == rank


def test_sessions_of_one_claim_go_on_in_the_same_claim() -> None:
    floor = Floor(Lane("main", 10), Lane("team", 10))
    items = [floor.join(session="chat", lane=lane, max_concurrent=4) for lane in ("team", "main", "main", "team")]

    assert floor.claim(10) == items
