"""What follows an attempt: `settle(run, outcome, policy)` gives a Settlement, and a store writes it.

An Outcome says what happened; it decides nothing. The Settlement holds the decision: the move, how long until the run
is due again (a delay, because only the store knows the time), the new counts, and the events, which the store stamps
with its time. A failure charges an attempt, a lapse charges a crash, a release charges nothing.
"""

from __future__ import annotations

import msgspec

from laneway.core.common.instants import SECOND
from laneway.core.queue.circuits import Charge
from laneway.core.records import events
from laneway.core.records.events import Draft, draft, whole
from laneway.core.records.memos import Wait
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Claimed, Failure, NewRun, Request
from laneway.core.records.states import MOVES, Move, RunState

REFUSED = "refused"  # the failure kind of a run that `before_start` refused
LAST_CHANCE = "last_chance"  # the reason on the record of a run that is one crash short of quarantine
# A retry cannot help: the same code would get, or return, the same thing.
NOT_RETRIED = frozenset(
    {"gave_up", "bad_result", "bad_arguments", "out_of_memory", "bad_merge", REFUSED, "steps_changed"}
)


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned; `result` is its value as JSON text, `follow_ups` are the runs that it held back."""

    result: str
    follow_ups: tuple[NewRun, ...] = ()


class Failed(msgspec.Struct, frozen=True):
    """The handler raised, timed out, or returned something that cannot be stored."""

    failure: Failure


class Released(msgspec.Struct, frozen=True):
    """The worker stops and gives the run back."""


class Snoozed(msgspec.Struct, frozen=True):
    """The handler or the worker wants the run to be executed later; `delay` is in microseconds."""

    delay: int


class Cancelled(msgspec.Struct, frozen=True):
    """The handler stopped because a cancel was requested."""


class Paused(msgspec.Struct, frozen=True):
    """The handler reached a checkpoint after a pause was requested, and was unwound there."""


class Waits(msgspec.Struct, frozen=True):
    """The handler asked a question or called runs, and was unwound there; `calls` are the runs that it waits for."""

    wait: Wait
    calls: tuple[NewRun, ...] = ()


class Lapsed(msgspec.Struct, frozen=True):
    """The incarnation that executed the run died. Not `charged` if another run of that incarnation is to blame."""

    charged: bool = True


Outcome = Succeeded | Failed | Released | Snoozed | Cancelled | Paused | Waits | Lapsed


class Leaves(msgspec.Struct, frozen=True):
    """What an attempt leaves behind, written together with its settlement.

    `follow_ups` are submitted if the run succeeds. `calls` are submitted before it waits for what `wait` says.
    """

    follow_ups: tuple[NewRun, ...] = ()
    calls: tuple[NewRun, ...] = ()
    wait: Wait | None = None


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The decision about an attempt, ready to be written under its fence."""

    move: Move
    attempt: int
    crashes: int
    result: str | None = None
    delay: int = 0
    failure: Failure | None = None
    reason: str | None = None
    drafts: tuple[Draft, ...] = ()
    own: int = 0  # how many of the events are the attempt's own; the rest describe the decision
    leaves: Leaves | None = None
    charge: Charge | None = None  # for the breaker of its task, if it has one

    @property
    def state(self) -> RunState:
        """The state of the run once this is written."""
        return STATES[self.move]


# Every settlement is a move of a running run.
STATES = {move: state for (before, move), state in MOVES.items() if before is RunState.RUNNING}
_SUCCEED = Move.SUCCEED  # a module variable: looking up the enum's member costs more than the rest
# The events of a success. An attempt with no events of its own has this very object, which stores compare by identity.
SUCCESS = ((events.RESULT, "null"), draft(events.DONE, {"state": RunState.SUCCEEDED.value}))
_FAILURE = draft(events.DONE, {"state": RunState.FAILED.value})
_RELEASED = (draft(events.RELEASED, {}),)
_PAUSED = (draft(events.PAUSED, {}),)
_STOPPED = (draft(events.STOPPED, {}),)
CANCELLED = (draft(events.DONE, {"state": RunState.CANCELLED.value}),)


