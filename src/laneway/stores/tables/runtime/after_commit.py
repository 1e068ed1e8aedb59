"""What a transaction wants done once it is committed: workers to wake up, and followers of events to notify."""

from __future__ import annotations

from typing import NamedTuple


class WakeUp(NamedTuple):
    """A worker to wake up, and where other processes reach it, if they can."""

    incarnation: str
    address: str | None


class IdleWorker(NamedTuple):
    """An idle worker as `waking.idle` reads it.

    `due_at` is the next due time that the worker knows of. `room` is set if its next claim may be made for it (claim
    ahead): it executes nothing, and has renewed in time. `has_listener`: the server knows a connection of its process
    that listens.
    """

    number: int
    id: str
    address: str | None
    due_at: int | None
    incarnation: str
    call: int  # the number of its last step
    room: int | None
    has_listener: bool


class AfterCommit:
    """Filled in by one piece of work inside its transaction, and forgotten if that is undone.

    `events`: events were written. `changed_others`: the work changed runs that existed before it. `claim_ahead`: an
    idle worker whose next claim can be made before the commit; a store that does not do that is never given one.
    """

    __slots__ = ("changed_others", "claim_ahead", "events", "wake_ups")

    def __init__(self) -> None:
        self.wake_ups: list[WakeUp] = []
        self.events = self.changed_others = False
        self.claim_ahead: IdleWorker | None = None
