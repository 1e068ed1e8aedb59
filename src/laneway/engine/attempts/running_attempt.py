"""One running attempt, and how it is stopped."""

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

FLUSH_AT = 64  # a run with so many buffered events does not wait for more


class Stop(Enum):
    """Why the engine stopped a handler before its end."""

    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    RELEASED = "released"
    LOST = "lost"


@written_often
class RunningAttempt(msgspec.Struct, eq=False, gc=False):
    """One running attempt: its lease, its handler's task on the loop, and its events that are not stored yet.

    The attempt and its handle refer to each other only until the handler has ended, so the garbage collector need not
    track them.
    """

    run: Claimed
    task: Task[..., Any]
    policy: TaskPolicy  # the terms of this run: its task's, or its job's
    drafts: list[Draft] | tuple[()] = ()  # a list once there is one
    handle: asyncio.Task[None] | None = None
    stopped: Stop | None = None
    request: Request | None = None  # the request that stands for the run
    thread: int | None = None  # the thread that executes a plain handler
    child: ChildHandle | None = None
    stuck: bool = False
    inbox: Inbox | None = None  # only for a handler with a context
    merged: int = 0  # messages that were merged into the run, or answered it
    replay: ReplayLog | None = None  # only for a handler with a context
    flush_at: int = FLUSH_AT  # with so many buffered events it does not wait for more
    lost: bool = False  # its lease is lost

    @property
    def over(self) -> bool:
        """Whether it was settled or lost. Later events of its handler are dropped."""
        return self.handle is None or self.lost

    @property
    def told_to_stop(self) -> bool:
        """Whether the attempt was told to stop. A pausing one was not: it finishes the step that it has begun."""
        return self.stopped is not None and self.stopped is not Stop.PAUSED

    def stop(self, why: Stop, grace: float = 0) -> None:
        """Stop the handler, once; the first reason counts. A child process is killed after `grace` seconds."""
        if self.told_to_stop:
            return
        self.stopped = why
        if self.child is not None:
            self.child.stop(grace / 2, grace)
        # Race: a task that is cancelled before its first turn never runs, and nobody would settle the run. So a task
        # that has not begun is not cancelled: it sees by itself that it must stop.
        elif self.handle is not None and getcoroutinestate(self.handle.get_coro()) != CORO_CREATED:  # type: ignore[arg-type]  # a task made from a coroutine has one
            self.handle.cancel()

    def kill(self) -> None:
        """Kill the handler's child process, if it has one."""
        if self.child is not None:
            self.child.kill()

    def add_draft(self, draft: Draft) -> None:
        """Add an event."""
        if isinstance(self.drafts, list):
            self.drafts.append(draft)
        else:
            self.drafts = [draft]

    def take_drafts(self) -> tuple[Draft, ...]:
        """Return the buffered events in the form that is stored, and remove them."""
        # Race: a handler in a thread may add to the list between the copy and the deletion; its event stays.
        drafts = tuple(self.drafts)
        if isinstance(self.drafts, list):
            del self.drafts[: len(drafts)]
        return condensed(drafts)
