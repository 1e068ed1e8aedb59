"""The one call of a worker to its store: settle what finished, claim what fits, and go idle if room is left."""

from __future__ import annotations

import msgspec

from laneway.core.lifecycle.outcome import Settlement
from laneway.core.records.events import Draft
from laneway.core.records.memos import Memo
from laneway.core.records.run import Claimed, Request


class Result(msgspec.Struct, frozen=True, gc=False):
    """A settlement, and the lease that it is written under.

    `read` is how many messages of its inbox the attempt has read. `throttled` is what `load` says about its session
    now.
    """

    number: int
    fence: int
    settlement: Settlement
    read: int = 0
    throttled: bool | None = None


class Emitted(msgspec.Struct, frozen=True, gc=False):
    """Events of a run that goes on, and the lease that they are written under."""

    number: int
    fence: int
    drafts: tuple[Draft, ...]


class Saved(msgspec.Struct, frozen=True, gc=False):
    """What a run that goes on leaves for its next attempt, as JSON text, and the lease that it is written under.

    `state` is a checkpoint's, `prepared` are the arguments that `before_start` returned, `memo` is one more memo. None
    leaves the stored value as it is.
    """

    number: int
    fence: int
    state: str | None = None
    prepared: str | None = None
    memo: Memo | None = None


class Requested(msgspec.Struct, frozen=True, gc=False):
    """What was requested of a run that the worker executes; for `steer`, how many messages its inbox has."""

    number: int
    fence: int
    request: Request
    messages: int = 0


class Step(msgspec.Struct, frozen=True):
    """What a worker sends to the store in one atomic call.

    `call` is the worker's call number: it grows by one with each new step, and a step without an answer is sent again
    under the same number. `room` is how many runs the worker can take. With `park` the worker is idle, to be woken, as
    long as it has room. If it executes nothing it may also `offers_next`: then the store may make the worker's next
    step instead of waking it, with the same room and nothing else in it (`WorkerStore.step`). `saved` are checkpoints.
    `overdue` are the leases whose attempts have timed out, by run number and fence: whatever ends such an attempt
    settles it as timed out. `short`: it takes no runs for lack of memory. `last` is the number of the newest earlier
    step that sent or brought anything: a store that does not know that step has lost it.
    """

    incarnation: str
    call: int
    results: list[Result] = []
    emitted: list[Emitted] = []
    room: int = 0
    park: bool = False
    saved: list[Saved] = []
    overdue: list[tuple[int, int]] = []
    short: bool = False
    offers_next: bool = False
    last: int = 0


class StepReply(msgspec.Struct, frozen=True):
    """The store's answer to a step.

    `refused` lists, by run number and fence, the results and events that were not written because the worker does not
    hold the lease any more. `due_in` is how long until the next pending run is due, in microseconds; `more` says to
    make the next step at once. `now` is the store's time. `requests` are all standing requests for the runs that the
    worker executes: they come with every answer until the run is settled or the request is taken back. `fires_in` is
    how long until a job is due, counted from `now`; the answer to a repeated step has the value of that moment. `moved`
    is the new address if the store's content is being moved: then nothing is claimed here any more.
    """

    claimed: list[Claimed] = []
    refused: list[tuple[int, int]] = []
    due_in: int | None = None
    more: bool = False
    now: int = 0
    requests: list[Requested] = []
    fires_in: int | None = None
    moved: str | None = None


class PushedReply(msgspec.Struct, frozen=True, gc=False):
    """The reply to an offered step that the store has made for the worker, and the call number of that step."""

    call: int
    reply: StepReply


def offers_next_step(step: Step, reply: StepReply) -> bool:
    """Tell whether the worker offers its next step. After a reply that brings work it has something to send."""
    return step.offers_next and not (reply.claimed or reply.refused or reply.more)


def named_in(step: Step) -> list[tuple[int, int]]:
    """Return all leases in a step, by run number and fence."""
    said: list[Result | Emitted | Saved] = [*step.results, *step.emitted, *step.saved]
    return list(dict.fromkeys([*((one.number, one.fence) for one in said), *step.overdue]))


class RenewReply(msgspec.Struct, frozen=True):
    """The store's answer to a renewal: its time, the leases that it knows, as (number, fence), and the requests."""

    now: int
    leases: list[tuple[int, int]] = []
    requests: list[Requested] = []


class ReclaimReply(msgspec.Struct, frozen=True):
    """Leases of dead workers, now the caller's to settle as lapsed; `more` if one answer did not hold them all."""

    lapsed: list[Claimed] = []
    more: bool = False
