"""What a submission becomes: accepted, merged, steered, existing or refused.

The checks come in this order: its key; whether its task is disabled; the policy of its session (`arrivals`); the bound
of its lane. A refusal changes nothing but a count. Memory, SQLite and PostgreSQL run this code inside their atomic
step, over an `Intake`. Redis restates it and is compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from laneway.core.common import keys
from laneway.core.common.keys import KeyEntry
from laneway.core.lifecycle.arrivals import Decision, Floor, Known, decide
from laneway.core.queue.claim import MOST_MOVES, Flow
from laneway.core.queue.sessions import SessionBook, Window
from laneway.core.queue.shelves import Pending
from laneway.core.records.policy import PLAIN, SessionIntent, WhenFull
from laneway.core.records.run import MessageKind, NewRun, Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState

E = TypeVar("E", bound=Pending)
K = TypeVar("K", bound=Known)

_ACCEPTED, _REFUSED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.REFUSED


class Intake(Protocol[E, K]):
    """What a store knows of submissions, and does with them."""

    def key(self, new: NewRun) -> KeyEntry | None:
        """Return the entry of the submission's key."""

    def remember(self, new: NewRun, run_id: str, number: int) -> None:
        """Record that the submission's key, if it has one, stands for this run."""

    def state_of(self, run_id: str) -> RunState | None:
        """Return the state of a run; None if it was pruned."""

    def is_disabled(self, task: str) -> bool:
        """Tell whether new runs of the task are refused."""

    def oldest(self, lane: str, most: int) -> Sequence[K]:
        """Return the lane's waiting runs that were never started, at most `most`, in the order of acceptance.

        Follow-ups are left out: nobody would learn that one is gone. The run that called a called run is told.
        """

    def append(self, taker: K, new: NewRun, lane: str, kind: MessageKind) -> None:
        """Add the message to a run, with its event. If the run is being executed, tell its worker."""

    def put_off(self, taker: K, due_at: int) -> None:
        """Change the due time of a run of the future."""

    def make(self, new: NewRun, lane: str, due_at: int) -> E:
        """Make a run with the next acceptance number, count it as pending, and put it on no shelf yet."""

    def keep(self, run: E, due_at: int, arrival: SessionIntent | None) -> None:
        """Put a run on the due shelf; `arrival` is kept for the moment when it joins its session."""

    def is_behind(self) -> bool:
        """Tell whether due runs still wait on the due shelf. A session's newcomer must wait behind them."""

    def count(self, lane: str, what: str) -> None:
        """Count what a submission became."""

    def refuse(self, lane: str, why: Why) -> None:
        """Count a refusal. A caller that is told to wait comes again, and is counted when it has waited long enough."""


