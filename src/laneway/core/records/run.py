"""The run: the record users read, the form it is submitted in, and what a worker is handed."""

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
    """What can be asked of a run while it is running; its worker is told."""

    CANCEL = "cancel"
    PAUSE = "pause"
    STEER = "steer"  # messages lie in its inbox


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt did not succeed. `kind` is the glossary's word, `type` the exception's name."""

    kind: (
        str  # error, timed_out, crashed, child_died, out_of_memory, bad_result, bad_arguments, bad_merge, refused, ...
    )
    type: str
    message: str
    traceback: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One durable request to execute a task, as it stood when it was read."""

    id: str
    number: int  # acceptance: given by the store, in the order runs were accepted
    task: str
    args: dict[str, Any]
    lane: str
    user: str | None = None
    session: str | None = None
    priority: int = 0
    state: RunState = RunState.PENDING
    attempt: int = 1  # 1 + the failures so far
    fence: int = 0  # how often it was started
    crashes: int = 0  # lapses in a row
    accepted_at: datetime
    due_at: datetime
    started_at: datetime | None = None  # of the newest attempt
    ended_at: datetime | None = None
    result: Any = None
    error: Failure | None = None  # how the newest attempt that ended failed, if it did
    # Why it ended as it did, where the state does not say it; before that, that it is one crash short of quarantine.
    reason: str | None = None
    worker: str | None = None  # the incarnation that holds its lease
    request: Request | None = None  # what was asked of it while it is running
    retry_of: str | None = None  # the run that this one tries again
    messages: int = 0  # how many it took beside the one it was made of
    ties: RunLinks | None = None
    wait: Wait | None = None  # what it waits for, while it does

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
        """Tell whether the run is in a terminal state."""
        return self.state in TERMINAL


class NewRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checked submission on its way to a store. `args` is JSON text; `delay`, in microseconds, is from acceptance."""

    id: str
    task: str
    args: str
    lane: str
    user: str | None = None
    session: str | None = None
    priority: int = 0
    delay: int = 0
    due_at: int | None = None  # an instant instead of a delay
    retry_of: str | None = None  # the id of the run that this one tries again
    arrival: SessionIntent | None = None  # how it comes to its session; None: it waits its turn
    key: str | None = None  # unique per task and user
    inside: bool = False  # made by the engine: no bound, cap, debounce or merge applies to it
    patient: bool = True  # its caller waits if the lane is full and lets callers wait
    ties: RunLinks | None = None

    @property
    def later(self) -> bool:
        """Tell whether it is to be due some time after its acceptance."""
        return self.delay > 0 or self.due_at is not None

    @property
    def is_plain(self) -> bool:
        """Tell whether every optional field equals its default: it is an id, a task, arguments and a lane."""
        return _options_of(self) == _DEFAULTS


class UniformBatch(Sequence[NewRun]):
    """Submissions of one task to one lane that have ids and arguments and nothing else, in columns.

    Who accepts all of them at once takes the columns: a submission is made when somebody asks for it.
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
    """What ties a run to others; most have none.

    `parent` left it behind or, if there is a `call`, waits for it under that name. `session` is one that it names
    without taking a place in it. `trace` are texts that go along with it and all that it leaves behind. `then` and
    `on_failure` are follow-ups, written by whoever ends it: their ids are made then. `job` is the job that started it.
    """

    parent: str | None = None
    depth: int = 0  # how many parents there are above it
    call: str | None = None
    tries: int = 0  # of that call, before this one
    about: str = ""
    session: str | None = None
    trace: dict[str, str] = {}
    then: tuple[NewRun, ...] = ()
    on_failure: tuple[NewRun, ...] = ()
    job: JobTie | None = None


# Derived from the fields, so that a field added later makes a run that sets it special everywhere.
_OPTIONAL = [field for field in msgspec.structs.fields(NewRun) if not field.required]
_DEFAULTS = tuple(field.default for field in _OPTIONAL)
_options_of = attrgetter(*(field.name for field in _OPTIONAL))