def settle(run: Claimed, outcome: Outcome, policy: TaskPolicy, drafts: tuple[Draft, ...] = ()) -> Settlement:
    """Return the settlement of `outcome`; `drafts` are the attempt's own events that are not stored yet.

    >>> run = Claimed(1, "a", "t", "{}", 1, 1, 0, "main", None, None, 0, "w")
    >>> settle(run, Succeeded("42"), TaskPolicy()).state.value
    'succeeded'
    >>> failed = Failed(Failure("error", "ValueError", "no"))
    >>> again = settle(run, failed, TaskPolicy())
    >>> again.state.value, again.attempt
    ('pending', 2)
    """
    if isinstance(outcome, Succeeded):
        leaves = Leaves(outcome.follow_ups) if outcome.follow_ups else None
        charge = None if policy.breaker is None else Charge(policy.breaker, failed=False)
        said = drafts + SUCCESS if drafts else SUCCESS
        return Settlement(_SUCCEED, run.attempt, 0, outcome.result, 0, None, None, said, len(drafts), leaves, charge)
    if isinstance(outcome, Failed):
        settlement = _after_failure(run, outcome.failure, policy, drafts)
        return _charged(settlement, policy, failed=outcome.failure.kind != REFUSED)
    if isinstance(outcome, Lapsed):
        settlement = _after_lapse(run, policy, charged=outcome.charged)
        return _charged(settlement, policy, failed=outcome.charged or run.timed_out)
    if isinstance(outcome, Waits):
        return _waiting(run, outcome, drafts)
    move, delay, said = Move.RELEASE, 0, _RELEASED
    if isinstance(outcome, Snoozed):
        move, delay, said = Move.SNOOZE, outcome.delay, (draft(events.SNOOZED, {"delay": outcome.delay / SECOND}),)
    elif isinstance(outcome, Cancelled):
        move, said = Move.CANCEL, _STOPPED + CANCELLED
    elif isinstance(outcome, Paused):
        move, said = Move.PAUSE, _PAUSED
    reason = _warning(run.crashes, policy) if move is not Move.CANCEL else None
    return Settlement(move, run.attempt, run.crashes, None, delay, None, reason, drafts + said, len(drafts))


def on_last_chance(crashes: int, policy: TaskPolicy) -> bool:
    """Tell whether a run that crashed so many times in a row is one crash short of quarantine.

    A worker executes one such run at a time: if the worker dies, that run is to blame. A run that never crashed is not
    suspected.

    >>> [on_last_chance(crashes, TaskPolicy(max_crashes=3)) for crashes in (0, 1, 2)]
    [False, False, True]
    """
    return crashes > 0 and crashes + 1 >= policy.max_crashes


def overruled(settlement: Settlement, request: Request | None, attempt: int) -> Settlement:
    """Return what is written instead when this request was stored, in this attempt, before the settlement.

    First write wins: once a cancel is stored the run ends cancelled, whatever the attempt's outcome. A requested pause
    turns a return to pending into paused; a run that has ended has nothing left to pause. If the request was taken back
    after the handler had paused for it, the run is given back.

    >>> run = Claimed(1, "a", "t", "{}", 1, 1, 0, "main", None, None, 0, "w")
    >>> overruled(settle(run, Succeeded("42"), TaskPolicy()), Request.CANCEL, 1).state.value
    'cancelled'
    >>> overruled(settle(run, Released(), TaskPolicy()), Request.PAUSE, 1).state.value
    'paused'
    """
    if request is Request.CANCEL and settlement.move is not Move.CANCEL:
        own = settlement.drafts[: settlement.own]
        # A dead worker's handler stopped with it; nobody saw it stop.
        stopped = () if any(kind == events.LAPSED for kind, _ in own) else _STOPPED
        drafts = own + stopped + CANCELLED
        return Settlement(Move.CANCEL, attempt, settlement.crashes, drafts=drafts, own=settlement.own)
    if request is Request.PAUSE and settlement.state is RunState.PENDING:
        return msgspec.structs.replace(settlement, move=Move.PAUSE, drafts=settlement.drafts + _PAUSED)
    if request is None and settlement.move is Move.PAUSE:
        drafts = settlement.drafts[: settlement.own] + _RELEASED
        return msgspec.structs.replace(settlement, move=Move.RELEASE, drafts=drafts)
    return settlement


