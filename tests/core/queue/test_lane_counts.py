"""The counts of one lane: places, starts, and turns that nobody waits for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.queue.turns import BACK, FRESH, HEAD_START, OUT, LaneBook, Ledger, Seat, Turn, Turns, VirtualTime
from laneway.core.records.policy import Lane
from tests.core.queue.plain_shelves import Item


@pytest.mark.parametrize("last", [0, 10, 11, 500])
def test_a_turn_that_nobody_waits_for_gives_the_tag_that_a_new_one_gives(last: int) -> None:
    turns: Ledger[tuple[str | None, int], Turn] = Ledger(Turn)
    turns["ann", 0] = Turn(last, waiting=0)
    book = LaneBook(Lane("main"), {0: VirtualTime(v=10, ready=1)}, turns, Ledger(Seat))

    ranks = [book.enter_fresh("ann", 0), book.enter_fresh("bob", 0)]

    assert ranks == [11, 11]


@given(v=st.integers(0, 30), last=st.integers(0, 60), waiting=st.integers(0, 30), ready=st.sampled_from([0, 1]))
def test_a_first_time_run_gets_the_same_place_alone_and_among_many(v: int, last: int, waiting: int, ready: int) -> None:
    ranks = []
    for alone in (True, False):
        turns = Turns()
        turns["ann", 5] = Turn(last, waiting)
        book = LaneBook(Lane("main"), {5: VirtualTime(v, ready=3)}, turns, Ledger(Seat))
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
    book = LaneBook(Lane("main", per_user=2), {5: VirtualTime(0, ready=1)}, Turns(), seats, pending=1)
    if own and cap is not None:
        book.caps["ann"] = cap
    run = Item(1, user="ann", priority=5)
    run.kind, run.rank = kind, 1 - 5 * HEAD_START
    must_park = book.must_park(run)

    started = book.start(run)
    book.begin(int(started))

    assert started is not must_park
    assert (book.active, book.pending) == ((0, 1) if must_park else (1, 0))
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
