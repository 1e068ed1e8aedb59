"""What a message does to its session, over a floor that only remembers what was done."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from laneway.core.lifecycle.arrivals import Decision, decide, left_over, stop, stop_all
from laneway.core.queue.sessions import SessionBook, Window
from laneway.core.queue.shelves import Entry
from laneway.core.records.policy import NO_RULE, Drop, Mode, Rule, SessionIntent, WhileWaiting
from laneway.core.records.run import Message, MessageKind, NewRun, ReceiptOutcome, Request, RunLinks, Why
from laneway.core.records.states import RunState

CHAT = "chat"
ACCEPTED, MERGED, STEERED, REFUSED = (
    ReceiptOutcome.ACCEPTED,
    ReceiptOutcome.MERGED,
    ReceiptOutcome.STEERED,
    ReceiptOutcome.REFUSED,
)


class Fake(Entry):
    """A run of the session."""

    __slots__ = ("id", "requested", "stands", "ties")

    def __init__(self, number: int, *, task: str = "work", user: str | None = "ann", cancelled: bool = False) -> None:
        super().__init__(number, task, "main", user, CHAT, 0)
        self.id = f"run-{number}"
        self.stands = RunState.PENDING
        self.ties: RunLinks | None = None
        self.requested = Request.CANCEL if cancelled else None

    def __repr__(self) -> str:
        return f"#{self.number}"


@dataclass
class FakeFloor:
    """A session's runs, and what was done to them, in order."""

    waiting: list[Fake] = field(default_factory=list)
    started: list[Fake] = field(default_factory=list)
    coming: list[Fake] = field(default_factory=list)
    done: list[tuple[str, int, object]] = field(default_factory=list)

    def queued(self, session: str) -> list[Fake]:
        return list(self.waiting)

    def active(self, session: str) -> list[Fake]:
        return list(self.started)

    def future(self, session: str) -> list[Fake]:
        return list(self.coming)

    def run(self, number: int) -> Fake:
        return next(run for run in [*self.waiting, *self.started, *self.coming] if run.number == number)

    def drop(self, run: Fake, why: Why) -> None:
        self.done.append(("drop", run.number, why))

    def cancel(self, run: Fake, *, clears: bool, abandon: bool = False) -> bool:
        self.done.append(("abandon" if abandon else "cancel", run.number, clears))
        return run.requested is not Request.CANCEL

    def supersede(self, run: Fake, by: str) -> None:
        self.done.append(("supersede", run.number, by))

    def answer(self, run: Fake, answer: str) -> None:
        self.done.append(("answer", run.number, answer))

    def book(self, rule: Rule = NO_RULE) -> SessionBook:
        """Return the book of a session with these runs."""
        book = SessionBook(admitted=[run.number for run in self.started], held=len(self.waiting))
        if self.waiting and not self.started:
            book.admitted, book.unstarted, book.held = [self.waiting[0].number], self.waiting[0].number, book.held - 1
        book.take(SessionIntent(rule=rule))
        return book


def message(mode: Mode = Mode.QUEUE, **given: object) -> NewRun:
    fields: dict[str, object] = {"task": "work", "user": "ann", "args": "{}", "lane": "main"} | given
    debounce = fields.pop("debounce", 0)
    arrival = SessionIntent(mode=mode, debounce=debounce, max_wait=5 * debounce)  # type: ignore[arg-type, operator] # a test's shorthand
    return NewRun(id="new", session=CHAT, arrival=arrival, **fields)  # type: ignore[arg-type] # as above


