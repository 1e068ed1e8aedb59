"""What users are promised by the order of one lane: floods, newcomers, priorities, retries."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.queue.turns import HEAD_START
from laneway.core.records.policy import Lane
from tests.core.queue.plain_shelves import Floor, Item
from tests.core.queue.turns_oracle import TRACES, USERS, WIDE, Oracle, apply


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