class Acceptance(Generic[E, K]):
    """Accepts submissions, one by one, with ids that the store has not seen before."""

    def __init__(self, flow: Flow[E], floor: Floor[K], intake: Intake[E, K]) -> None:
        self._flow, self._floor, self._intake = flow, floor, intake
        self._plain: Decision[K] = Decision()

    def accept(self, new: NewRun, lane: str, now: int) -> Receipt:
        """Accept or refuse a submission to this lane; return its receipt."""
        receipt = self._of_key(new, lane) if new.key is not None else None
        if receipt is not None:
            return receipt
        # A retry by hand and a job's fire pass every bound, but not a disabled task.
        if (not new.inside or new.retry_of is not None or _is_fire(new)) and self._intake.is_disabled(new.task):
            return self._refused(new, lane, Why.TASK_DISABLED)
        if new.session is not None and not new.later:
            if not new.inside and self._intake.is_behind():
                # The session's policy depends on the runs before this one, and some of them are still on the due shelf.
                # Each call moves some of them, so the caller does not come again for long.
                return self._refused(new, lane, Why.SESSION_WAIT)
            return self._of_session(new, new.session, lane, now)
        refusal = None if new.inside else self._bound(lane, new, self._plain)
        if refusal is not None:
            return self._refused(new, lane, refusal)
        return self._accepted(new, lane, now, self._plain)

    def _of_key(self, new: NewRun, lane: str) -> Receipt | None:
        entry = self._intake.key(new)
        if entry is None:
            return None
        if entry.digest != keys.digest(new.args):
            self._intake.refuse(lane, Why.KEY_CONFLICT)
            return Receipt(_REFUSED, entry.run_id, Why.KEY_CONFLICT.value)
        return Receipt(ReceiptOutcome.EXISTING, entry.run_id, state=self._intake.state_of(entry.run_id))

    def _of_session(self, new: NewRun, session: str, lane: str, now: int) -> Receipt:
        book = self._flow.sessions[session]
        before = (book.given, book.rule, book.throttled)
        book.take(new.arrival or PLAIN)
        decision = decide(self._floor, book, new)
        if decision.taker is not None and decision.reason is Why.ANSWERED:
            return self._answered(new, lane, decision.taker)
        if decision.taker is not None:
            return self._taken(new, lane, decision.taker, decision.outcome, book, now)
        refusal = decision.reason
        if refusal is None and not new.inside:
            refusal = self._bound(lane, new, decision)
        if refusal is not None:
            book.given, book.rule, book.throttled = before
            if book.idle:
                self._flow.sessions.emptied(session)
            return self._refused(new, lane, refusal)
        decision.apply(self._floor, book)
        receipt = self._accepted(new, lane, now, decision, book)
        # After the run has its place. Else the next in the queue would be admitted instead.
        for run in decision.supersedes:
            self._floor.supersede(run, new.id)
        return receipt

    def _answered(self, new: NewRun, lane: str, taker: K) -> Receipt:
        self._intake.append(taker, new, lane, MessageKind.ANSWERED)
        self._intake.remember(new, taker.id, taker.number)
        self._intake.count(lane, Why.ANSWERED.value)
        self._floor.answer(taker, new.args)
        self._flow.let_go_on(new.session or "", ())
        return Receipt(ReceiptOutcome.STEERED, taker.id, Why.ANSWERED.value)

    def _taken(self, new: NewRun, lane: str, taker: K, outcome: ReceiptOutcome, book: SessionBook, now: int) -> Receipt:
        kind, arrival = MessageKind(outcome.value), new.arrival or PLAIN
        self._intake.append(taker, new, lane, kind)
        self._intake.remember(new, taker.id, taker.number)
        self._intake.count(lane, outcome.value)
        window = book.window(new.task, new.user) if kind is MessageKind.MERGED else None
        if window is not None and window.number == taker.number and arrival.debounce:
            # The message restarts the window, up to the window's latest end.
            self._intake.put_off(taker, min(now + arrival.debounce, window.until))
        self._flow.let_go_on(new.session or "", ())
        return Receipt(outcome, taker.id, note(lane, new))

    def _bound(self, lane: str, new: NewRun, decision: Decision[K]) -> Why | None:
        """Return why the lane is full; None if it has room, or will have once the displaced runs are gone."""
        book = self._flow.lanes[lane]
        limits = book.lane
        if limits.max_pending is None or book.pending < limits.max_pending:
            return None
        displaced = [run for run in (*decision.drops, *decision.cancels) if run.lane == lane]
        if book.pending - sum(run.stands is RunState.PENDING for run in displaced) < limits.max_pending:
            return None
        if limits.when_full is WhenFull.DROP_OLD and self._intake.oldest(lane, 1):
            return None
        return Why.LANE_WAIT if limits.when_full is WhenFull.WAIT and new.patient else Why.LANE_FULL

    def _make_room(self, lane: str, most: int) -> None:
        surplus = self._flow.lanes[lane].pending + 1 - most
        if surplus > 0:
            # A bound that was lowered far below what waits is reached in several steps, because a step must stay short.
            # The last first, as in `Decision.apply`.
            for run in reversed(self._intake.oldest(lane, min(surplus, MOST_MOVES))):
                self._floor.drop(run, Why.LANE_FULL)

    def _refused(self, new: NewRun, lane: str, why: Why) -> Receipt:
        self._intake.refuse(lane, why)
        return Receipt(_REFUSED, new.id, why.value)

    def _accepted(
        self, new: NewRun, lane: str, now: int, decision: Decision[K], session: SessionBook | None = None
    ) -> Receipt:
        book, arrival = self._flow.lanes[lane], new.arrival or PLAIN
        if book.lane.max_pending is not None and not new.inside:
            self._make_room(lane, book.lane.max_pending)
        if session is not None and new.session is not None:
            # The displaced runs may have been the last of the session. What messages gave the session stays all the
            # same.
            self._flow.sessions.put_back(new.session, session)
        ahead = book.pending
        due_at = now + new.delay if new.due_at is None else max(now, new.due_at)
        if decision.window:
            due_at = now + arrival.debounce
        run = self._intake.make(new, lane, due_at)
        self._intake.remember(new, new.id, run.number)
        if session is not None and decision.window:
            session.windows.append(Window(new.task, new.user, run.number, now + arrival.max_wait))
        head = bool(decision.supersedes)
        before = self._place(new, run, due_at, now, ahead, windowed=decision.window, head=head)
        return Receipt(_ACCEPTED, new.id, note(lane, new), before or None)

    def _place(
        self, new: NewRun, run: E, due_at: int, now: int, ahead: int, *, windowed: bool, head: bool
    ) -> int | None:
        """Let the run join its session or lane, now or later; return how many runs are before it."""
        session = new.session
        if due_at > now or (session is not None and self._intake.is_behind()):
            later = session is not None and not windowed
            self._intake.keep(run, due_at, new.arrival if later else None)
            if session is not None and not new.later:
                self._flow.let_go_on(session, ())  # its message may have raised the session's limit
            # What the message says about the session is kept with the run: an idle session keeps nothing.
            if session is not None and later and self._flow.sessions[session].idle:
                self._flow.sessions.emptied(session)
            return None
        if session is not None:
            return self._flow.join(run, new.arrival, head=head)
        self._flow.join(run)
        return ahead


def _is_fire(new: NewRun) -> bool:
    return new.ties is not None and new.ties.job is not None


def note(lane: str, new: NewRun) -> str | None:
    """Return the note on the receipt of a submission that went to this lane."""
    return None if lane == new.lane else Why.LANE_UNKNOWN.value