SITUATIONS = {"idle": ((), ()), "queued": ((5, 6), ()), "active": ((), (1, 2)), "both": ((5, 6), (1, 2))}
# What a message does, by mode and situation: the outcome, who takes it, who is dropped, who is cancelled.
TABLE = {
    (Mode.QUEUE, "idle"): (ACCEPTED, None, [], []),
    (Mode.QUEUE, "queued"): (ACCEPTED, None, [], []),
    (Mode.QUEUE, "active"): (ACCEPTED, None, [], []),
    (Mode.QUEUE, "both"): (ACCEPTED, None, [], []),
    (Mode.COLLECT, "idle"): (ACCEPTED, None, [], []),
    (Mode.COLLECT, "queued"): (MERGED, 6, [], []),
    (Mode.COLLECT, "active"): (ACCEPTED, None, [], []),
    (Mode.COLLECT, "both"): (MERGED, 6, [], []),
    (Mode.INTERRUPT, "idle"): (ACCEPTED, None, [], []),
    (Mode.INTERRUPT, "queued"): (ACCEPTED, None, [5, 6], []),
    (Mode.INTERRUPT, "active"): (ACCEPTED, None, [], [1, 2]),
    (Mode.INTERRUPT, "both"): (ACCEPTED, None, [5, 6], [1, 2]),
    (Mode.REJECT, "idle"): (ACCEPTED, None, [], []),
    (Mode.REJECT, "queued"): (REFUSED, None, [], []),
    (Mode.REJECT, "active"): (REFUSED, None, [], []),
    (Mode.REJECT, "both"): (REFUSED, None, [], []),
    (Mode.STEER, "idle"): (ACCEPTED, None, [], []),
    (Mode.STEER, "queued"): (ACCEPTED, None, [], []),
    (Mode.STEER, "active"): (STEERED, 2, [], []),
    (Mode.STEER, "both"): (STEERED, 2, [], []),
}


def floor_in(situation: str) -> FakeFloor:
    waiting, started = SITUATIONS[situation]
    return FakeFloor([Fake(number) for number in waiting], [Fake(number) for number in started])


def told(decision: Decision[Fake]) -> tuple[ReceiptOutcome, int | None, list[int], list[int]]:
    taker = None if decision.taker is None else decision.taker.number
    return (
        decision.outcome,
        taker,
        [run.number for run in decision.drops],
        [run.number for run in decision.cancels],
    )


def test_the_table_is_complete() -> None:
    assert set(TABLE) == {(mode, situation) for mode in Mode for situation in SITUATIONS}


@pytest.mark.parametrize(("mode", "situation"), TABLE)
def test_what_a_message_does_by_its_mode(mode: Mode, situation: str) -> None:
    floor = floor_in(situation)

    decision = decide(floor, floor.book(), message(mode))

    assert told(decision) == TABLE[mode, situation]
    assert (decision.reason is Why.SESSION_BUSY) == (decision.outcome is REFUSED)
    assert decision.interrupts == (mode is Mode.INTERRUPT)
    assert not decision.window
    assert floor.done == []


@pytest.mark.parametrize(("mode", "situation"), TABLE)
@pytest.mark.parametrize("kind", ["inside", "delay", "due_at"])
def test_what_is_for_later_or_made_by_the_engine_only_waits_its_turn(mode: Mode, situation: str, kind: str) -> None:
    floor = floor_in(situation)
    book = floor.book(Rule(cap=1))
    book.windows.append(Window("work", "ann", 9, 100))
    new = message(mode, **{kind: True if kind == "inside" else 5})

    assert decide(floor, book, new) == Decision()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_open_window_takes_the_message_whatever_its_mode(mode: Mode, situation: str) -> None:
    floor = floor_in(situation)
    floor.coming = [Fake(9)]
    book = floor.book(Rule(cap=1))
    book.windows.append(Window("work", "ann", 9, 100))

    assert told(decide(floor, book, message(mode))) == (MERGED, 9, [], [])
    other = decide(floor, book, message(mode, user="bob"))
    assert other.taker is None or other.taker.number != 9
    assert decide(floor, book, message(mode, task="mail")).taker is None


@pytest.mark.parametrize(("task", "user"), [("mail", "ann"), ("work", "bob"), ("work", None)])
def test_a_message_is_not_appended_to_a_run_of_another_task_or_user(task: str, user: str | None) -> None:
    floor = floor_in("queued")

    assert told(decide(floor, floor.book(), message(Mode.COLLECT, task=task, user=user)))[:2] == (ACCEPTED, None)


