"""The run: the record that users read, the form in which it is submitted, and what a worker gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Protocol, overload

import msgspec

from laneway.core.records.job_tie import JobTie
from laneway.core.records.memos import Wait
from laneway.core.records.policy import SessionIntent
from laneway.core.records.states import TERMINAL, RunState


class Request(StrEnum):
    """What can be requested of a running run; its worker is told."""

    CANCEL = "cancel"
    PAUSE = "pause"
    STEER = "steer"  # its inbox has messages


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt did not succeed. `kind` is a word of the glossary, `type` the exception's name."""

    kind: (
        str  # error, timed_out, crashed, child_died, out_of_memory, bad_result, bad_arguments, bad_merge, refused, ...
    )
    type: str
    message: str
    traceback: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One durable request to execute a task, as it was when it was read."""

    id: str
    number: int  # given by the store, in the order of acceptance
    task: str
    args: dict[str, Any]
    lane: str
    user: str | None = None
    session: str | None = None
    priority: int = 0
    state: RunState = RunState.PENDING
    attempt: int = 1  # 1 + the failures so far
    fence: int = 0  # how many times it was started
    crashes: int = 0  # lapses in a row
    accepted_at: datetime
    due_at: datetime
    started_at: datetime | None = None  # when the newest attempt started
    ended_at: datetime | None = None
    result: Any = None
    error: Failure | None = None  # how the newest finished attempt failed, if it did
    # Why it ended so, where the state does not say it. Before its end: that it is one crash short of quarantine.
    reason: str | None = None
    worker: str | None = None  # the incarnation that holds its lease
    request: Request | None = None  # what was requested of it while it runs
    retry_of: str | None = None  # the run that this one retries
    messages: int = 0  # how many it took beside the one that it was made of
    ties: RunLinks | None = None
    wait: Wait | None = None  # what it waits for now

    @property
    def parent(self) -> str | None:
        """The id of the run that left this one behind, or called it."""
        return None if self.ties is None else self.ties.parent

    @property
    def job(self) -> JobTie | None:
        """The job that started it, and for what time."""
        return None if self.ties is None else self.ties.job

    @property
    def ended(self) -> bool:
        """Whether the run is in a terminal state."""
        return self.state in TERMINAL


class NewRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checked submission for a store. `args` is JSON text; `delay`, in microseconds, counts from acceptance."""

    id: str
    task: str
    args: str
    lane: str
    user: str | None = None
    session: str | None = None
    priority: int = 0
    delay: int = 0
    due_at: int | None = None  # an instant instead of a delay
    retry_of: str | None = None  # the id of the run that this one retries
    arrival: SessionIntent | None = None  # how it comes to its session; None: it queues
    key: str | None = None  # unique per task and user
    inside: bool = False  # made by the engine: no bound, cap, debounce or merge applies
    patient: bool = True  # its caller is ready to wait for a full lane
    ties: RunLinks | None = None

    @property
    def later(self) -> bool:
        """Whether it is due some time after its acceptance."""
        return self.delay > 0 or self.due_at is not None

    @property
    def is_plain(self) -> bool:
        """Whether every optional field equals its default: it has an id, a task, arguments and a lane only."""
        return _options_of(self) == _DEFAULTS


class UniformBatch(Sequence[NewRun]):
    """Submissions of one task to one lane, with ids and arguments and nothing else, in columns.

    A store that accepts all of them at once reads the columns. Reading an item makes a `NewRun`.
    """

    __slots__ = ("args", "ids", "lane", "task")

    def __init__(self, task: str, lane: str, ids: Sequence[str], args: Sequence[str]) -> None:
        self.task, self.lane, self.ids, self.args = task, lane, ids, args

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[NewRun]:
        for id_, args in zip(self.ids, self.args, strict=True):
            yield NewRun(id=id_, task=self.task, args=args, lane=self.lane)

    @overload
    def __getitem__(self, place: int) -> NewRun: ...

    @overload
    def __getitem__(self, place: slice) -> UniformBatch: ...

    def __getitem__(self, place: int | slice) -> NewRun | UniformBatch:
        if isinstance(place, slice):
            return UniformBatch(self.task, self.lane, self.ids[place], self.args[place])
        return NewRun(id=self.ids[place], task=self.task, args=self.args[place], lane=self.lane)


class RunLinks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The links of a run to other runs and to a job; most runs have none.

    `parent` left it behind, or, if there is a `call`, waits for it under that name. `session` is the session that it
    names without having a place in it. `trace` are texts that go along with it and with all that it leaves behind.
    `then` and `on_failure` are follow-ups, submitted by the step that ends it, which makes their ids. `job` started it.
    """

    parent: str | None = None
    depth: int = 0  # how many parents are above it
    call: str | None = None
    tries: int = 0  # tries of that call before this one
    about: str = ""
    session: str | None = None
    trace: dict[str, str] = {}
    then: tuple[NewRun, ...] = ()
    on_failure: tuple[NewRun, ...] = ()
    job: JobTie | None = None


# Derived from the fields, so a field that is added later makes a run with it special everywhere.
_OPTIONAL = [field for field in msgspec.structs.fields(NewRun) if not field.required]
_DEFAULTS = tuple(field.default for field in _OPTIONAL)
_options_of = attrgetter(*(field.name for field in _OPTIONAL))


class MessageKind(StrEnum):
    """What became of a message that another run took."""

    ANSWERED = "answered"  # the run waited for an answer, and this is it
    MERGED = "merged"  # the run had not started: part of its arguments
    STEERED = "steered"  # the run was active: in its inbox


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A submission that another run took. `nth` counts from 1 for each run and kind; `args` is JSON text."""

    id: str
    kind: MessageKind
    nth: int
    task: str
    args: str
    lane: str
    user: str | None = None
    priority: int = 0
    key: str | None = None