def _charged(settlement: Settlement, policy: TaskPolicy, *, failed: bool) -> Settlement:
    """Return the settlement with its charge to the breaker: a failure, or nothing."""
    if policy.breaker is None or not failed:
        return settlement
    return msgspec.structs.replace(settlement, charge=Charge(policy.breaker, failed=True))


def _waiting(run: Claimed, outcome: Waits, drafts: tuple[Draft, ...]) -> Settlement:
    wait, calls = outcome.wait, outcome.calls
    # A question that was asked before, and is asked again because something else let the run continue, is known.
    asked = [question for question in wait.questions if question.until is None]
    said = [
        whole(
            events.QUESTION,
            {"name": question.name, "question": question.question, "timeout": question.timeout / SECOND},
        )
        for question in asked
    ]
    said += [draft(events.CALLED, {"name": new.ties and new.ties.call, "run_id": new.id}) for new in calls]
    move = Move.ASK if wait.questions else Move.CALL
    leaves = Leaves(calls=calls, wait=wait)
    return Settlement(move, run.attempt, 0, drafts=(*drafts, *said), own=len(drafts), leaves=leaves)


def _after_failure(run: Claimed, failure: Failure, policy: TaskPolicy, drafts: tuple[Draft, ...]) -> Settlement:
    attempt = run.attempt + 1
    final = failure.kind in NOT_RETRIED or (failure.kind == "timed_out" and not policy.retry.on_timeout)
    delay = None if final else policy.retry.delay_before(attempt, run.id)
    if delay is None:
        return _given_up(run.attempt, 0, failure, failure.kind, drafts)
    retrying = draft(events.RETRYING, {"attempt": attempt, "delay": delay / SECOND, "error": _shown(failure)})
    return Settlement(Move.RETRY, attempt, 0, delay=delay, failure=failure, drafts=(*drafts, retrying), own=len(drafts))


def _after_lapse(run: Claimed, policy: TaskPolicy, *, charged: bool) -> Settlement:
    # An attempt that had timed out before its worker died is charged as a time-out, not as a crash.
    crashes = run.crashes + (charged and not run.timed_out)
    lapsed = draft(events.LAPSED, {"worker": run.worker, "crashes": crashes})
    if run.timed_out:
        return _after_failure(run, timed_out(policy), policy, (lapsed,))
    failure = Failure("crashed", "WorkerLost", f"the worker {run.worker} died while it executed this run")
    if charged and crashes >= policy.max_crashes:
        return _given_up(run.attempt, crashes, failure, "quarantined", (lapsed,))
    reason = _warning(crashes, policy)
    return Settlement(Move.LAPSE, run.attempt, crashes, failure=failure, reason=reason, drafts=(lapsed,), own=1)


def _warning(crashes: int, policy: TaskPolicy) -> str | None:
    # Kept until the run's next settlement, so that the store knows it of running and of waiting runs.
    return LAST_CHANCE if on_last_chance(crashes, policy) else None


def timed_out(policy: TaskPolicy) -> Failure:
    """Return the failure of an attempt that took too long."""
    return Failure("timed_out", "TimeoutError", f"the handler took longer than {(policy.timeout or 0) / SECOND:g} s")


def outlasted(policy: TaskPolicy) -> Failure:
    """Return the failure of a run whose `before_start` took longer than an attempt may. It is not called again."""
    return Failure(REFUSED, "TimeoutError", f"before_start took longer than {(policy.timeout or 0) / SECOND:g} s")


def _given_up(attempt: int, crashes: int, failure: Failure, reason: str, drafts: tuple[Draft, ...]) -> Settlement:
    ending = (draft(events.ERROR, _shown(failure)), _FAILURE)
    said = (*drafts, *ending)
    return Settlement(Move.FAIL, attempt, crashes, failure=failure, reason=reason, drafts=said, own=len(drafts))


def _shown(failure: Failure) -> dict[str, str]:
    # The traceback stays in the run record; events are for people who follow the run.
    return {"kind": failure.kind, "type": failure.type, "message": failure.message}
