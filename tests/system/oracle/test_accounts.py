"""The accounts find what is planted: books that always agree would prove nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway import Event, Run
from laneway.core.records.run import Message, MessageKind
from laneway.core.records.states import RunState
from tests.system.load.messages import SHAPES
from tests.system.oracle.account_rules import wrong
from tests.system.oracle.accounts import Accounts
from tests.system.oracle.journal import How, Journal, Line, What
from tests.system.oracle.ledger import Books
from tests.system.oracle.notes import Answer, Answered, Called, Note, Notes, Read, Sent, Stopped

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKER, PRODUCER, DEAD = "worker-1", "producer-1", "producer-2"

# Sessions by what the tests need of their shapes.
PLAIN = "chat-0-0"
STEERED = f"chat-0-{next(n for n, shape in enumerate(SHAPES) if shape.steers and not shape.clears)}"
COLLECTED = f"chat-0-{next(n for n, shape in enumerate(SHAPES) if shape.modes == ('collect',))}"
CLEARED = f"chat-0-{next(n for n, shape in enumerate(SHAPES) if shape.steers and shape.clears)}"


@dataclass
class World:
    """Messages 1 to 12, of which each became something else; a test then spoils a book."""

    runs: dict[str, Run] = field(default_factory=dict)
    logs: dict[str, list[Event]] = field(default_factory=dict)
    taken: dict[str, list[Message]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, name: str, number: int, session: str, *, at: int, state: str = "succeeded", **facts: Any) -> None:
        """Add a run of one message that was accepted at second `at`, and started and ended if its state says so."""
        begun = state != "dropped"
        self.runs[name] = Run(
            id=name,
            number=len(self.runs) + 1,
            task="reply",
            args={"numbers": [number], "delay": 0, "debounce": 0},
            lane="wide",
            user=f"user of {name}",
            session=session,
            state=RunState(state),
            fence=int(begun),
            accepted_at=START + timedelta(seconds=at),
            due_at=START + timedelta(seconds=at),
            ended_at=START + timedelta(seconds=at + 5),
            result={"fence": 1, "process": WORKER} if state == "succeeded" else None,
            messages=len(self.taken.get(name, ())),
            **facts,
        )
        kinds = {"dropped": ["dropped", "done"], "cancelled": ["started", "cancel_requested", "done"]}
        self.log(name, kinds.get(state, ["started", "done"]), at=at + 1)
        if begun:
            how = How.RETURNED if state == "succeeded" else How.STOPPED
            self.lines.append(Line(What.START, WORKER, at + 1, name, 1, 1))
            self.lines.append(Line(What.END, WORKER, at + 5, name, 1, 1, how))

    def log(self, run: str, kinds: Iterable[str], *, at: int) -> None:
        """Write the events of a run, all of one second."""
        times = START + timedelta(seconds=at)
        self.logs[run] = [Event(run, seq, kind, None, 1, times) for seq, kind in enumerate(kinds, 1)]

    def take(self, run: str, number: int, kind: str, name: str = "") -> None:
        """Let a run take a message."""
        of_run = self.taken.setdefault(run, [])
        nth = 1 + sum(message.kind.value == kind for message in of_run)
        args = msgspec.json.encode({"numbers": [number]}).decode()
        of_run.append(
            Message(id=name or f"m{number}", kind=MessageKind(kind), nth=nth, task="reply", args=args, lane="wide")
        )

    def answer(self, number: int, outcome: str, run: str, reason: str | None = None) -> None:
        """Note a message and its receipt."""
        self.notes.append(Sent(PRODUCER, [number]))
        self.notes.append(Answered([Answer(number, outcome, run, reason)]))

    def replace(self, old: Note, new: Note) -> None:
        """Change what was noted."""
        self.notes[self.notes.index(old)] = new

    def change(self, run: str, **facts: Any) -> None:
        """Change what the store says of a run."""
        self.runs[run] = msgspec.structs.replace(self.runs[run], **facts)

    def accounts(self, folder: Path) -> Accounts:
        """Return the books."""
        path = folder / "journal"
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in self.lines))
        return Accounts(Books(self.runs, self.logs, Journal(path)), self.taken, self.counts, Notes(self.notes))


@pytest.fixture
def world() -> World:
    world = World()
    for run, number in (("collected", 1), ("steered", 3), ("full", 6), ("first", 7), ("second", 8), ("cleared", 10)):
        world.answer(number, "accepted", run)
    # One that took another.
    world.take("collected", 2, "merged")
    world.answer(2, "merged", "collected")
    world.run("collected", 1, COLLECTED, at=10)
    world.notes += [Called("collected", 1, [1, 2]), Read("collected", 1, [])]
    # One that was steered twice and read one of the two: the other became a run.
    world.take("steered", 4, "steered")
    world.take("steered", 5, "steered", "left")
    for number in (4, 5):
        world.answer(number, "steered", "steered")
    world.run("steered", 3, STEERED, at=20)
    world.run("left", 5, STEERED, at=30)
    world.notes += [Called("steered", 1, [3]), Read("steered", 1, [4]), Called("left", 1, [5]), Read("left", 1, [])]
    # One that was displaced, two that were not, and one that was refused.
    world.run("full", 6, PLAIN, at=40, state="dropped", reason="session_full")
    world.run("first", 7, PLAIN, at=41)
    world.run("second", 8, PLAIN, at=50)
    world.notes += [Called("first", 1, [7]), Read("first", 1, []), Called("second", 1, [8]), Read("second", 1, [])]
    world.answer(9, "refused", "m9", "session_busy")
    # One that was stopped together with what it had not read.
    world.take("cleared", 11, "steered")
    world.answer(11, "steered", "cleared")
    world.run("cleared", 10, CLEARED, at=60, state="cancelled")
    world.notes += [Called("cleared", 1, [10]), Read("cleared", 1, []), Stopped(CLEARED, True, ["cleared"], [])]
    # One whose producer died.
    world.notes.append(Sent(DEAD, [12]))
    world.lines.append(Line(What.DEATH, DEAD, 0))
    world.counts.update(
        {"merged": 1, "steered": 3, "dropped session_full": 1, "refused session_busy": 1, "dropped unread": 1}
    )
    return world


def test_nothing_is_wrong_with_what_is_right(world: World, tmp_path: Path) -> None:
    accounts = world.accounts(tmp_path)

    assert wrong(accounts) == []
    assert accounts.fates() == {
        "a run: succeeded": 4,
        "merged: succeeded": 1,
        "steered and read: succeeded": 1,
        "left unread, then a run: succeeded": 1,
        "a run: dropped session_full": 1,
        "a run: cancelled": 1,
        "refused session_busy": 1,
        "dropped unread": 1,
        "never stored": 1,
    }


def lose_a_message_that_was_accepted(world: World) -> None:
    world.answer(13, "accepted", "nowhere")


def lose_a_message_that_was_merged(world: World) -> None:
    world.taken["collected"].clear()


def lose_a_message_of_a_key(world: World) -> None:
    world.answer(13, "existing", "first")


def refuse_without_a_reason(world: World) -> None:
    world.answer(13, "refused", "m13")


def answer_what_was_refused(world: World) -> None:
    world.run("refused", 9, PLAIN, at=70)


def answer_what_nobody_sent(world: World) -> None:
    world.run("unsent", 13, PLAIN, at=70)


def leave_a_living_producer_without_an_answer(world: World) -> None:
    world.notes.append(Sent(PRODUCER, [13]))


def answer_a_message_twice(world: World) -> None:
    world.run("again", 7, PLAIN, at=70)


def call_without_a_message_that_was_merged(world: World) -> None:
    world.replace(Called("collected", 1, [1, 2]), Called("collected", 1, [1]))


def call_with_messages_in_the_wrong_order(world: World) -> None:
    world.replace(Called("collected", 1, [1, 2]), Called("collected", 1, [2, 1]))


def succeed_without_a_call(world: World) -> None:
    world.notes.remove(Called("first", 1, [7]))


def leave_a_steered_message_unread(world: World) -> None:
    world.replace(Read("steered", 1, [4]), Read("steered", 1, []))


def read_a_message_and_run_it_too(world: World) -> None:
    world.replace(Read("steered", 1, [4]), Read("steered", 1, [4, 5]))


def read_in_the_wrong_order(world: World) -> None:
    world.replace(Read("steered", 1, [4]), Read("steered", 1, [5]))


def take_a_message_along_that_nobody_stopped(world: World) -> None:
    world.change("cleared", session=STEERED)


def cancel_what_nobody_stopped(world: World) -> None:
    world.change("first", state=RunState.CANCELLED)


def cancel_without_an_event(world: World) -> None:
    world.log("cleared", ["started", "done"], at=61)


def fail_without_a_reason(world: World) -> None:
    world.change("second", state=RunState.FAILED)


def drop_without_an_event(world: World) -> None:
    world.log("full", ["done"], at=41)


def drop_what_had_started(world: World) -> None:
    world.change("full", fence=1)


def go_on_after_a_stop(world: World) -> None:
    world.notes.append(Stopped(PLAIN, False, ["first"], []))


def start_what_was_dropped_by_a_stop(world: World) -> None:
    world.notes.append(Stopped(PLAIN, True, [], ["second"]))


def start_in_the_wrong_order(world: World) -> None:
    world.log("first", ["started", "done"], at=59)


def answer_in_the_wrong_order(world: World) -> None:
    first, second = Called("first", 1, [7]), Called("second", 1, [8])
    place = world.notes.index(first)
    world.replace(second, first)
    world.notes[place] = second


def run_a_serial_session_twice_at_once(world: World) -> None:
    world.lines += [Line(What.START, WORKER, 43, "second", 2, 1), Line(What.END, WORKER, 44, "second", 2, 1)]


def exceed_a_user(world: World) -> None:
    for run in ("collected", "steered", "first"):
        world.change(run, user="ann")
        world.lines.append(Line(What.START, WORKER, 100, run, 2, 1))


def exceed_a_worker(world: World) -> None:
    for run in ("collected", "steered", "first"):
        world.change(run, lane="tight")
        world.lines.append(Line(What.START, WORKER, 100, run, 2, 1))


def exceed_a_cap(world: World) -> None:
    for number in range(SHAPES[0].cap + 1):
        world.run(f"more-{number}", 20 + number, PLAIN, at=70)


def miscount(what: str, by: int) -> Callable[[World], None]:
    def spoil(world: World) -> None:
        world.counts[what] += by

    return spoil


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lose_a_message_that_was_accepted, "message 13 was accepted by run nowhere"),
        (lose_a_message_that_was_merged, "message 2 was merged by run collected"),
        (lose_a_message_of_a_key, "message 13 exists in run first"),
        (refuse_without_a_reason, "message 13 was refused without a reason"),
        (answer_what_was_refused, "message 9 was refused (session_busy), and is in"),
        (answer_what_nobody_sent, "nobody sent it"),
        (leave_a_living_producer_without_an_answer, "message 13 got no receipt"),
        (answer_a_message_twice, "message 7 is in 2 places"),
        (call_without_a_message_that_was_merged, "was called with [1] under fence 1, and not with [1, 2]"),
        (call_with_messages_in_the_wrong_order, "was called with [2, 1]"),
        (succeed_without_a_call, "run first succeeded, and its handler was never called"),
        (leave_a_steered_message_unread, "run steered left [4, 5] unread, and [5] became runs"),
        (read_a_message_and_run_it_too, "run steered left [] unread, and [5] became runs"),
        (read_in_the_wrong_order, "run steered read [5], and what came for it was [4, 5]"),
        (take_a_message_along_that_nobody_stopped, "run cleared took [11] with it"),
        (cancel_what_nobody_stopped, "run first of session chat-0-0 was cancelled, and nobody asked for that"),
        (cancel_without_an_event, "run cleared of session"),
        (fail_without_a_reason, "run second failed without a reason"),
        (drop_without_an_event, "run full was dropped: reason session_full, fence 0, events ['done']"),
        (drop_what_had_started, "run full was dropped: reason session_full, fence 1"),
        (go_on_after_a_stop, "run first was stopped, and is succeeded"),
        (start_what_was_dropped_by_a_stop, "run second was dropped by a stop, and is succeeded"),
        (start_in_the_wrong_order, "session chat-0-0: run 6 started before run 5"),
        (answer_in_the_wrong_order, "session chat-0-0 was answered out of order: [8, 7]"),
        (run_a_serial_session_twice_at_once, "session chat-0-0: 2 at once"),
        (exceed_a_user, "lane wide, user ann: 3 at once"),
        (exceed_a_worker, "lane tight: 3 at once in worker-1"),
        (exceed_a_cap, "were queued, the cap is"),
        (miscount("merged", -1), "merged: counted are 0, and there were 1 to 1"),
        (miscount("steered", 1), "steered: counted are 4, and there were 3 to 3"),
        (miscount("dropped session_full", -1), "dropped session_full: counted are 0"),
        (miscount("dropped unread", 1), "dropped unread: counted are 2"),
        (miscount("dropped reset", 1), "dropped reset: counted are 1, and there were 0 to 0"),
        (miscount("refused session_busy", -1), "refused session_busy: counted are 0"),
    ],
)
def test_the_accounts_find_it_if_you(
    world: World, tmp_path: Path, spoil: Callable[[World], None], complaint: str
) -> None:
    spoil(world)

    found = wrong(world.accounts(tmp_path))
    assert any(complaint in line for line in found), found


def test_what_was_dropped_may_be_sent_again(world: World, tmp_path: Path) -> None:
    world.run("once more", 6, PLAIN, at=70)
    world.notes += [Called("once more", 1, [6]), Read("once more", 1, [])]
    world.answer(6, "accepted", "once more")

    assert wrong(world.accounts(tmp_path)) == []
