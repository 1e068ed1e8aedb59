"""What a cancel, a pause and a resume make of a run, by its state and what was requested of it."""

import pytest

from laneway.core.lifecycle.control import Change, cancel, pause, resume
from laneway.core.records.run import Request
from laneway.core.records.states import MOVES, TERMINAL, Move, RunState
from laneway.errors import WrongState

NOT_RUNNING = [state for state in RunState if state is not RunState.RUNNING]


def told(change: Change) -> list[str]:
    return [kind for kind, _ in change.drafts]


@pytest.mark.parametrize("state", NOT_RUNNING)
def test_what_nobody_executes_changes_at_once_or_is_refused(state: RunState) -> None:
    for verb, move in ((cancel, Move.CANCEL), (pause, Move.PAUSE), (resume, Move.RESUME)):
        goal = MOVES.get((state, move))
        if goal is None and (state, move) not in {
            (RunState.CANCELLED, Move.CANCEL),
            (RunState.PAUSED, Move.PAUSE),
        }:
            with pytest.raises(WrongState, match=f"a {state} run cannot be {move.value.rstrip('e')}"):
                verb(state, None)
            continue
        change = verb(state, None)
        assert change is None or (change.state, change.request, change.reason) == (goal, None, None)


@pytest.mark.parametrize(
    ("request_", "events"), [(None, ["cancel_requested", "done"]), (Request.CANCEL, ["done"])], ids=str
)
@pytest.mark.parametrize(("lapsed", "abandon"), [(True, False), (False, True), (True, True)])
def test_a_run_whose_worker_is_dead_or_given_up_on_ends_at_once(
    request_: Request | None, events: list[str], lapsed: bool, abandon: bool
) -> None:
    change = cancel(RunState.RUNNING, request_, lapsed=lapsed, abandon=abandon)

    assert change is not None
    assert (change.state, change.request) == (RunState.CANCELLED, None)
    assert change.reason == ("abandoned" if abandon else None)
    assert told(change) == events


@pytest.mark.parametrize("request_", [None, Request.PAUSE])
def test_a_running_run_is_requested_to_be_cancelled_once(request_: Request | None) -> None:
    change = cancel(RunState.RUNNING, request_)

    assert change is not None
    assert (change.state, change.request, told(change)) == (RunState.RUNNING, Request.CANCEL, ["cancel_requested"])
    assert cancel(RunState.RUNNING, Request.CANCEL) is None


def test_a_running_run_is_requested_to_pause_once_and_the_request_can_be_taken_back() -> None:
    change = pause(RunState.RUNNING, None)

    assert change is not None
    assert (change.state, change.request, told(change)) == (RunState.RUNNING, Request.PAUSE, ["pause_requested"])
    assert pause(RunState.RUNNING, Request.PAUSE) is None
    back = resume(RunState.RUNNING, Request.PAUSE)
    assert (back.state, back.request, told(back)) == (RunState.RUNNING, None, ["resumed"])


def test_a_cancel_is_not_taken_back() -> None:
    with pytest.raises(WrongState, match="a cancelled run cannot be paused"):
        pause(RunState.RUNNING, Request.CANCEL)
    with pytest.raises(WrongState, match="a running run cannot be resumed"):
        resume(RunState.RUNNING, Request.CANCEL)


@pytest.mark.parametrize("state", sorted(TERMINAL - {RunState.CANCELLED}))
def test_what_has_ended_is_not_abandoned_either(state: RunState) -> None:
    with pytest.raises(WrongState, match=f"a {state} run cannot be cancelled"):
        cancel(state, None, abandon=True)