class MessageKind(StrEnum):
    """What became of a message that another run took."""

    ANSWERED = "answered"  # while it waited for an answer: it is the answer
    MERGED = "merged"  # before the run was started: part of its arguments
    STEERED = "steered"  # while it was active: lies in its inbox


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A submission that another run took. `nth` counts those of one run and kind from 1; `args` is JSON text."""

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
    """A run and its lease, as handed to the worker that will execute it (or, `lapsed`, settle it for the dead)."""

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
    worker: str  # who executes it; for a lapsed lease, who did
    lapsed: bool = False
    state: str | None = None  # what its last checkpoint saved, as JSON text
    timed_out: bool = False  # of a lapsed lease: it was overdue before its worker died
    messages: int = 0  # how many it took, merged and steered, when it was claimed
    prepared: str | None = None  # the arguments as `before_start` left them, as JSON text, if it was called
    ties: RunLinks | None = None
    memos: int = 0  # how many it has kept


class Startable(Protocol):
    """What a store knows of a run that it hands to a worker; `checkpoint` is what its last one saved."""

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
        """What ties it to other runs."""

    @property
    def kept(self) -> int:
        """How many memos it has."""

    @property
    def messages(self) -> int:
        """How many messages it took."""


def handed(runs: Iterable[Startable], worker: str, lapsed: bool = False, timed_out: bool = False) -> list[Claimed]:
    """Return runs as the worker that executes them is handed them, or whoever settles them for the dead."""
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

    LANE_UNKNOWN = "lane_unknown"  # it went to `main` instead
    LANE_FULL = "lane_full"
    LANE_WAIT = "lane_wait"  # full, and the caller shall wait; callers see lane_full
    TASK_DISABLED = "task_disabled"
    SESSION_WAIT = "session_wait"  # who is before it is not lined up yet: come again; callers do not see it
    SESSION_BUSY = "session_busy"
    SESSION_FULL = "session_full"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    RESET = "reset"
    ANSWERED = "answered"  # the message is the answer to a question
    UNANSWERED = "unanswered"  # nobody answered in time
    SUPERSEDED = "superseded"  # a message came instead of an answer
    PARENT_ENDED = "parent_ended"  # whoever called it does not wait for it any more
    KEY_CONFLICT = "key_conflict"


COME_AGAIN = frozenset({Why.LANE_WAIT, Why.SESSION_WAIT})  # to whom nothing was said yet, so nothing is counted


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The answer to a submission.

    `run_id` is the run that answers it: its own, or the one that took it; of a refused one it is the id the run would
    have had. `position` is how many runs are ahead of it, in its session if it has one, else in its lane; None if none
    is. `reason` says why it was refused, or is a note. `state` is that of the run which an earlier submission of the
    same key made.
    """

    outcome: ReceiptOutcome
    run_id: str
    reason: str | None = None
    position: int | None = None
    state: RunState | None = None

    @property
    def accepted(self) -> bool:
        """Tell whether a run answers the submission."""
        return self.outcome not in (ReceiptOutcome.REFUSED, ReceiptOutcome.SKIPPED)


class Gate(StrEnum):
    """What can keep a pending run from starting."""

    NOT_DUE = "not_due"
    SESSION_BUSY = "session_busy"
    LANE_FULL = "lane_full"
    USER_AT_CAP = "user_at_cap"
    NO_WORKER = "no_worker"  # none that is alive knows the task
    TURN = "turn"  # others are before it, or no worker has room
    PAUSED = "paused"
    BREAKER_OPEN = "breaker_open"
    SHUT = "shut"  # the store has a part in a move
    MEMORY_SHORT = "memory_short"
    LAST_CHANCE = "last_chance"  # every worker executes another run that is one crash short of quarantine
    ANSWER = "answer"  # it has asked something, and waits
    CALL = "call"  # it has called other runs, and waits


class Reason(msgspec.Struct, frozen=True):
    """One gate that is closed for a run.

    `holder` names what holds it ("lane main", "user ann", "session chat-7", "task mail", "move to redis://there",
    "run"), `runs` the first ids of the runs that do, `ahead` how many are before it, and `opens_at` when it opens, if
    that is known.
    """

    gate: Gate
    holder: str | None = None
    opens_at: datetime | None = None
    runs: tuple[str, ...] = ()
    ahead: int | None = None


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list; what is None does not matter."""

    state: RunState | None = None
    task: str | None = None
    lane: str | None = None
    user: str | None = None
    session: str | None = None

    @classmethod
    def of(cls, *, state: RunState | str | None, **others: str | None) -> RunFilter:
        """Return the filter for what a caller wrote; raise BadSetting for a state that is none.

        >>> RunFilter.of(state="failed", task="mail").state.value
        'failed'
        """
        return cls(state=None if state is None else RunState.named(state), **others)
