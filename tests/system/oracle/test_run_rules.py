"""The rules of runs, sessions and limits find what is planted: a check that cannot fail would prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.core.records.states import RunState
from tests.system.load.app import stroll
from tests.system.oracle.journal import Frozen, Killed, LeaseChecked
from tests.system.oracle.run_rules import take_turns
from tests.system.oracle.world import OTHER, WORKER, World


@pytest.fixture
def world() -> World:
    """Two runs of one session, executed one after the other."""
    world = World()
    world.add("first", at=10, session="session-1")
    world.add("second", at=20, session="session-1")
    return world


def test_nothing_is_wrong_with_what_is_right(world: World, tmp_path: Path) -> None:
    assert world.wrong(tmp_path) == []


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


def succeed_without_its_own_events(world: World) -> None:
    world.change("first", task=stroll.name)


def hold_a_run_twice(world: World) -> None:
    world.execute("first", at=12, until=18, fence=2, process=OTHER)


def take_a_run_from_the_living(world: World) -> None:
    world.add("third", at=30)
    del world.entries[-1]
    world.execute("third", at=32, until=35, fence=2, process=OTHER)


def write_a_late_workers_result(world: World) -> None:
    world.change("first", result={"fence": 1, "process": OTHER})


def start_a_session_in_the_wrong_order(world: World) -> None:
    world.add("third", at=5, session="session-1")


def run_a_session_twice_at_once(world: World) -> None:
    world.add("third", at=22, session="session-1")


def leave_a_run_of_a_session_for_another(world: World) -> None:
    world.execute("first", at=26, until=27, fence=2)


def exceed_a_lane(world: World) -> None:
    for number in range(3):
        world.add(f"narrow-{number}", at=30, user=f"user-{number}", lane="narrow")


def exceed_a_user(world: World) -> None:
    for number in range(4):
        world.add(f"wide-{number}", at=30)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lose_a_run, "run second is not there"),
        (leave_a_run_unfinished, "it never ended"),
        (end_a_run_twice, "2 done events"),
        (write_after_the_end, "the last event is ['log']"),
        (leave_a_gap, "have a gap"),
        (forget_a_start, "1 starts under 2 fences"),
        (give_a_run_back_that_nobody_had, "given back"),
        (write_an_event_twice, "its own events are [0, 0]"),
        (succeed_without_its_own_events, "succeeded without all its own events"),
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
def test_the_rules_find_it_if_you(world: World, tmp_path: Path, spoil: Callable[[World], None], complaint: str) -> None:
    spoil(world)

    found = world.wrong(tmp_path)
    assert any(complaint in line for line in found), found


def test_a_frozen_process_holds_nothing_that_lapsed(world: World, tmp_path: Path) -> None:
    world.add("third", at=30)
    world.entries.append(Frozen(WORKER, 31))
    world.execute("third", at=32, until=33, fence=2, process=OTHER)
    world.change("third", fence=2, result={"fence": 2, "process": OTHER})
    world.log("third", "lapsed", first=True)
    world.log("third", "started", at=29, first=True)

    assert world.wrong(tmp_path) == []


@pytest.mark.parametrize(("checked", "excused"), [(24, True), (35, False), (None, False)])
def test_a_frozen_process_may_begin_only_what_it_was_about_to_begin(
    world: World, tmp_path: Path, checked: int | None, excused: bool
) -> None:
    world.add("third", at=36)
    world.entries.append(Frozen(WORKER, 25))
    if checked is not None:
        world.entries.append(LeaseChecked(WORKER, checked, "third", 1))
    world.execute("third", at=32, until=33, fence=2, process=OTHER)
    world.change("third", fence=2, result={"fence": 2, "process": OTHER})
    world.log("third", "lapsed", first=True)
    world.log("third", "started", at=29, first=True)

    assert (world.wrong(tmp_path) == []) is excused


def test_a_dead_process_holds_nothing(world: World, tmp_path: Path) -> None:
    world.add("third", at=30)
    del world.entries[-1]
    world.entries.append(Killed(WORKER, 31))
    world.execute("third", at=32, until=35, fence=2, process=OTHER)
    world.change("third", fence=2, result={"fence": 2, "process": OTHER})
    world.log("third", "lapsed", first=True)
    world.log("third", "started", at=29, first=True)

    assert world.wrong(tmp_path) == []


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
def test_starts_and_returns_take_turns_and_a_run_that_waits_has_returned(kinds: str, expected: bool) -> None:
    assert take_turns(kinds.split()) is expected
