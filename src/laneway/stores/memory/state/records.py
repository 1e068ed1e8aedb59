"""The record of a run in the memory store, and the run as others see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from sys import intern
from typing import Any

import msgspec

from laneway.core.common.instants import instant
from laneway.core.common.structs import written_often
from laneway.core.queue.shelves import Shelf
from laneway.core.queue.turns import FRESH
from laneway.core.records import codec, memos
from laneway.core.records.events import Draft, Stamped, counted
from laneway.core.records.memos import Memo, Wait
from laneway.core.records.policy import SessionIntent
from laneway.core.records.run import Failure, Message, MessageKind, NewRun, Request, Run, RunFilter, RunLinks
from laneway.core.records.states import RunState

_PAUSED = RunState.PAUSED  # looking up an enum's member costs more than what is done with it


class EventBatch(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Events written together, and the batch written before. Runs that start and end together share their batches."""

    attempt: int
    at: int
    drafts: tuple[Draft, ...]
    before: EventBatch | None


@written_often
class RunRecord(msgspec.Struct, eq=False, gc=False):
    """A run as the memory store keeps it.

    Neither it nor what it holds is tracked by Python's garbage collector (hence no list in it), which would otherwise
    look at every run that was ever accepted, again and again.
    """

    number: int
    id: str
    task: str
    args: str
    lane: str
    user: str | None
    session: str | None
    priority: int
    accepted_at: int
    due_at: int
    arrival: SessionIntent | None = None  # how it joins its session, if it joins later
    # What every run needs on its way comes first, side by side: the processor fetches neighbours together.
    kind: int = FRESH
    rank: int = 0
    shelf: Shelf = Shelf.DUE  # where it is, or was last, while it is pending
    spot: int = 0  # its entry there; 0 when it was taken out
    state: RunState = RunState.PENDING
    attempt: int = 1
    fence: int = 0
    crashes: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    result: str | None = None
    log: EventBatch | None = None  # the newest
    worker: str | None = None
    lapsed: bool = False
    timed_out: bool = False
    request: Request | None = None
    taken: tuple[Message, ...] = ()  # the messages it took, merged ones first
    messages: int = 0  # how many these are
    ties: RunLinks | None = None
    wait: Wait | None = None  # what it waits for, or waited for last
    checkpoint: str | None = None
    prepared: str | None = None
    kept: int = 0  # how many memos it has
    memos: tuple[Memo, ...] = ()
    failure: Failure | None = None
    reason: str | None = None
    retry_of: str | None = None
    read: int = 0  # of its inbox, by the newest attempt that ended
    keyed: tuple[tuple[str, str | None, str], ...] = ()  # the keys that stand for it
    cleared: bool = False  # unread messages are dropped when it ends
    call: str = ""  # the newest call that changed it from outside
    trimmed: bool = False  # there are marks in it, so that events cannot be counted off

    @classmethod
    def of(cls, number: int, new: NewRun, lane: str, now: int, due_at: int) -> RunRecord:
        """Return the record of a run that is being accepted."""
        who = (_shared(new.user), _shared(new.session), new.priority)
        return cls(number, new.id, new.task, new.args, lane, *who, now, due_at, retry_of=new.retry_of, ties=new.ties)

    @property
    def inbox(self) -> tuple[Message, ...]:
        """The messages that came while it was active."""
        return tuple(message for message in self.taken if message.kind is MessageKind.STEERED)

    def keep(self, memo: Memo) -> None:
        """Add a memo."""
        self.memos = memos.kept(self.memos, memo)
        self.kept = len(self.memos)

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.state is _PAUSED

    @property
    def stands(self) -> RunState:
        """The state it is in."""
        return self.state

    @property
    def requested(self) -> Request | None:
        """What was requested of it."""
        return self.request


def _shared(name: str | None) -> str | None:
    """Return the one object of this name that all its runs share: dictionaries compare it quickly."""
    return None if name is None else intern(str(name))


def run_of(record: RunRecord) -> Run:
    """Return the run as callers see it."""
    return Run(
        id=record.id,
        number=record.number,
        task=record.task,
        args=codec.from_json(record.args),
        lane=record.lane,
        user=record.user,
        session=session_of(record),
        priority=record.priority,
        state=record.state,
        attempt=record.attempt,
        fence=record.fence,
        crashes=record.crashes,
        accepted_at=instant(record.accepted_at),
        due_at=instant(record.due_at),
        started_at=None if record.started_at is None else instant(record.started_at),
        ended_at=None if record.ended_at is None else instant(record.ended_at),
        result=value_of(record),
        error=record.failure,
        reason=record.reason,
        worker=record.worker,
        request=record.request,
        retry_of=record.retry_of,
        messages=record.messages,
        ties=record.ties,
        wait=record.wait if record.state is RunState.WAITING else None,
    )


def session_of(record: RunRecord) -> str | None:
    """Return the session that the run names, whether it has a place in it or not."""
    return record.session if record.ties is None else record.session or record.ties.session


def log_of(record: RunRecord, skipped: int = 0) -> Iterator[Stamped]:
    """Yield the run's events, oldest first, without the first ones that are to be skipped."""
    batches: list[EventBatch] = []
    newest = record.log
    while newest is not None:
        batches.append(newest)
        newest = newest.before
    for batch in reversed(batches):
        # By batches: a reader of a long log would otherwise go through all earlier events for each page.
        for kind, data in batch.drafts[skipped:]:
            yield kind, batch.attempt, batch.at, data
        skipped = max(0, skipped - len(batch.drafts))


def page_of(record: RunRecord, after: int, limit: int) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield up to `limit` of the run's events with numbers greater than `after`."""
    skipped = 0 if record.trimmed else max(0, after)
    rows = ((kind, attempt, at, codec.from_json(data)) for kind, attempt, at, data in log_of(record, skipped))
    return islice(((seq, row) for seq, row in counted(skipped + 1, rows) if seq > after), max(0, limit))


def value_of(record: RunRecord) -> object:
    """Return the run's result."""
    return None if record.result is None else codec.from_json(record.result)


def fits(record: RunRecord, wanted: RunFilter) -> bool:
    """Return whether the run fits the filter."""
    if wanted.session is not None and wanted.session != session_of(record):
        return False
    return all(
        want is None or want == getattr(record, name)
        for name in ("state", "task", "lane", "user")
        for want in [getattr(wanted, name)]
    )
