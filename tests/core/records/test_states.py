"""A run's life: every state, every move."""

import pytest

from laneway.core.records.states import MOVES, TERMINAL, Move, RunState, after, diagram
from laneway.errors import BadSetting, WrongState

# Written from the design's prose, not from the table.
STORY = """
pending:  claim running, pause paused, cancel cancelled, drop dropped
running:  succeed succeeded, retry pending, fail failed, release pending, snooze pending, lapse pending,
          pause paused, ask waiting, call waiting, cancel cancelled
waiting:  answer pending, cancel cancelled
paused:   resume pending, cancel cancelled, drop dropped
"""


def told() -> dict[tuple[str, str], str]:
    moves: dict[tuple[str, str], str] = {}
    state = ""
    for line in STORY.strip().splitlines():
        head, _, rest = line.rpartition(":")
        state = head.strip() or state
        for step in rest.strip().strip(",").split(", "):
            move, goal = step.split()
            moves[state, move] = goal
    return moves


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("move", Move)
def test_a_move_leads_where_the_story_says_or_is_refused(state: RunState, move: Move) -> None:
    goal = told().get((state.value, move.value))

    if goal is not None:
        assert after(state, move) is RunState(goal)
        return
    with pytest.raises(WrongState, match=f"a {state} run cannot be ") as refused:
        after(state, move)
    assert (refused.value.state, refused.value.move) == (state.value, move.value)


def test_the_table_holds_nothing_beside_the_story() -> None:
    assert {(state.value, move.value): goal.value for (state, move), goal in MOVES.items()} == told()


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_leads_out_of_a_terminal_state(state: RunState) -> None:
    assert [move for start, move in MOVES if start is state] == []


@pytest.mark.parametrize("state", sorted(set(RunState) - TERMINAL))
def test_every_other_state_leads_to_an_end(state: RunState) -> None:
    reached = {state}
    while more := {goal for (start, _), goal in MOVES.items() if start in reached} - reached:
        reached |= more

    assert reached & TERMINAL


def test_every_state_can_be_reached_from_pending() -> None:
    reached = {RunState.PENDING}
    while more := {goal for (start, _), goal in MOVES.items() if start in reached} - reached:
        reached |= more

    assert reached == set(RunState)


def test_the_diagram_shows_every_move_once() -> None:
    lines = [line.strip() for line in diagram().splitlines()]

    assert lines[:2] == ["stateDiagram-v2", "[*] --> pending"]
    shown = [line for line in lines if ": " in line]
    assert sorted(shown) == sorted(f"{start} --> {goal}: {move}" for (start, move), goal in told().items())
    assert sorted(line for line in lines if line.endswith("[*]")) == sorted(f"{state} --> [*]" for state in TERMINAL)


def test_a_state_is_found_by_its_name() -> None:
    assert RunState.named("running") is RunState.RUNNING
    with pytest.raises(BadSetting, match="unknown state 'zzz'; it can be cancelled, dropped, failed"):
        RunState.named("zzz")
