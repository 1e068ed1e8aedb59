"""The end of a run frees its session's place as the rules say, by the short way as by the long one."""

from __future__ import annotations

from copy import deepcopy

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.queue.admission import Entering
from laneway.core.queue.sessions import SessionBook, Window
from laneway.core.queue.turns import AGAIN, LaneBook, Ledger, Seat, Turns
from laneway.core.records.policy import Lane, Rule
from tests.core.queue.plain_shelves import Item, PlainShelves

ENDS, OTHERS = 1, (2, 3)


class Spot(msgspec.Struct):
    """A session with a run that ends: the first of `admitted`, unless it has stepped out."""

    outside: bool
    beside: list[int]
    unstarted: int
    back: list[bool]  # of those that came back, whether each is paused
    fresh: list[bool]  # of those that were never started
    head: bool
    windows: list[int]
    asking: list[int]
    rule: Rule
    throttled: bool
    paused: bool
    alone: bool

    def entering(self) -> tuple[Entering[Item], Item]:
        """Return the rules over such a session, and the run."""
        shelves, book, run = PlainShelves(), SessionBook(), Item(ENDS, session="s")
        book.admitted = [*([] if self.outside else [ENDS]), *self.beside]
        book.outside = [ENDS] if self.outside else []
        book.unstarted = self.unstarted if self.unstarted in book.admitted else 0
        for number, paused in enumerate([*self.back, *self.fresh], 10):
            held, back = Item(number, session="s"), number < 10 + len(self.back)
            held.paused = paused
            if back:
                held.kind = AGAIN
                book.outside.append(number)
            shelves.items.append(held)
            is_head = self.head and number == 10 + len(self.back)
            shelves.put_held(held, book.place_in_front() if back else book.place_at_head() if is_head else book.place())
        book.windows = [Window("work", None, number, 5) for number in self.windows]
        book.asking, book.throttled, book.paused, book.alone = self.asking, self.throttled, self.paused, self.alone
        book.given = self.rule
        book.judge()
        sessions: Ledger[str, SessionBook] = Ledger(SessionBook)
        sessions["s"] = book
        lanes = {"main": LaneBook(Lane("main"), {}, Turns(), Ledger(Seat), 0, 20)}
        return Entering(shelves, lanes, sessions), run


def end_in_full(entering: Entering[Item], run: Item) -> None:
    """Do what `Entering.end` says, with nothing left out."""
    book = entering.sessions["s"]
    book.end(run.number)
    book.close(run.number)
    entering._admit("s", book)
    if book.idle:
        entering.sessions.emptied("s")


def state_of(entering: Entering[Item]) -> object:
    shelves = entering.shelves
    assert isinstance(shelves, PlainShelves)
    books = {name: {slot: getattr(book, slot) for slot in book.__slots__} for name, book in entering.sessions.items()}
    items = [(item.number, item.shelf, item.kind, item.rank, item.paused) for item in shelves.items]
    paces = {priority: (pace.v, pace.ready) for priority, pace in entering.lanes["main"].paces.items()}
    return books, items, paces, entering.lanes["main"].pending


@given(
    st.builds(
        Spot,
        outside=st.sampled_from([False, False, False, True]),
        beside=st.sampled_from([[], [], [], [2], [2, 3]]),
        unstarted=st.sampled_from([0, 0, 0, ENDS, *OTHERS]),
        back=st.lists(st.booleans(), max_size=2),
        fresh=st.lists(st.booleans(), max_size=3),
        head=st.booleans(),
        windows=st.lists(st.sampled_from([ENDS, 9]), max_size=2, unique=True),
        asking=st.lists(st.sampled_from([ENDS, *OTHERS]), max_size=2, unique=True),
        rule=st.builds(Rule, max_concurrent=st.sampled_from([None, 1, 2, 5])),
        throttled=st.booleans(),
        paused=st.booleans(),
        alone=st.booleans(),
    )
)
def test_the_short_way_out_comes_to_the_same(spot: Spot) -> None:
    entering, run = spot.entering()
    other, same = deepcopy((entering, run))

    entering.end(run)
    end_in_full(other, same)

    assert state_of(entering) == state_of(other)
