"""Why a run waits: complete and sound over the facts."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import msgspec
import pytest

from laneway.core.common.instants import instant
from laneway.core.lifecycle.why import SHOWN, Waiting, reasons
from laneway.core.records.memos import Called, Question, Wait
from laneway.core.records.policy import Lane
from laneway.core.records.run import Gate, Reason
from laneway.core.records.states import RunState
from laneway.core.transfer.move_state import MovePhase, Moving

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
    safe=1,
)

AWAY = Moving(phase=MovePhase.SHUT, move="m", place="redis://there")
SHUT = Reason(Gate.SHUT, "move to redis://there")

# Each closed gate by itself: what makes it so, and the reason.
CLOSED: dict[str, tuple[dict[str, Any], Reason]] = {
    "shut": ({"moving": AWAY}, SHUT),
    "due": ({"due_at": 101}, Reason(Gate.NOT_DUE, opens_at=instant(101))),
    "session paused": ({"session_paused": True}, Reason(Gate.PAUSED, "session chat")),
    "session": ({"before": ["a", "b"]}, Reason(Gate.SESSION_BUSY, "session chat", runs=("a", "b"), ahead=2)),
    "task paused": ({"task_paused": True}, Reason(Gate.PAUSED, "task mail")),
    "lane paused": ({"lane_paused": True}, Reason(Gate.PAUSED, "lane main")),
    "lane": ({"lane_active": ["c", "d"]}, Reason(Gate.LANE_FULL, "lane main", runs=("c", "d"))),
    "user paused": ({"user_paused": True}, Reason(Gate.PAUSED, "user ann")),
    "user": ({"user_active": ["c"]}, Reason(Gate.USER_AT_CAP, "user ann", runs=("c",))),
    "nobody": ({"known": 0, "open_to": 0, "fit": 0, "safe": 0}, Reason(Gate.NO_WORKER, "task mail")),
    "worker": ({"open_to": 0, "fit": 0, "safe": 0}, Reason(Gate.LANE_FULL, "lane main per worker")),
    "memory": ({"fit": 0, "safe": 0}, Reason(Gate.MEMORY_SHORT, "workers")),
    "last chance": ({"safe": 0, "risks": ["e"]}, Reason(Gate.LAST_CHANCE, "workers", runs=("e",))),
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
        # Who is not there has no limit to meet, who has met it no need of memory, who has none nothing to be afraid of.
        of_workers = [gate for gate in ("nobody", "worker", "memory", "last chance") if gate in gates]
        expected = [reason for reason in expected if reason not in [CLOSED[gate][1] for gate in of_workers[1:]]]

        assert reasons(waiting(*gates)) == expected, gates


WAITS = (RunState.PENDING, RunState.PAUSED, RunState.WAITING)


@pytest.mark.parametrize("state", [state for state in RunState if state not in WAITS])
def test_what_does_not_wait_has_no_reason(state: RunState) -> None:
    assert reasons(waiting(*CLOSED, state=state)) == []


def test_a_paused_run_names_itself_and_what_is_before_it() -> None:
    found = reasons(waiting("due", "session", "lane", "user", state=RunState.PAUSED))

    assert found == [Reason(Gate.PAUSED, "run"), CLOSED["due"][1], CLOSED["session"][1]]


def test_in_a_store_that_is_shut_nothing_goes_on_whatever_else_it_waits_for() -> None:
    question = Question(name="go", question="Go?", timeout=5)
    wait = Wait(questions=(question,), calls=(Called(name="c", run_id="child", about="", tries=0),))

    assert reasons(waiting("shut", state=RunState.PAUSED)) == [SHUT, Reason(Gate.PAUSED, "run")]
    assert reasons(waiting("shut", state=RunState.WAITING, wait=wait)) == [
        SHUT,
        Reason(Gate.ANSWER, "question go"),
        Reason(Gate.CALL, "calls", runs=("child",), ahead=1),
    ]


@pytest.mark.parametrize(
    ("phase", "holder"),
    [
        (MovePhase.SHUT, "move to redis://there"),
        (MovePhase.FROZEN, "move to redis://there"),
        (MovePhase.ARRIVING, "move from redis://there"),
        (MovePhase.ARRIVED, None),
    ],
)
def test_a_move_shuts_its_source_for_good_and_its_target_until_it_is_opened(
    phase: MovePhase, holder: str | None
) -> None:
    [reason] = reasons(waiting(moving=msgspec.structs.replace(AWAY, phase=phase)))

    assert (reason.gate, reason.holder) == ((Gate.SHUT, holder) if holder else (Gate.TURN, "lane main"))


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