class Claimed(msgspec.Struct, gc=False):
    """A run and its lease, for the worker that executes it or, if `lapsed`, settles it for a dead one."""

    number: int
    id: str
    task: str
    args: str
    fence: int
    attempt: int
    crashes: int
    lane: str
    user: str | None
    session: str | None
    priority: int
    worker: str  # the worker that executes it; of a lapsed lease, that did
    lapsed: bool = False
    state: str | None = None  # the last checkpoint, as JSON text
    timed_out: bool = False  # of a lapsed lease: it had timed out before its worker died
    messages: int = 0  # how many messages it had taken when it was claimed
    prepared: str | None = None  # the arguments that `before_start` returned, as JSON text
    ties: RunLinks | None = None
    memos: int = 0  # how many memos it has kept


class Startable(Protocol):
    """What a store knows of a run that it gives to a worker; `checkpoint` is the last one."""

    number: int
    id: str
    task: str
    args: Any
    fence: int
    attempt: int
    crashes: int
    lane: str
    user: str | None
    session: str | None
    priority: int
    checkpoint: str | None
    prepared: str | None

    @property
    def ties(self) -> RunLinks | None:
        """Its links to other runs."""

    @property
    def kept(self) -> int:
        """How many memos it has."""

    @property
    def messages(self) -> int:
        """How many messages it took."""


def handed(runs: Iterable[Startable], worker: str, lapsed: bool = False, timed_out: bool = False) -> list[Claimed]:
    """Return runs as a worker gets them, to execute them or to settle them for a dead worker."""
    return [
        Claimed(
            run.number,
            run.id,
            run.task,
            run.args,
            run.fence,
            run.attempt,
            run.crashes,
            run.lane,
            run.user,
            run.session,
            run.priority,
            worker,
            lapsed,
            run.checkpoint,
            timed_out,
            run.messages,
            run.prepared,
            run.ties,
            run.kept,
        )
        for run in runs
    ]


class ReceiptOutcome(StrEnum):
    """What became of a submission."""

    ACCEPTED = "accepted"
    MERGED = "merged"
    STEERED = "steered"
    EXISTING = "existing"
    SKIPPED = "skipped"
    REFUSED = "refused"


class Why(StrEnum):
    """Why a submission was not accepted as it came, or a run was dropped: the reason on its receipt or record."""

    LANE_UNKNOWN = "lane_unknown"  # unknown lane: the run went to `main`
    LANE_FULL = "lane_full"
    LANE_WAIT = "lane_wait"  # full, and the caller shall wait; users see lane_full
    TASK_DISABLED = "task_disabled"
    SESSION_WAIT = "session_wait"  # earlier runs are not in the queue yet: submit again; users do not see it
    SESSION_BUSY = "session_busy"
    SESSION_FULL = "session_full"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    RESET = "reset"
    ANSWERED = "answered"  # the message is the answer to a question
    UNANSWERED = "unanswered"  # there was no answer in time
    SUPERSEDED = "superseded"  # a message came instead of an answer
    PARENT_ENDED = "parent_ended"  # its caller does not wait for it any more
    KEY_CONFLICT = "key_conflict"


COME_AGAIN = frozenset({Why.LANE_WAIT, Why.SESSION_WAIT})  # not the final answer yet, so nothing is counted


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The answer to a submission.

    `run_id` is the run for it: its own, or the one that took it; of a refused one, the id that the run would have had.
    `position` is how many runs are ahead of it, in its session if it has one, else in its lane; None if none is.
    `reason` says why it was refused, or is a note. `state` is the state of the run that an earlier submission of the
    same key made.
    """

    outcome: ReceiptOutcome
    run_id: str
    reason: str | None = None
    position: int | None = None
    state: RunState | None = None

    @property
    def accepted(self) -> bool:
        """Whether there is a run for the submission."""
        return self.outcome not in (ReceiptOutcome.REFUSED, ReceiptOutcome.SKIPPED)


class Gate(StrEnum):
    """What can keep a pending run from starting."""

    NOT_DUE = "not_due"
    SESSION_BUSY = "session_busy"
    LANE_FULL = "lane_full"
    USER_AT_CAP = "user_at_cap"
    NO_WORKER = "no_worker"  # no live worker knows the task
    TURN = "turn"  # other runs come first, or no worker has room
    PAUSED = "paused"
    BREAKER_OPEN = "breaker_open"
    SHUT = "shut"  # the store takes part in a move
    MEMORY_SHORT = "memory_short"
    LAST_CHANCE = "last_chance"  # each worker executes another run that is one crash short of quarantine
    ANSWER = "answer"  # it waits for an answer
    CALL = "call"  # it waits for runs that it called


class Reason(msgspec.Struct, frozen=True):
    """One gate that is closed for a run.

    `holder` names what holds it ("lane main", "user ann", "session chat-7", "task mail", "move to redis://there",
    "run"). `runs` has the first ids of the runs that hold it. `ahead` is how many come before it. `opens_at` is when it
    opens, if that is known.
    """

    gate: Gate
    holder: str | None = None
    opens_at: datetime | None = None
    runs: tuple[str, ...] = ()
    ahead: int | None = None


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list; None matches all."""

    state: RunState | None = None
    task: str | None = None
    lane: str | None = None
    user: str | None = None
    session: str | None = None

    @classmethod
    def of(cls, *, state: RunState | str | None, **others: str | None) -> RunFilter:
        """Return the filter from a caller's values. Raises BadSetting for an unknown state.

        >>> RunFilter.of(state="failed", task="mail").state.value
        'failed'
        """
        return cls(state=None if state is None else RunState.named(state), **others)
