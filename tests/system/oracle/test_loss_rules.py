"""The rules of a store with losses find what is planted: a check that cannot fail would prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.core.records.states import RunState
from tests.system.oracle.check import wrong_after_loss
from tests.system.oracle.journal import Accepted
from tests.system.oracle.world import OTHER, PRODUCER, WORKER, World


@pytest.fixture
def world() -> World:
    """A run that was executed again when the store had lost its end, and an acknowledged one that is gone."""
    world = World()
    world.add("first", at=10)
    world.execute("first", at=20, until=25, process=OTHER)
    world.change("first", result={"fence": 1, "process": OTHER})
    world.entries.append(Accepted(PRODUCER, 0, "gone"))
    return world


def test_nothing_is_wrong_with_what_may_be_lost(world: World, tmp_path: Path) -> None:
    assert wrong_after_loss(world.record(tmp_path)) == []


def leave_a_run_unfinished(world: World) -> None:
    world.change("first", state=RunState.RUNNING)


def execute_a_run_twice_in_one_process(world: World) -> None:
    world.execute("first", at=12, until=14, fence=2)


def write_a_result_that_nobody_returned(world: World) -> None:
    world.change("first", result={"fence": 2, "process": WORKER})


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (leave_a_run_unfinished, "it never ended"),
        (execute_a_run_twice_in_one_process, "was started by worker-1, which was executing it"),
        (write_a_result_that_nobody_returned, "no attempt of it returned that"),
    ],
)
def test_the_rules_find_it_if_you(world: World, tmp_path: Path, spoil: Callable[[World], None], complaint: str) -> None:
    spoil(world)

    found = wrong_after_loss(world.record(tmp_path))
    assert any(complaint in line for line in found), found
