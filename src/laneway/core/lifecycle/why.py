"""Why a pending run does not start: every gate that is closed for it.

**Complete**: a pending run has at least one reason. **Sound**: when all of them are open, it starts; while one is
closed, it does not. The store collects the facts in one snapshot; what they mean is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from laneway.core.common.instants import instant
from laneway.core.queue.circuits import FOREVER, holder
from laneway.core.records.memos import Wait
from laneway.core.records.policy import Lane
from laneway.core.records.run import Gate, Reason
from laneway.core.records.states import RunState
from laneway.core.transfer.move_state import MovePhase, Moving

SHOWN = 10  # ids of runs that hold a gate


class Holding(msgspec.Struct, frozen=True):
    """A circuit that lets nothing start: its key, until when it is open, and its probe if that is under way."""

    key: str
    until: int | None
    probe: str | None = None


class Waiting(msgspec.Struct, kw_only=True):
    """What a store knows of a run that waits. Lists of runs hold their ids, the oldest first."""

    state: RunState
    now: int
    due_at: int  # of a run that has come to its turn already: not later than `now`, though the clock was set back
    task: str
    lane: Lane
    user: str | None = None
    session: str | None = None
    lane_active: Sequence[str] = ()
    lane_paused: bool = False
    user_active: Sequence[str] = ()  # in its lane
    user_cap: int | None = None  # also while the user is paused: what holds once that is over
    user_paused: bool = False
    session_paused: bool = False
    before: Sequence[str] = ()  # of its session, for whose end, start or resumption it waits; empty once it is admitted
    task_paused: bool = False
    breakers: Sequence[Holding] = ()
    known: int = 0  # live workers that know the task
    open_to: int = 0  # of them, those that the lane's limit per worker lets take one more
    fit: int = 0  # of those, the ones that are not short of memory
    safe: int = 0  # of those, the ones that execute no run on its last chance, if this one is on its own
    risks: Sequence[str] = ()  # such runs of the others
    ahead: int = 0  # startable runs of its lane that are before it
    wait: Wait | None = None
    moving: Moving | None = None  # the store's part in a move

    def add_fit(self, workers: Sequence[Sequence[str]]) -> None:
        """Add the workers that are fit: for each the runs on their last chance, if this one is, that it executes."""
        self.fit, self.safe = len(workers), sum(not risks for risks in workers)
        self.risks = [run_id for risks in workers for run_id in risks]


def reasons(run: Waiting) -> list[Reason]:
    """Return every gate that is closed for the run; none for a run that is running or has ended."""
    if run.state is RunState.PAUSED:
        return [*_away(run.moving), Reason(Gate.PAUSED, "run"), *_behind(run)]
    if run.state is RunState.WAITING:
        return [*_away(run.moving), *_waited_for(run.wait or Wait())]
    if run.state is not RunState.PENDING:
        return []
    found = [*_away(run.moving), *_behind(run), *_in_lane(run)]
    # Whatever else is closed, others may come before it once it is open; only with nothing closed is it the reason.
    if not found:
        found = [Reason(Gate.TURN, f"lane {run.lane.name}", ahead=run.ahead)]
    return found


def _away(moving: Moving | None) -> Iterable[Reason]:
    # It opens when somebody gives the move up, or has come to its end with it: at no known time.
    if moving is not None and moving.phase is not MovePhase.ARRIVED:
        yield Reason(Gate.SHUT, f"move {'to' if moving.leaves else 'from'} {moving.place}")


def _waited_for(wait: Wait) -> Iterable[Reason]:
    # None of these opens at a time: a question nobody answers ends the run.
    for question in wait.questions:
        yield Reason(Gate.ANSWER, f"question {question.name}")
    if wait.calls:
        runs = tuple(call.run_id for call in wait.calls)
        yield Reason(Gate.CALL, "calls", runs=runs[:SHOWN], ahead=len(runs))


def _behind(run: Waiting) -> Iterable[Reason]:
    if run.due_at > run.now:
        yield Reason(Gate.NOT_DUE, opens_at=instant(run.due_at))
    if run.session_paused:
        yield Reason(Gate.PAUSED, f"session {run.session}")
    if run.before:
        runs = tuple(run.before[:SHOWN])
        yield Reason(Gate.SESSION_BUSY, f"session {run.session}", runs=runs, ahead=len(run.before))


def _in_lane(run: Waiting) -> Iterable[Reason]:
    lane = f"lane {run.lane.name}"
    if run.task_paused:
        yield Reason(Gate.PAUSED, f"task {run.task}")
    for open_ in run.breakers:
        # What a probe comes to, or an operator does, comes at no known time.
        known = open_.probe is None and open_.until is not None and open_.until < FOREVER
        opens_at = instant(open_.until) if known and open_.until is not None else None
        runs = () if open_.probe is None else (open_.probe,)
        yield Reason(Gate.BREAKER_OPEN, holder(open_.key), opens_at=opens_at, runs=runs)
    if run.lane_paused:
        yield Reason(Gate.PAUSED, lane)
    if len(run.lane_active) >= run.lane.limit:
        yield Reason(Gate.LANE_FULL, lane, runs=tuple(run.lane_active[:SHOWN]))
    if run.user_paused:
        yield Reason(Gate.PAUSED, f"user {run.user}")
    if run.user_cap is not None and len(run.user_active) >= run.user_cap:
        yield Reason(Gate.USER_AT_CAP, f"user {run.user}", runs=tuple(run.user_active[:SHOWN]))
    yield from _by_workers(run)


def _by_workers(run: Waiting) -> Iterable[Reason]:
    if not run.known:
        yield Reason(Gate.NO_WORKER, f"task {run.task}")
    elif not run.open_to:
        yield Reason(Gate.LANE_FULL, f"lane {run.lane.name} per worker")
    elif not run.fit:
        yield Reason(Gate.MEMORY_SHORT, "workers")
    elif not run.safe:
        yield Reason(Gate.LAST_CHANCE, "workers", runs=tuple(run.risks[:SHOWN]))
