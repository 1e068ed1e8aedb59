"""What a message does to its session: it waits, is merged, steers, interrupts, displaces others, or is refused.

`decide` only reads, so the lane's bound can still refuse the message. `Decision.apply` then does to the other runs what
was decided, through the store's `Floor`. Both run inside the store's atomic step.

**Which rule comes first.** An open debounce window of the same task and user takes the message. Else, if a run of the
same user waits for an answer, the session's `while_waiting` applies; then the mode; then the cap. A message for later,
and one that the engine makes, only waits. A job's fire follows the job's overlap rule. A message with follow-ups of its
own (`then`, `on_failure`) becomes a run: another run that took it would lose them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.shelves import Pending
from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import PLAIN, Mode, WhileWaiting
from laneway.core.records.run import Message, NewRun, ReceiptOutcome, Request, RunLinks, Why
from laneway.core.records.states import RunState


class Known(Pending, Protocol):
    """A run of a session that has not ended, as a policy sees it."""

    id: str

    @property
    def stands(self) -> RunState:
        """Its state."""

    @property
    def requested(self) -> Request | None:
        """The request that stands for it."""

    @property
    def ties(self) -> RunLinks | None:
        """Its links to other runs."""


K = TypeVar("K", bound=Known)


class Floor(Protocol[K]):
    """What a policy may read of a session's other runs, and do to them, in a store."""

    def queued(self, session: str) -> Sequence[K]:
        """Return the runs that have joined and were never started, paused ones included, in their order."""

    def active(self, session: str) -> Sequence[K]:
        """Return the runs that were started and have not ended, by acceptance."""

    def future(self, session: str) -> Sequence[K]:
        """Return the runs that were never started and have not joined: due later, or paused before they were due."""

    def run(self, number: int) -> K:
        """Return a run that has not ended."""

    def drop(self, run: K, why: Why) -> None:
        """Drop a run that was never started."""

    def cancel(self, run: K, *, clears: bool, abandon: bool = False) -> bool:
        """Cancel a run; tell if that changed it. With `clears`, the unread messages of its inbox are dropped too."""

    def supersede(self, run: K, by: str) -> None:
        """End a run that waits for an answer, because the message with this id came instead."""

    def answer(self, run: K, answer: str) -> None:
        """Answer the first question of a run that waits for one; `answer` is JSON text."""


class Decision(msgspec.Struct, Generic[K], frozen=True):
    """The decision: outcome and reason of the receipt, the run that takes the message, the runs that go, a window."""

    outcome: ReceiptOutcome = ReceiptOutcome.ACCEPTED
    reason: Why | None = None
    taker: K | None = None
    drops: Sequence[K] = ()
    cancels: Sequence[K] = ()
    interrupts: bool = False
    window: bool = False  # the message becomes a run that is due when its debounce window closes
    supersedes: Sequence[K] = ()  # these end once the message is at the head of the queue

    def apply(self, floor: Floor[K], book: SessionBook) -> None:
        """Drop and cancel the runs that the message displaces."""
        # The last first. Else each one that goes would let the next be admitted, which is then dropped in turn.
        why = Why.INTERRUPTED if self.interrupts else Why.SESSION_FULL
        for run in reversed(self.drops):
            floor.drop(run, why)
        for run in self.cancels:
            floor.cancel(run, clears=True)
        if self.interrupts:
            book.alone = bool(book.admitted)


def decide(floor: Floor[K], book: SessionBook, new: NewRun) -> Decision[K]:
    """Return what a message does to its session; `book` already has what the message says about the session."""
    arrival, session = new.arrival or PLAIN, new.session
    assert session is not None
    overlap = None if new.ties is None or new.ties.job is None else new.ties.job.overlap
    if overlap is not None and not new.later:
        return _by_overlap(floor, book, new, session, overlap)
    if new.inside or new.later:
        return Decision()
    window = book.window(new.task, new.user)
    if window is not None and not _brings_others(new):
        return Decision(outcome=ReceiptOutcome.MERGED, taker=floor.run(window.number))
    asking = _by_question(floor, book, new) if book.asking else None
    return asking or _by_mode(floor, book, new, session) or _by_cap(floor, book, session, opens=arrival.debounce > 0)


def _by_question(floor: Floor[K], book: SessionBook, new: NewRun) -> Decision[K] | None:
    arrival, rule = new.arrival or PLAIN, book.rule.while_waiting
    if arrival.mode in (Mode.INTERRUPT, Mode.REJECT) or rule is WhileWaiting.QUEUE:
        return None
    asking = [run for run in map(floor.run, sorted(book.asking)) if run.user == new.user]
    if not asking:
        return None
    if rule is WhileWaiting.ANSWER:
        if _brings_others(new):
            return None
        return Decision(outcome=ReceiptOutcome.STEERED, reason=Why.ANSWERED, taker=asking[0])
    return Decision(supersedes=asking, window=arrival.debounce > 0)


