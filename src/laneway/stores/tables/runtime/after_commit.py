"""What a piece of work asks of its commit, and what follows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from laneway.core.lifecycle.step import LentReply
from laneway.stores.tables.runtime.step_cache import Memory
from laneway.stores.tables.sql.database import Question

# What a piece of work will ask first, by what is remembered, if anything is, and of which lanes the last step knew.
Ahead = Callable[[Memory | None, Collection[str]], Iterable[Question]]


def nothing_ahead(_: Memory | None, __: Collection[str]) -> Iterable[Question]:
    """Expect nothing."""
    return ()


class Woken(NamedTuple):
    """A worker to be woken, where others reach it, and the answer to the step that it lent if that was done."""

    incarnation: str
    socket: str | None
    answer: LentReply | None = None


class Lender(NamedTuple):
    """A resting worker that has lent its next step, and can start something."""

    number: int
    incarnation: str
    socket: str | None
    call: int  # the number of its last step
    room: int
    is_heard: bool  # whether the store's server has a connection of its process


def _nobody(_: Lender) -> bool:
    return False


class Effects:
    """Whom to wake, whose next step to do before the commit, and whether events were written, also `on_others`.

    What need not be `durable` survives a crash of any process, and only a crash of the machine may undo it. What is
    `swift` may be seen, and worked on, before it is durable: only its answer waits for that; but not what it did to
    other runs than its own. What is `short` may be done on its caller's loop. Work that `remembers` finds in `memory`
    what holds, and leaves there what then holds, or None; after any other, nothing does. What it will ask `ahead` can
    be sent with what begins its transaction. `is_there` tells whether a worker that has lent its next step is seen to
    live.
    """

    __slots__ = (
        "ahead",
        "durable",
        "events",
        "is_there",
        "lender",
        "memory",
        "on_others",
        "remembers",
        "short",
        "swift",
        "wake",
    )

    def __init__(
        self,
        *,
        durable: bool = True,
        swift: bool = False,
        short: bool = False,
        remembers: bool = False,
        ahead: Ahead = nothing_ahead,
    ) -> None:
        self.durable, self.swift, self.short, self.remembers, self.ahead = durable, swift, short, remembers, ahead
        self.is_there: Callable[[Lender], bool] = _nobody
        self.forget()

    def forget(self) -> None:
        """Forget what follows: the work was undone and is done again."""
        self.memory: Memory | None = None
        self.wake: list[Woken] = []
        self.lender: Lender | None = None
        self.events = self.on_others = False