def test_a_message_steers_the_youngest_of_its_task_that_is_not_cancelled() -> None:
    floor = FakeFloor(started=[Fake(1), Fake(2, task="mail"), Fake(3, user="bob"), Fake(4, cancelled=True)])

    def taker(task: str) -> Fake | None:
        return decide(floor, floor.book(), message(Mode.STEER, task=task)).taker

    assert taker("work") is floor.started[2]
    assert taker("mail") is floor.started[1]
    assert taker("scan") is None
    assert told(decide(floor, floor.book(), message(Mode.STEER, task="scan"))) == (ACCEPTED, None, [], [])


@pytest.mark.parametrize("mode", [Mode.QUEUE, Mode.COLLECT, Mode.STEER])
@pytest.mark.parametrize(("cap", "gone"), [(4, []), (3, []), (2, [5]), (1, [5, 6])])
def test_a_full_session_drops_as_many_of_the_oldest_as_are_too_many(mode: Mode, cap: int, gone: list[int]) -> None:
    floor = floor_in("queued")

    decision = decide(floor, floor.book(Rule(cap=cap)), message(mode, task="mail"))

    assert told(decision) == (ACCEPTED, None, gone, [])


def test_a_full_session_that_drops_the_new_refuses() -> None:
    floor = floor_in("both")
    book = floor.book(Rule(cap=2, drop=Drop.NEW))

    decision = decide(floor, book, message())

    assert (decision.outcome, decision.reason, decision.drops) == (REFUSED, Why.SESSION_FULL, ())
    assert decide(floor, book, message(Mode.COLLECT)).outcome is MERGED
    assert decide(floor, book, message(Mode.INTERRUPT)).outcome is ACCEPTED


@pytest.mark.parametrize(
    ("mode", "situation", "opens"),
    [
        (Mode.QUEUE, "idle", True),
        (Mode.QUEUE, "both", True),
        (Mode.INTERRUPT, "both", True),
        (Mode.COLLECT, "active", True),
        (Mode.COLLECT, "queued", False),
        (Mode.STEER, "active", False),
        (Mode.REJECT, "active", False),
    ],
)
def test_a_debounced_message_opens_a_window_if_it_makes_a_run(mode: Mode, situation: str, opens: bool) -> None:
    floor = floor_in(situation)

    assert decide(floor, floor.book(), message(mode, debounce=3)).window is opens


def test_an_interrupt_drops_from_the_tail_then_cancels_and_waits_for_what_was_admitted() -> None:
    floor = floor_in("both")
    book = floor.book()

    decide(floor, book, message(Mode.INTERRUPT)).apply(floor, book)

    dropped = [("drop", number, Why.INTERRUPTED) for number in (6, 5)]
    assert floor.done == [*dropped, ("cancel", 1, True), ("cancel", 2, True)]
    assert book.alone


def test_an_interrupt_of_nothing_waits_for_nobody() -> None:
    floor, book = FakeFloor(), SessionBook()

    decide(floor, book, message(Mode.INTERRUPT)).apply(floor, book)

    assert (floor.done, book.alone) == ([], False)


def test_what_is_displaced_by_the_cap_says_so_and_nothing_is_cancelled() -> None:
    floor = floor_in("both")
    book = floor.book(Rule(cap=1))

    decide(floor, book, message()).apply(floor, book)

    assert floor.done == [("drop", 6, Why.SESSION_FULL), ("drop", 5, Why.SESSION_FULL)]
    assert not book.alone


def asking(while_waiting: WhileWaiting | None) -> tuple[FakeFloor, SessionBook]:
    """Return a busy session in which runs of two users wait for answers."""
    floor = FakeFloor([Fake(5)], [Fake(1, user="bob"), Fake(2), Fake(3), Fake(4)])
    book = floor.book(Rule(max_concurrent=4, while_waiting=while_waiting))
    book.asking = [3, 2, 1]
    return floor, book


@pytest.mark.parametrize("mode", [Mode.QUEUE, Mode.COLLECT, Mode.STEER])
def test_while_runs_of_its_user_ask_the_rule_decides_before_the_mode(mode: Mode) -> None:
    floor, book = asking(WhileWaiting.CANCEL)
    decision = decide(floor, book, message(mode))
    assert (decision.outcome, decision.taker, [run.number for run in decision.supersedes]) == (ACCEPTED, None, [2, 3])

    floor, book = asking(WhileWaiting.ANSWER)
    decision = decide(floor, book, message(mode))
    assert (decision.outcome, decision.reason, decision.taker) == (STEERED, Why.ANSWERED, floor.run(2))

    assert floor.done == []


