"""Why a pending run does not start: every gate that is closed for it.

**Complete**: a pending run has at least one reason. **Sound**: when all its gates are open, it starts; while one is
closed, it does not. The store collects the facts in one snapshot. Their meaning is decided here.
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

SHOWN = 10  # how many ids of runs that hold a gate are shown


class Holding(msgspec.Struct, frozen=True):
    """An open circuit: its key, until when it is open, and its probe if one is under way."""

    key: str
    until: int | None
    probe: str | None = None


class Waiting(msgspec.Struct, kw_only=True):
    """What a store knows of a run that waits. Lists of runs hold their ids, the oldest first."""

    state: RunState
    now: int
    due_at: int  # not later than `now` for a run that has left the due shelf, even if the clock was set back
    task: str
    lane: Lane
    user: str | None = None
    session: str | None = None
    lane_active: Sequence[str] = ()
    lane_paused: bool = False
    user_active: Sequence[str] = ()  # in its lane
    user_cap: int | None = None  # also while the user is paused: the cap that holds afterwards
    user_paused: bool = False
    session_paused: bool = False
    before: Sequence[str] = ()  # runs of its session that it waits for; empty once it is admitted
    task_paused: bool = False
    breakers: Sequence[Holding] = ()
    known: int = 0  # live workers that know the task
    open_to: int = 0  # of these, workers below the lane's limit per worker
    fit: int = 0  # of these, workers that are not short of memory
    safe: int = 0  # of these, if the run is on its last chance, workers without another such run
    risks: Sequence[str] = ()  # runs on their last chance of the other workers
    ahead: int = 0  # startable runs of its lane that come before it
    wait: Wait | None = None
    moving: Moving | None = None  # the store's part in a move

    def add_fit(self, workers: Sequence[Sequence[str]]) -> None:
        """Add fit workers, each by its runs on their last chance, if this run is on its last chance too."""
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
    # If another gate is closed, other runs may come first once it opens. So the turn is the reason only if none is.
    if not found:
        found = [Reason(Gate.TURN, f"lane {run.lane.name}", ahead=run.ahead)]
    return found


def _away(moving: Moving | None) -> Iterable[Reason]:
    # The gate opens when the move is aborted or done: at no known time.
    if moving is not None and moving.phase is not MovePhase.ARRIVED:
        yield Reason(Gate.SHUT, f"move {'to' if moving.leaves else 'from'} {moving.place}")


def _waited_for(wait: Wait) -> Iterable[Reason]:
    # None of these opens at a known time: an unanswered question ends the run.
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
        # When a probe ends, or an operator acts, is not known.
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
