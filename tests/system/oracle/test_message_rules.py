"""The rules of messages find what is planted: a check that cannot fail would prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway.core.records.run import Message, MessageKind
from laneway.core.records.states import RunState
from tests.system.load import message_app
from tests.system.load.messages import SHAPES, shape_of
from tests.system.oracle.check import wrong
from tests.system.oracle.journal import Called, InboxRead, Killed, MessageReceipt, Received, Sent, SessionStopped
from tests.system.oracle.message_rules import fates
from tests.system.oracle.record import Asked
from tests.system.oracle.world import PRODUCER, WORKER, World

DEAD = "producer-2"

# Sessions by what the tests need of their shapes.
PLAIN = "chat-0-0"
STEERED = f"chat-0-{next(n for n, shape in enumerate(SHAPES) if shape.steers and not shape.clears)}"
COLLECTED = f"chat-0-{next(n for n, shape in enumerate(SHAPES) if shape.modes == ('collect',))}"
CLEARED = f"chat-0-{next(n for n, shape in enumerate(SHAPES) if shape.steers and shape.clears)}"


def message(
    world: World, run: str, number: int, session: str, *, at: int, state: str = "succeeded", **facts: Any
) -> None:
    """Add a run of one message that was accepted at second `at`, and started and ended if its state says so."""
    args = {"numbers": [number], "delay": 0, "debounce": 0}
    world.add(run, at=at + 1, accepted=at, state=state, session=session, args=args, user=f"user of {run}", **facts)


def log_anew(world: World, run: str, *kinds: str, at: int) -> None:
    """Replace the events of a run, all of one second."""
    world.logs[run] = []
    for kind in kinds:
        world.log(run, kind, at=at)


def take(world: World, run: str, number: int, kind: str, name: str = "") -> None:
    """Let a run take a message in."""
    of_run = world.messages.setdefault(run, [])
    nth = 1 + sum(message.kind.value == kind for message in of_run)
    args = msgspec.json.encode({"numbers": [number]}).decode()
    of_run.append(
        Message(id=name or f"m{number}", kind=MessageKind(kind), nth=nth, task="reply", args=args, lane="wide")
    )


def receipt(world: World, number: int, outcome: str, run: str, reason: str | None = None) -> None:
    """Write a message and its receipt into the journal."""
    world.entries.append(Sent(PRODUCER, 0, [number]))
    world.entries.append(Received(PRODUCER, 0, [MessageReceipt(number, outcome, run, reason)]))


def called(run: str, numbers: list[int]) -> Called:
    return Called(WORKER, 0, run, 1, numbers)


def inbox_read(run: str, numbers: list[int]) -> InboxRead:
    return InboxRead(WORKER, 0, run, 1, numbers)


def handled(world: World, run: str, numbers: list[int], read: Sequence[int] = ()) -> None:
    """Write a call of a handler with these messages, which read some others."""
    world.entries += [called(run, numbers), inbox_read(run, list(read))]


@pytest.fixture
def world() -> World:
    """Messages 1 to 12, of which each became something else."""
    world = World(asked=Asked(lanes=message_app.LANES, shape_of=shape_of))
    for run, number in (("collected", 1), ("steered", 3), ("full", 6), ("first", 7), ("second", 8), ("cleared", 10)):
        receipt(world, number, "accepted", run)
    # One that took another.
    take(world, "collected", 2, "merged")
    receipt(world, 2, "merged", "collected")
    message(world, "collected", 1, COLLECTED, at=10)
    handled(world, "collected", [1, 2])
    # One that was steered twice and read one of the two: the other became a run.
    take(world, "steered", 4, "steered")
    take(world, "steered", 5, "steered", "left")
    for number in (4, 5):
        receipt(world, number, "steered", "steered")
    message(world, "steered", 3, STEERED, at=20)
    message(world, "left", 5, STEERED, at=30)
    handled(world, "steered", [3], read=[4])
    handled(world, "left", [5])
    # One that was displaced, two that were not, and one that was refused.
    message(world, "full", 6, PLAIN, at=40, state="dropped", reason="session_full")
    message(world, "first", 7, PLAIN, at=41)
    message(world, "second", 8, PLAIN, at=50)
    handled(world, "first", [7])
    handled(world, "second", [8])
    receipt(world, 9, "refused", "m9", "session_busy")
    # One that was stopped together with a message that it had not read.
    take(world, "cleared", 11, "steered")
    receipt(world, 11, "steered", "cleared")
    message(world, "cleared", 10, CLEARED, at=60, state="cancelled")
    handled(world, "cleared", [10])
    world.entries.append(SessionStopped("test", 0, CLEARED, True, ["cleared"], []))
    # One whose producer died.
    world.entries += [Sent(DEAD, 0, [12]), Killed(DEAD, 0)]
    world.counts.update(
        {"merged": 1, "steered": 3, "dropped session_full": 1, "refused session_busy": 1, "dropped unread": 1}
    )
    return world


def test_nothing_is_wrong_with_what_is_right(world: World, tmp_path: Path) -> None:
    record = world.record(tmp_path)

    assert wrong(record) == []
    assert fates(record) == {
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
    receipt(world, 13, "accepted", "nowhere")


def lose_a_message_that_was_merged(world: World) -> None:
    world.messages["collected"].clear()


def lose_a_message_of_a_key(world: World) -> None:
    receipt(world, 13, "existing", "first")


def refuse_without_a_reason(world: World) -> None:
    receipt(world, 13, "refused", "m13")


def answer_what_was_refused(world: World) -> None:
    message(world, "refused", 9, PLAIN, at=70)


def answer_what_nobody_sent(world: World) -> None:
    message(world, "unsent", 13, PLAIN, at=70)


def leave_a_living_producer_without_an_answer(world: World) -> None:
    world.entries.append(Sent(PRODUCER, 0, [13]))


def answer_a_message_twice(world: World) -> None:
    message(world, "again", 7, PLAIN, at=70)


def call_without_a_message_that_was_merged(world: World) -> None:
    world.replace(called("collected", [1, 2]), called("collected", [1]))


def call_with_messages_in_the_wrong_order(world: World) -> None:
    world.replace(called("collected", [1, 2]), called("collected", [2, 1]))


def succeed_without_a_call(world: World) -> None:
    world.entries.remove(called("first", [7]))


def leave_a_steered_message_unread(world: World) -> None:
    world.replace(inbox_read("steered", [4]), inbox_read("steered", []))


def read_a_message_and_run_it_too(world: World) -> None:
    world.replace(inbox_read("steered", [4]), inbox_read("steered", [4, 5]))


def read_in_the_wrong_order(world: World) -> None:
    world.replace(inbox_read("steered", [4]), inbox_read("steered", [5]))


def take_a_message_along_that_nobody_stopped(world: World) -> None:
    world.change("cleared", session=STEERED)


def cancel_what_nobody_stopped(world: World) -> None:
    world.change("first", state=RunState.CANCELLED)


def cancel_without_an_event(world: World) -> None:
    log_anew(world, "cleared", "started", "done", at=61)


def fail_without_a_reason(world: World) -> None:
    world.change("second", state=RunState.FAILED)


def drop_without_an_event(world: World) -> None:
    log_anew(world, "full", "done", at=41)


def drop_what_had_started(world: World) -> None:
    world.change("full", fence=1)


def go_on_after_a_stop(world: World) -> None:
    world.entries.append(SessionStopped("test", 0, PLAIN, False, ["first"], []))


def start_what_was_dropped_by_a_stop(world: World) -> None:
    world.entries.append(SessionStopped("test", 0, PLAIN, True, [], ["second"]))


def start_in_the_wrong_order(world: World) -> None:
    log_anew(world, "first", "started", "done", at=59)


def answer_in_the_wrong_order(world: World) -> None:
    first, second = called("first", [7]), called("second", [8])
    place = world.entries.index(first)
    world.replace(second, first)
    world.entries[place] = second


def run_a_serial_session_twice_at_once(world: World) -> None:
    world.execute("second", at=43, until=44, fence=2)


def exceed_a_user(world: World) -> None:
    for run in ("collected", "steered", "first"):
        world.change(run, user="ann")
        world.execute(run, at=100, fence=2)


def exceed_a_worker(world: World) -> None:
    for run in ("collected", "steered", "first"):
        world.change(run, lane="tight")
        world.execute(run, at=100, fence=2)


def exceed_a_cap(world: World) -> None:
    for number in range(SHAPES[0].cap + 1):
        message(world, f"more-{number}", 20 + number, PLAIN, at=70)


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
def test_the_rules_find_it_if_you(world: World, tmp_path: Path, spoil: Callable[[World], None], complaint: str) -> None:
    spoil(world)

    found = world.wrong(tmp_path)
    assert any(complaint in line for line in found), found


def test_what_was_dropped_may_be_sent_again(world: World, tmp_path: Path) -> None:
    message(world, "once more", 6, PLAIN, at=70)
    handled(world, "once more", [6])
    receipt(world, 6, "accepted", "once more")

    assert world.wrong(tmp_path) == []
