"""One attempt in progress, and how it is made to stop."""

from __future__ import annotations

import asyncio
from enum import Enum
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any

import msgspec

from laneway.core.common.structs import written_often
from laneway.core.records.events import Draft, condensed
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Claimed, Request
from laneway.engine.children.pool import ChildHandle
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.replay import ReplayLog
from laneway.engine.handlers.task import Task

ENOUGH = 64  # events of one run that are company enough for each other


class Stop(Enum):
    """Why the engine stopped a handler before it was done."""

    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    RELEASED = "released"
    LOST = "lost"


@written_often
class RunningAttempt(msgspec.Struct, eq=False, gc=False):
    """One attempt in progress: the lease, the handler's task on the loop, its events no store has seen yet.

    It and its handle hold each other only until the handler has ended, so the garbage collector need not know it.
    """

    run: Claimed
    task: Task[..., Any]
    policy: TaskPolicy  # the terms of this run: its task's, or its job's
    drafts: list[Draft] | tuple[()] = ()  # a list once there is something to add to it
    handle: asyncio.Task[None] | None = None
    stopped: Stop | None = None
    request: Request | None = None  # what was asked of it from outside
    thread: int | None = None  # where a plain handler is executed
    child: ChildHandle | None = None
    stuck: bool = False
    inbox: Inbox | None = None  # of a handler that can read it
    merged: int = 0  # messages that were merged into the run, or answered it
    replay: ReplayLog | None = None  # of a handler that can leave one
    enough: int = ENOUGH  # events that do not wait for more
    lost: bool = False  # with its lease

    @property
    def over(self) -> bool:
        """Whether it was settled, or lost: what its handler still says is nobody's business."""
        return self.handle is None or self.lost

    @property
    def told_to_stop(self) -> bool:
        """Whether the attempt was told to stop. One that pauses was not: it ends what it has begun."""
        return self.stopped is not None and self.stopped is not Stop.PAUSED

    def stop(self, why: Stop, grace: float = 0) -> None:
        """Stop the handler, once; the first reason is the one that counts. A child is killed after `grace` seconds."""
        if self.told_to_stop:
            return
        self.stopped = why
        if self.child is not None:
            self.child.stop(grace / 2, grace)
        # Race: a task cancelled before its first turn never runs, and then nobody would settle the run. One that has
        # not begun is left to see for itself that it need not.
        elif self.handle is not None and getcoroutinestate(self.handle.get_coro()) != CORO_CREATED:  # type: ignore[arg-type]  # a task made from a coroutine has one
            self.handle.cancel()

    def kill(self) -> None:
        """Kill the handler's child process, if it has one."""
        if self.child is not None:
            self.child.kill()

    def say(self, draft: Draft) -> None:
        """Add an event of the engine's own."""
        if isinstance(self.drafts, list):
            self.drafts.append(draft)
        else:
            self.drafts = [draft]

    def take_drafts(self) -> tuple[Draft, ...]:
        """Return the buffered events as the store shall have them, and forget them."""
        # Race: a handler in a thread may add to the list between the copy and the cut; what it adds stays.
        drafts = tuple(self.drafts)
        if isinstance(self.drafts, list):
            del self.drafts[: len(drafts)]
        return condensed(drafts)
