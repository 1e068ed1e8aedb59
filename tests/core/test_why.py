"""Why a run waits: complete and sound over the facts."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import msgspec
import pytest

from laneway.core.instants import instant
from laneway.core.policy import Lane
from laneway.core.run import Gate, Reason
from laneway.core.states import RunState
from laneway.core.why import SHOWN, Waiting, reasons

FREE = Waiting(
    state=RunState.PENDING,
    now=100,
    due_at=100,
    task="mail",
    lane=Lane("main", limit=2, per_user=5),
    user="ann",
    session="chat",
    user_cap=1,
    known=1,
    open_to=1,
    fit=1,
)

# Each closed gate by itself: what makes it so, and the reason.
CLOSED: dict[str, tuple[dict[str, Any], Reason]] = {
    "due": ({"due_at": 101}, Reason(Gate.NOT_DUE, opens_at=instant(101))),
    "session paused": ({"session_paused": True}, Reason(Gate.PAUSED, "session chat")),
    "session": ({"before": ["a", "b"]}, Reason(Gate.SESSION_BUSY, "session chat", runs=("a", "b"), ahead=2)),
    "task paused": ({"task_paused": True}, Reason(Gate.PAUSED, "task mail")),
    "lane paused": ({"lane_paused": True}, Reason(Gate.PAUSED, "lane main")),
    "lane": ({"lane_active": ["c", "d"]}, Reason(Gate.LANE_FULL, "lane main", runs=("c", "d"))),
    "user paused": ({"user_paused": True}, Reason(Gate.PAUSED, "user ann")),
    "user": ({"user_active": ["c"]}, Reason(Gate.USER_AT_CAP, "user ann", runs=("c",))),
    "nobody": ({"known": 0, "open_to": 0, "fit": 0}, Reason(Gate.NO_WORKER, "task mail")),
    "worker": ({"open_to": 0, "fit": 0}, Reason(Gate.LANE_FULL, "lane main per worker")),
    "memory": ({"fit": 0}, Reason(Gate.MEMORY_SHORT, "workers")),
}
SETS = list(chain.from_iterable(combinations(CLOSED, size) for size in range(1, len(CLOSED) + 1)))


def waiting(*gates: str, **facts: Any) -> Waiting:
    closed: dict[str, Any] = {}
    for gate in gates:
        closed |= CLOSED[gate][0]
    return msgspec.structs.replace(FREE, **closed | facts)


def test_with_every_gate_open_only_the_turn_is_left() -> None:
    assert reasons(waiting(ahead=3)) == [Reason(Gate.TURN, "lane main", ahead=3)]


def test_every_closed_gate_is_named_and_no_other() -> None:
    for gates in SETS:
        expected = [CLOSED[gate][1] for gate in CLOSED if gate in gates]
        # Who is not there has no limit to meet, and who has met it no need of memory.
        of_workers = [gate for gate in ("nobody", "worker", "memory") if gate in gates]
        expected = [reason for reason in expected if reason not in [CLOSED[gate][1] for gate in of_workers[1:]]]

        assert reasons(waiting(*gates)) == expected, gates


@pytest.mark.parametrize("state", [state for state in RunState if state not in (RunState.PENDING, RunState.PAUSED)])
def test_what_does_not_wait_has_no_reason(state: RunState) -> None:
    assert reasons(waiting(*CLOSED, state=state)) == []


def test_a_paused_run_names_itself_and_what_is_before_it() -> None:
    found = reasons(waiting("due", "session", "lane", "user", state=RunState.PAUSED))

    assert found == [Reason(Gate.PAUSED, "run"), CLOSED["due"][1], CLOSED["session"][1]]


def test_a_run_without_a_cap_or_at_one_that_is_not_reached_is_not_held_by_it() -> None:
    open_ = [Reason(Gate.TURN, "lane main", ahead=0)]

    assert reasons(waiting(user_active=["a"], user_cap=None)) == open_
    assert reasons(waiting(user_active=["a"], user_cap=2)) == open_
    assert reasons(waiting(lane_active=["a"])) == open_
    assert reasons(waiting(due_at=100)) == open_


def test_of_many_runs_the_first_are_named_and_all_are_counted() -> None:
    many = [f"r{index:03d}" for index in range(50)]

    [session, lane, user] = reasons(waiting(before=many, lane_active=many, user_active=many))

    assert session.runs == lane.runs == user.runs == tuple(many[:SHOWN])
    assert session.ahead == 50