def _by_mode(floor: Floor[K], book: SessionBook, new: NewRun, session: str) -> Decision[K] | None:
    arrival = new.arrival or PLAIN
    mode = arrival.mode
    if mode is Mode.REJECT and (book.admitted or book.outside or book.held):
        return Decision(outcome=ReceiptOutcome.REFUSED, reason=Why.SESSION_BUSY)
    if mode is Mode.COLLECT and book.queued and not _brings_others(new):
        taker = _last(run for run in floor.queued(session) if (run.task, run.user) == (new.task, new.user))
        if taker is not None:
            return Decision(outcome=ReceiptOutcome.MERGED, taker=taker)
    if mode is Mode.STEER and book.active and not _brings_others(new):
        taker = _last(run for run in floor.active(session) if run.task == new.task and not _is_cancelled(run))
        if taker is not None:
            return Decision(outcome=ReceiptOutcome.STEERED, taker=taker)
    if mode is Mode.INTERRUPT:
        return _interrupting(floor, book, session, opens=arrival.debounce > 0)
    return None


def _interrupting(floor: Floor[K], book: SessionBook, session: str, *, opens: bool = False) -> Decision[K]:
    queued = floor.queued(session) if book.queued else ()
    active = floor.active(session) if book.active else ()
    return Decision(drops=queued, cancels=active, interrupts=True, window=opens)


def _by_overlap(floor: Floor[K], book: SessionBook, new: NewRun, session: str, overlap: Overlap) -> Decision[K]:
    if overlap is Overlap.INTERRUPT:
        return _interrupting(floor, book, session)
    if overlap is Overlap.SKIP and (book.admitted or book.outside or book.held):
        return Decision(outcome=ReceiptOutcome.REFUSED, reason=Why.SESSION_BUSY)
    if overlap is Overlap.QUEUE and book.queued and any(map(_is_of(new), floor.queued(session))):
        return Decision(outcome=ReceiptOutcome.REFUSED, reason=Why.SESSION_FULL)
    return Decision()


def _is_of(new: NewRun) -> Callable[[Known], bool]:
    """Return a function that tells whether a run belongs to the same job."""
    job = (new.ties or RunLinks()).job
    return lambda run: (
        run.ties is not None and run.ties.job is not None and job is not None and run.ties.job.id == job.id
    )


def _by_cap(floor: Floor[K], book: SessionBook, session: str, *, opens: bool) -> Decision[K]:
    if book.queued < book.cap:
        return Decision(window=opens)
    # Follow-ups and jobs' runs are outside the cap: no message displaces them, and they keep no message out.
    messages = [run for run in floor.queued(session) if run.ties is None or _is_message(run.ties)]
    surplus = len(messages) + 1 - book.cap
    if surplus > 0 and not book.drops_old:
        return Decision(outcome=ReceiptOutcome.REFUSED, reason=Why.SESSION_FULL)
    return Decision(drops=messages[: max(0, surplus)], window=opens)


class Stopped(msgspec.Struct, frozen=True):
    """What a stop did to a session: ids of runs it cancelled, or requested to cancel, and of those it dropped."""

    cancelled: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def stop_all(floor: Floor[K], session: str, *, abandon: bool) -> tuple[list[K], list[K]]:
    """Cancel all active runs and drop all that were never started; return both.

    With `abandon` it does not wait for running handlers: their slots are free at once.
    """
    why = Why.RESET if abandon else Why.STOPPED
    dropped = [*floor.queued(session), *floor.future(session)]
    for run in reversed(dropped):
        floor.drop(run, why)
    cancelled = [run for run in floor.active(session) if floor.cancel(run, clears=True, abandon=abandon)]
    return cancelled, dropped


def stop(floor: Floor[K], session: str) -> list[K]:
    """Cancel the oldest active run that is not cancelled yet; return it, or nothing."""
    oldest = next((run for run in floor.active(session) if not _is_cancelled(run)), None)
    return [oldest] if oldest is not None and floor.cancel(oldest, clears=False) else []


def left_over(messages: Iterable[Message], session: str | None) -> list[tuple[NewRun, list[Message]]]:
    """Return the runs that unread messages become, one per task and user, each with its messages.

    Such a run has the id of its first message, so writing it twice has the effect of once.
    """
    groups: dict[tuple[str, str | None], list[Message]] = {}
    for message in messages:
        groups.setdefault((message.task, message.user), []).append(message)
    return [(_run_of(group[0], session), group) for group in groups.values()]


def _run_of(message: Message, session: str | None) -> NewRun:
    return NewRun(
        id=message.id,
        task=message.task,
        args=message.args,
        lane=message.lane,
        user=message.user,
        session=session,
        priority=message.priority,
        inside=True,
    )


def _is_message(ties: RunLinks) -> bool:
    return ties.parent is None and ties.job is None


def _brings_others(new: NewRun) -> bool:
    return new.ties is not None and bool(new.ties.then or new.ties.on_failure)


def _is_cancelled(run: Known) -> bool:
    return run.requested is Request.CANCEL


def _last(runs: Iterable[K]) -> K | None:
    found = list(runs)
    return found[-1] if found else None
