"""The ledger finds what is planted: a check that cannot fail would prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway import Event, Run
from laneway.core.records.states import RunState
from tests.system.oracle.journal import How, Journal, Line, What
from tests.system.oracle.ledger import RULES, Books, take_turns

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKER, OTHER = "worker-1", "worker-2"


@dataclass
class World:
    """Two runs of one session, executed one after the other as they should be; a test then spoils something."""

    runs: dict[str, Run] = field(default_factory=dict)
    logs: dict[str, list[Event]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def add(
        self, run: str, *, at: int, user: str = "ann", session: str | None = "session-1", lane: str = "wide"
    ) -> None:
        """Add a run that was executed from second `at` on for five seconds."""
        result = {"fence": 1, "process": WORKER}
        self.runs[run] = Run(
            id=run,
            number=len(self.runs) + 1,
            task="linger",
            args={},
            lane=lane,
            user=user,
            session=session,
            state=RunState.SUCCEEDED,
            fence=1,
            accepted_at=START + timedelta(microseconds=len(self.runs)),
            due_at=START,
            result=result,
        )
        self.logs[run] = []
        self.log(run, "started", at=at)
        self.log(run, "result", at=at + 5)
        self.log(run, "done", at=at + 5)
        self.lines.append(Line(What.ACCEPTED, "producer-1", 0, run))
        self.execute(run, at=at, until=at + 5)

    def execute(self, run: str, *, at: int, until: int | None, fence: int = 1, process: str = WORKER) -> None:
        """Let a handler run, in the world."""
        self.lines.append(Line(What.START, process, at, run, fence, 1))
        if until is not None:
            self.lines.append(Line(What.END, process, until, run, fence, 1, How.RETURNED))

    def log(self, run: str, kind: str, *, at: int = 0, data: Any = None, first: bool = False) -> None:
        """Write an event, as the last one or as the first."""
        event = Event(run, 0, kind, data, 1, START + timedelta(seconds=at))
        self.logs[run].insert(0 if first else len(self.logs[run]), event)
        self.logs[run] = [msgspec.structs.replace(one, seq=seq) for seq, one in enumerate(self.logs[run], 1)]

    def change(self, run: str, **facts: Any) -> None:
        """Change what the store says of a run."""
        self.runs[run] = msgspec.structs.replace(self.runs[run], **facts)

    def wrong(self, folder: Path) -> Iterator[str]:
        """Yield what the ledger finds."""
        path = folder / "journal"
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in self.lines))
        books = Books(self.runs, self.logs, Journal(path))
        return (line for rule in RULES for line in rule(books))


@pytest.fixture
def world() -> World:
    world = World()
    world.add("first", at=10)
    world.add("second", at=20)
    return world


def test_nothing_is_wrong_with_what_is_right(world: World, tmp_path: Path) -> None:
    assert list(world.wrong(tmp_path)) == []


def lose_a_run(world: World) -> None:
    del world.runs["second"]


def leave_a_run_unfinished(world: World) -> None:
    world.change("second", state=RunState.RUNNING)


def end_a_run_twice(world: World) -> None:
    world.log("first", "done", at=16)


def write_after_the_end(world: World) -> None:
    world.log("first", "log", at=16)


def leave_a_gap(world: World) -> None:
    del world.logs["first"][1]


def forget_a_start(world: World) -> None:
    world.change("first", fence=2, result={"fence": 1, "process": WORKER})


def give_a_run_back_that_nobody_had(world: World) -> None:
    world.log("first", "lapsed", first=True)


def write_an_event_twice(world: World) -> None:
    for _ in range(2):
        world.log("first", "mark", data={"fence": 1, "mark": 0}, first=True)


def hold_a_run_twice(world: World) -> None:
    world.execute("first", at=12, until=18, fence=2, process=OTHER)


def take_a_run_from_the_living(world: World) -> None:
    world.add("third", at=30, session=None)
    del world.lines[-1]
    world.execute("third", at=32, until=35, fence=2, process=OTHER)


def write_a_late_workers_result(world: World) -> None:
    world.change("first", result={"fence": 1, "process": OTHER})


def start_a_session_in_the_wrong_order(world: World) -> None:
    world.add("third", at=5)


def run_a_session_twice_at_once(world: World) -> None:
    world.add("third", at=22)


def leave_a_run_of_a_session_for_another(world: World) -> None:
    world.execute("first", at=26, until=27, fence=2)


def exceed_a_lane(world: World) -> None:
    for number in range(3):
        world.add(f"narrow-{number}", at=30, user=f"user-{number}", session=None, lane="narrow")


def exceed_a_user(world: World) -> None:
    for number in range(4):
        world.add(f"wide-{number}", at=30, session=None)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lose_a_run, "it is not there"),
        (leave_a_run_unfinished, "it never ended"),
        (end_a_run_twice, "2 done events"),
        (write_after_the_end, "the last event is ['log']"),
        (leave_a_gap, "have a gap"),
        (forget_a_start, "1 starts under 2 fences"),
        (give_a_run_back_that_nobody_had, "given back"),
        (write_an_event_twice, "its own events are [0, 0]"),
        (hold_a_run_twice, "went on when"),
        (take_a_run_from_the_living, "went on when"),
        (write_a_late_workers_result, "has the result"),
        (start_a_session_in_the_wrong_order, "run 3 started before"),
        (run_a_session_twice_at_once, "session session-1: 2 at once"),
        (leave_a_run_of_a_session_for_another, "began, then another"),
        (exceed_a_lane, "lane narrow: 3 at once"),
        (exceed_a_user, "user ann: 4 at once"),
    ],
)
def test_the_ledger_finds_it_if_you(
    world: World, tmp_path: Path, spoil: Callable[[World], None], complaint: str
) -> None:
    spoil(world)

    found = list(world.wrong(tmp_path))
    assert any(complaint in line for line in found), found


def test_a_frozen_process_holds_nothing_that_lapsed(world: World, tmp_path: Path) -> None:
    world.add("third", at=30, session=None)
    world.lines.append(Line(What.FREEZE, WORKER, 31))
    world.execute("third", at=32, until=33, fence=2, process=OTHER)
    world.change("third", fence=2, result={"fence": 2, "process": OTHER})
    world.log("third", "lapsed", first=True)
    world.log("third", "started", at=29, first=True)

    assert list(world.wrong(tmp_path)) == []


@pytest.mark.parametrize(("taken", "excused"), [(24, True), (35, False), (None, False)])
def test_what_a_frozen_process_was_about_to_begin_may_begin_when_it_goes_on_and_nothing_else(
    world: World, tmp_path: Path, taken: int | None, excused: bool
) -> None:
    world.add("third", at=36, session=None)
    world.lines.append(Line(What.FREEZE, WORKER, 25))
    if taken is not None:
        world.lines.append(Line(What.TAKEN, WORKER, taken, "third", 1))
    world.execute("third", at=32, until=33, fence=2, process=OTHER)
    world.change("third", fence=2, result={"fence": 2, "process": OTHER})
    world.log("third", "lapsed", first=True)
    world.log("third", "started", at=29, first=True)

    assert (list(world.wrong(tmp_path)) == []) is excused


def test_a_dead_process_holds_nothing(world: World, tmp_path: Path) -> None:
    world.add("third", at=30, session=None)
    del world.lines[-1]
    world.lines.append(Line(What.DEATH, WORKER, 31))
    world.execute("third", at=32, until=35, fence=2, process=OTHER)
    world.change("third", fence=2, result={"fence": 2, "process": OTHER})
    world.log("third", "lapsed", first=True)
    world.log("third", "started", at=29, first=True)

    assert list(world.wrong(tmp_path)) == []


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("started done", True),
        ("started lapsed started released started done", True),
        ("lapsed started done", False),
        ("started started done", False),
        ("started lapsed lapsed started done", False),
        ("started question answered started done", True),
        ("started question question called answered started returned started done", True),
        ("started question lapsed started done", False),
        ("started lapsed question started done", False),
        ("question started done", False),
    ],
)
def test_starts_and_returns_take_turns_and_who_waits_has_returned(kinds: str, expected: bool) -> None:
    assert take_turns(kinds.split()) is expected
