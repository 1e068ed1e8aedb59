"""A run's life as one table.

`MOVES` has everything that may follow something. The diagram in the docs is printed from it (`diagram`), the tests go
through it, and `after` is the only way from one state to the next. Why a pending run does not start is a reason, not a
state. What an attempt ended in is an outcome, not a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from laneway.errors import BadSetting, WrongState


class RunState(StrEnum):
    """The states of a run."""

    PENDING = "pending"  # accepted, has a due time, waits for its turn
    RUNNING = "running"  # leased to an incarnation
    PAUSED = "paused"  # held by an operator
    WAITING = "waiting"  # asked a question or called a child; holds no lane slot
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DROPPED = "dropped"  # accepted, never started

    @classmethod
    def named(cls, name: str) -> RunState:
        """Return the state of that name. Raises BadSetting, which suggests another.

        >>> RunState.named("runing")
        Traceback (most recent call last):
        laneway.errors.BadSetting: unknown state 'runing', did you mean 'running'?
        """
        try:
            return cls(name)
        except ValueError:
            raise BadSetting.unknown("state", str(name), [state.value for state in cls]) from None


class Move(StrEnum):
    """What changes a run's state."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    FAIL = "fail"
    RELEASE = "release"
    SNOOZE = "snooze"
    LAPSE = "lapse"
    PAUSE = "pause"
    RESUME = "resume"
    ASK = "ask"
    CALL = "call"
    ANSWER = "answer"
    CANCEL = "cancel"
    DROP = "drop"


_S, _M = RunState, Move

MOVES: Mapping[tuple[RunState, Move], RunState] = {
    (_S.PENDING, _M.CLAIM): _S.RUNNING,
    (_S.PENDING, _M.PAUSE): _S.PAUSED,
    (_S.PENDING, _M.CANCEL): _S.CANCELLED,
    (_S.PENDING, _M.DROP): _S.DROPPED,
    (_S.RUNNING, _M.SUCCEED): _S.SUCCEEDED,
    (_S.RUNNING, _M.RETRY): _S.PENDING,
    (_S.RUNNING, _M.FAIL): _S.FAILED,
    (_S.RUNNING, _M.RELEASE): _S.PENDING,
    (_S.RUNNING, _M.SNOOZE): _S.PENDING,
    (_S.RUNNING, _M.LAPSE): _S.PENDING,
    (_S.RUNNING, _M.PAUSE): _S.PAUSED,
    (_S.RUNNING, _M.ASK): _S.WAITING,
    (_S.RUNNING, _M.CALL): _S.WAITING,
    (_S.RUNNING, _M.CANCEL): _S.CANCELLED,
    (_S.WAITING, _M.ANSWER): _S.PENDING,
    (_S.WAITING, _M.CANCEL): _S.CANCELLED,
    (_S.PAUSED, _M.RESUME): _S.PENDING,
    (_S.PAUSED, _M.CANCEL): _S.CANCELLED,
    (_S.PAUSED, _M.DROP): _S.DROPPED,
}

TERMINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.DROPPED})


def after(state: RunState, move: Move) -> RunState:
    """Return the state that follows `move`. Raises WrongState.

    >>> after(RunState.PENDING, Move.CLAIM).value
    'running'
    >>> after(RunState.SUCCEEDED, Move.CANCEL)
    Traceback (most recent call last):
    laneway.errors.WrongState: a succeeded run cannot be cancelled
    """
    try:
        return MOVES[state, move]
    except KeyError:
        raise WrongState(state.value, move.value) from None


def diagram() -> str:
    """Return the table as a Mermaid state diagram, as the docs show it."""
    lines = ["stateDiagram-v2", "    [*] --> pending"]
    lines += [f"    {state.value} --> {MOVES[state, move].value}: {move.value}" for state, move in MOVES]
    lines += [f"    {state.value} --> [*]" for state in RunState if state in TERMINAL]
    return "\n".join(lines)