def test_a_message_supersedes_who_asks_unless_the_session_says_otherwise() -> None:
    floor, book = asking(None)

    assert decide(floor, book, message()).supersedes == [floor.run(2), floor.run(3)]


@pytest.mark.parametrize(
    ("rule", "new"),
    [
        (WhileWaiting.QUEUE, message(Mode.STEER)),
        (WhileWaiting.CANCEL, message(Mode.INTERRUPT)),
        (WhileWaiting.ANSWER, message(Mode.REJECT)),
        (WhileWaiting.ANSWER, message(user="eve")),
        (WhileWaiting.CANCEL, message(delay=5)),
        (WhileWaiting.CANCEL, message(inside=True)),
    ],
    ids=["queue", "interrupt", "reject", "another user", "later", "inside"],
)
def test_whom_the_rule_is_not_for_goes_by_the_mode(rule: WhileWaiting, new: NewRun) -> None:
    floor, book = asking(rule)
    mode_alone = floor.book(Rule(max_concurrent=4))

    assert decide(floor, book, new) == decide(floor, mode_alone, new)


def test_an_open_window_takes_a_message_before_it_could_answer() -> None:
    floor, book = asking(WhileWaiting.ANSWER)
    floor.coming = [Fake(9)]
    book.windows = [Window("work", "ann", 9, 100)]

    decision = decide(floor, book, message())

    assert (decision.outcome, decision.taker) == (MERGED, floor.run(9))


def test_stop_cancels_the_oldest_that_is_not_cancelled_and_keeps_its_inbox() -> None:
    floor = FakeFloor([Fake(5)], [Fake(1, cancelled=True), Fake(2), Fake(3)], [Fake(7)])

    assert stop(floor, CHAT) == [floor.started[1]]
    assert floor.done == [("cancel", 2, False)]
    assert stop(FakeFloor(started=[Fake(1, cancelled=True)]), CHAT) == []
    assert stop(FakeFloor([Fake(5)]), CHAT) == []


@pytest.mark.parametrize(("abandon", "verb", "why"), [(False, "cancel", Why.STOPPED), (True, "abandon", Why.RESET)])
def test_stop_all_drops_what_was_never_started_and_cancels_the_rest(abandon: bool, verb: str, why: Why) -> None:
    floor = FakeFloor([Fake(5), Fake(6)], [Fake(1, cancelled=True), Fake(2)], [Fake(7)])

    cancelled, dropped = stop_all(floor, CHAT, abandon=abandon)

    assert ([run.number for run in cancelled], [run.number for run in dropped]) == ([2], [5, 6, 7])
    assert floor.done == [*(("drop", number, why) for number in (7, 6, 5)), (verb, 1, True), (verb, 2, True)]


def test_what_is_left_unread_becomes_one_run_per_task_and_user() -> None:
    def steered(id: str, task: str, user: str | None, lane: str = "main", priority: int = 0) -> Message:  # noqa: A002 - the field's own name
        kind = MessageKind.STEERED
        return Message(id=id, kind=kind, nth=1, task=task, args="{}", lane=lane, user=user, priority=priority)

    first, second = steered("a", "work", "ann", "team", 3), steered("b", "work", None)
    third, fourth = steered("c", "work", "ann", "cron"), steered("d", "mail", "ann")

    made = left_over([first, second, third, fourth], CHAT)

    assert [(new.id, new.task, new.user, new.lane, new.priority, messages) for new, messages in made] == [
        ("a", "work", "ann", "team", 3, [first, third]),
        ("b", "work", None, "main", 0, [second]),
        ("d", "mail", "ann", "main", 0, [fourth]),
    ]
    assert all(new.inside and new.session == CHAT and new.arrival is None for new, _ in made)
    assert left_over([], CHAT) == []
