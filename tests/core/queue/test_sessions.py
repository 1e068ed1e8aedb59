"""Admission to a session, against a list that is looked through."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.queue.sessions import SessionBook, Window
from laneway.core.records.policy import DEFAULT_RULE, Drop, Lane, Rule, SessionIntent
from tests.core.queue.plain_shelves import Floor, Item

CHAT = "chat"
OPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("join", "join", "join", "start", "start", "end", "end", "later", "later", "due", "due"),
                *("again", "cancel", "pause", "resume", "widen", "narrow", "pass", "wait", "hold", "release"),
                *("interrupt", "throttle", "let"),
            ]
        ),
        st.integers(0, 9),
    ),
    max_size=60,
)


@dataclass
class Member:
    """One run of the line, as prose would have it."""

    number: int
    doing: str = "waits"  # or may start, runs, will try again; it is not listed once it has ended
    paused: bool = False
    again: bool = False  # waits, and was started before


@dataclass
class Line:
    """A session as prose: who is there, in order, and what each is doing. Nothing is counted, all is looked up."""

    limit: int = 1
    throttled: bool = False
    passes: bool = False
    held: bool = False  # the session is paused
    alone: bool = False
    members: list[Member] = field(default_factory=list)

    def doing(self, *what: str) -> list[Member]:
        return [member for member in self.members if member.doing in what]

    def let_in(self) -> None:
        """Let the next in, as long as one may."""
        while waiting := self.doing("waits"):
            inside, first = self.doing("may start", "runs", "keeps its place"), waiting[0]
            full = len(inside) >= (1 if self.throttled else self.limit) or (self.alone and inside)
            unstarted = [member for member in inside if member.doing == "may start" and not member.again]
            if self.held or full or (unstarted and not first.again):
                return
            first.doing = "may start"
            self.alone = self.alone and first.again


class Play:
    """The same done to a floor and to a line."""

    def __init__(self) -> None:
        self.floor, self.line = Floor(Lane("main", 1_000_000)), Line()

    def item(self, member: Member) -> Item:
        return next(item for item in self.floor.shelves.items if item.number == member.number)

    def do(self, op: str, which: int) -> None:
        sources = {
            "start": [m for m in self.line.doing("may start") if not m.paused and not self.line.held],
            "end": self.line.doing("runs"),
            "later": self.line.doing("runs"),
            "again": self.line.doing("runs"),
            "due": [m for m in self.line.doing("will try again", "keeps its place") if not m.paused],
            "cancel": self.line.doing("waits", "may start"),
            "pause": [m for m in self.line.doing("waits", "may start") if not m.paused],
            "resume": [m for m in self.line.doing("waits", "may start") if m.paused],
        }
        if op not in sources:
            getattr(self, op)()
        elif sources[op]:
            getattr(self, op)(sources[op][which % len(sources[op])])
        self.line.let_in()

    def join(self) -> None:
        self.floor.join(session=CHAT, max_concurrent=self.line.limit, pass_on_retry=self.line.passes)
        book = self.floor.sessions[CHAT]
        if book.throttled is not self.line.throttled:
            self.floor.flow.throttle(CHAT, throttled=self.line.throttled)
        self.line.members.append(Member(self.floor.accepted))

    def start(self, member: Member) -> None:
        # One worker that can take but one: which of those that may start it is, the lane says, not the session.
        [item] = self.floor.claim(1)
        started = next(other for other in self.line.members if other.number == item.number)
        assert started.doing == "may start"
        started.doing, started.again = "runs", True

    def end(self, member: Member) -> None:
        self.floor.end(self.item(member))
        self.line.members.remove(member)

    def later(self, member: Member) -> None:
        self.floor.later(self.item(member))
        member.doing = "will try again" if self.line.passes else "keeps its place"

    def again(self, member: Member) -> None:
        self.floor.again(self.item(member))
        member.doing = "may start"

    def due(self, member: Member) -> None:
        self.floor.due(self.item(member))
        if member.doing == "keeps its place":
            member.doing = "may start"
        else:
            self.line.members.remove(member)
            self.line.members.insert(0, member)
            member.doing = "waits"

    def cancel(self, member: Member) -> None:
        self.floor.cancel(self.item(member))
        self.line.members.remove(member)

    def pause(self, member: Member) -> None:
        self.floor.pause(self.item(member))
        member.paused = True

    def resume(self, member: Member) -> None:
        self.floor.resume(self.item(member))
        member.paused = False

    def interrupt(self) -> None:
        """Drop who was never started, then join: the newcomer waits for all who have a place."""
        for member in [m for m in reversed(self.line.members) if not m.again]:
            self.cancel(member)
            self.line.let_in()
        self.forget_if_idle()
        book = self.floor.sessions[CHAT]
        book.alone = bool(book.admitted)
        self.line.alone = bool(self.line.doing("may start", "runs", "keeps its place"))
        self.join()

    def widen(self) -> None:
        self.rule(self.line.limit + 1)

    def narrow(self) -> None:
        self.rule(max(1, self.line.limit - 1))

    def let(self) -> None:
        self.line.throttled = False
        if CHAT in self.floor.sessions:
            self.floor.flow.throttle(CHAT, throttled=False)

    def throttle(self) -> None:
        if CHAT in self.floor.sessions:
            self.line.throttled = True
            self.floor.flow.throttle(CHAT, throttled=True)

    def wait(self) -> None:
        self.line.passes = False
        self.rule(self.line.limit)

    def rule(self, limit: int) -> None:
        self.line.limit = limit
        if CHAT in self.floor.sessions:
            self.floor.sessions[CHAT].take(
                SessionIntent(rule=Rule(max_concurrent=limit, pass_on_retry=self.line.passes))
            )
            self.floor.flow.let_go_on(CHAT, ())

    def hold(self) -> None:
        if CHAT in self.floor.sessions:
            self.line.held = True
            self.floor.hold(CHAT, held=True)

    def release(self) -> None:
        self.line.held = False
        self.floor.hold(CHAT, held=False)

    def forget_if_idle(self) -> None:
        if CHAT not in self.floor.sessions:
            self.line.held = self.line.throttled = self.line.alone = False

    def check(self) -> None:
        line, book = self.line, self.floor.sessions.get(CHAT)
        if book is None:
            assert line.members == []
            self.forget_if_idle()
            return
        assert [item.number for item in self.floor.shelves.held(CHAT)] == [m.number for m in line.doing("waits")]
        inside = [m.number for m in line.doing("may start", "runs", "keeps its place")]
        assert sorted(book.admitted) == sorted(inside)
        assert sorted(book.outside) == sorted(m.number for m in line.members if is_outside(m))
        assert book.queued == sum(not m.again for m in line.members)
        assert sorted(book.active) == sorted(m.number for m in line.members if m.again)


def is_outside(member: Member) -> bool:
    return member.doing == "will try again" or (member.doing == "waits" and member.again)


@given(OPS)
@settings(max_examples=400, deadline=None)
def test_a_session_admits_whom_the_line_lets_in(ops: list[tuple[str, int]]) -> None:
    play = Play()

    for op, which in ops:
        if op == "pass":
            play.line.passes = True
            play.rule(play.line.limit)
        else:
            play.do(op, which)
        play.line.let_in()
        play.check()


def test_an_unstarted_run_that_ends_makes_way() -> None:
    book = SessionBook()
    book.admit(7)
    book.place()

    book.end(7)

    assert book.admits()
    assert (book.admitted, book.held, book.unstarted) == ([], 1, 0)


def test_places_among_the_held_only_grow_and_who_comes_back_is_before_them() -> None:
    book = SessionBook()
    places = [book.place() for _ in range(3)]
    book.leave()

    back = [book.place_in_front(), book.place_in_front()]

    assert places == [1, 2, 3]
    assert book.place() == 4
    assert max(back) < 1
    assert (book.held, book.back, book.queued) == (5, 2, 3)


def test_a_run_that_brings_more_room_goes_behind_those_that_wait() -> None:
    floor = Floor(Lane("main"))
    first, second = floor.join(session=CHAT), floor.join(session=CHAT)
    floor.claim(1)

    last = floor.join(session=CHAT, max_concurrent=3)

    assert floor.claim(9) == [second, last]
    assert first.shelf == "active"


def test_an_operator_wins_over_messages_and_what_is_given_last_stays() -> None:
    book = SessionBook()
    book.take(SessionIntent(rule=Rule(cap=3, max_concurrent=2)))
    book.take(SessionIntent(rule=Rule(max_concurrent=4)))
    book.ruled = Rule(cap=7)
    book.judge()

    book.take(SessionIntent(rule=Rule(cap=9, drop=Drop.NEW)))

    assert (book.cap, book.limit, book.drops_old) == (7, 4, False)
    book.ruled = Rule()
    book.judge()
    assert (book.cap, book.rule.while_waiting) == (9, DEFAULT_RULE.while_waiting)


@pytest.mark.parametrize("throttled", [True, False])
def test_a_throttled_session_admits_one_whatever_its_rule(throttled: bool) -> None:
    book = SessionBook()
    book.take(SessionIntent(rule=Rule(max_concurrent=5), throttled=throttled))

    assert book.limit == (1 if throttled else 5)
    book.take(SessionIntent())
    assert book.throttled is throttled


def test_a_window_is_found_by_task_and_user_and_closed_by_number() -> None:
    book = SessionBook()
    book.windows = [Window("mail", "ann", 1, 9), Window("mail", None, 2, 9)]

    found = [book.window(*key) for key in [("mail", "ann"), ("mail", None), ("mail", "bob"), ("scan", "ann")]]
    assert [window and window.number for window in found] == [1, 2, None, None]
    assert not book.idle
    book.close(1)
    book.close(3)

    assert [window.number for window in book.windows] == [2]
