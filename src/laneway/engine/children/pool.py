"""The pool of child processes: each executes one attempt at a time, stays warm, and is replaced when it dies.

A handler that computes for long, leaks memory, crashes the interpreter or does not stop is isolated there: it can be
killed, and it takes down a child, not the worker. The first attempt starts a child; after a good end the child waits
for the next attempt. So there are at most as many as the worker has slots.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from laneway.core.lifecycle.outcome import Failed, Outcome
from laneway.core.records.events import Draft
from laneway.core.records.memos import Recall
from laneway.core.records.run import Claimed, Failure
from laneway.engine.children.process import LAST_WORDS, ChildProcess
from laneway.engine.children.protocol import (
    Answer,
    Cancel,
    Checkpoint,
    Drafted,
    Ended,
    Execute,
    Inbound,
    Keep,
    Leave,
    Passing,
    Taken,
    Terminate,
    ended,
    names_of,
    outcome_in,
)
from laneway.engine.handlers.import_path import place_of, refuse_inside_child
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.replay import Bounds
from laneway.errors import LanewayError
from laneway.ports.clock import Clock

LEAVE_WITHIN = 2.0  # seconds that an idle child has for its exit hooks when the worker closes
NOTHING = ended(None)
NO_RECALL = Recall()
NO_CHILDREN = Bounds(0, 0, 0)  # it leaves no runs behind

Saved = Callable[[Checkpoint | Keep], Awaitable[bool]]


class ChildPool:
    """The child processes of one worker."""

    def __init__(self, clock: Clock, result_limit: int, bounds: Bounds = NO_CHILDREN) -> None:
        self.clock = clock
        self._result_limit, self._bounds = result_limit, bounds
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()

    def attempt(
        self,
        function: Callable[..., Any],
        run: Claimed,
        drafted: Callable[[Draft], None],
        saved: Saved,
        *,
        inbox: Inbox | None = None,
        recall: Recall = NO_RECALL,
        state: str | None = None,
        carried: Mapping[str, str] | None = None,
        transient: tuple[type[BaseException], ...] = (),
    ) -> ChildHandle:
        """Return a handle for an attempt in a child. Raises BadSetting if a child could not find the function.

        `drafted` is called with the handler's events, in order. `saved` saves a state or a memo; it returns True if the
        handler may go on, False to unwind it, or raises LanewayError if it cannot save. `inbox` has the run's messages,
        and `deliver` sends the newer ones. `state` is the last checkpoint, `recall` what else the run has kept.
        `carried` is readable in the child as `laneway.engine.handlers.context.carried`. The handle's `passing` is set
        if the attempt ended in one of the `transient` errors.
        """
        refuse_inside_child()
        if state is not None:
            run = msgspec.structs.replace(run, state=state)
        place, extras = place_of(function), (dict(carried or {}), names_of(transient))
        order = Execute(run, place, self._result_limit, self._bounds, recall, *extras)
        return ChildHandle(self, order, drafted, saved, inbox)

    async def take(self) -> tuple[ChildProcess, bool]:
        """Return an idle child, or a new one; and whether it is new."""
        while self._idle:
            child = self._idle.pop()
            if not child.died.done():
                return child, False
            await self.kill_and_wait(child)
        child = await ChildProcess.start()
        self._all.add(child)
        return child, True

    def give_back(self, child: ChildProcess) -> None:
        """Keep a child for the next attempt."""
        self._idle.append(child)

    async def kill_and_wait(self, child: ChildProcess) -> int:
        """Kill a child if it lives; return its exit status once it is dead."""
        status = await child.kill_and_wait()
        self._all.discard(child)
        return status

    async def close(self) -> None:
        """Let idle children leave, and kill those that do not or that still execute; return when all are dead."""
        idle, self._idle = self._idle, []
        for child in idle:
            child.send(Leave())
        await asyncio.gather(*[child.wait(LEAVE_WITHIN) for child in idle])
        await asyncio.gather(*[self.kill_and_wait(child) for child in self._all])


class ChildHandle:
    """The worker's handle for one attempt in a child process."""

    def __init__(
        self,
        children: ChildPool,
        order: Execute,
        drafted: Callable[[Draft], None],
        saved: Saved,
        inbox: Inbox | None,
    ) -> None:
        self._children, self._order = children, order
        self._inbox, self._delivered = inbox, 0
        self._drafted, self._saved = drafted, saved
        self._child: ChildProcess | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.stopped = False
        self.passing: Passing | None = None

    async def outcome(self) -> Outcome | None:
        """Execute the attempt and return its outcome; None if it was stopped or unwound.

        Returns only when the handler's code does not run any more. Cancelling this call kills the child, and then
        raises.
        """
        try:
            while True:
                self._child, is_new = await self._children.take()
                begun, end = await self._executed(self._child)
                if end is not None:
                    self.passing = end.passing
                    return await self._after_end(self._child, outcome_in(end))
                stopped = self.stopped or self._child.signalled  # the worker may have closed
                if not stopped:
                    await self._child.wait(LAST_WORDS)  # its exit status comes after its last message
                status = await self._children.kill_and_wait(self._child)
                if stopped:
                    return None
                # Race: an idle child may die at the moment when it is taken. Nothing has failed then: take a new one.
                if begun or is_new:
                    return Failed(_death(status, begun=begun))
        except BaseException:
            if self._child is not None:
                await self._children.kill_and_wait(self._child)
            raise
        finally:
            self._child = None
            if self._stopping is not None:
                self._stopping.cancel()

    def stop(self, soft: float, hard: float) -> None:
        """Stop the handler: tell it now, send SIGTERM after `soft` seconds and SIGKILL after `hard`; once.

        Being told makes `ctx.cancelled` true and cancels an async handler. SIGTERM raises in the child's main thread.
        Both signals also go to all processes that the handler started.
        """
        if not self.stopped:
            self.stopped = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop(soft, hard), name="laneway-stop-child")

    def deliver(self) -> None:
        """Send the messages that the child does not have yet."""
        if self._child is not None and self._inbox is not None and self._inbox.received > self._delivered:
            self._child.send(Inbound(self._inbox.since(self._delivered)))
            self._delivered = self._inbox.received

    def kill(self) -> None:
        """Stop the handler at once, whatever it is doing."""
        self.stopped = True
        if self._child is not None:
            self._child.send_signal(signal.SIGKILL)

    async def _stop(self, soft: float, hard: float) -> None:
        if self._child is not None:
            self._child.send(Cancel())
        await self._children.clock.sleep(soft)
        if self._child is not None:
            self._child.send(Terminate())
            self._child.send_signal(signal.SIGTERM)
        await self._children.clock.sleep(hard - soft)
        self.kill()

    async def _executed(self, child: ChildProcess) -> tuple[bool, Ended | None]:
        begun = False
        if self.stopped:
            return begun, NOTHING  # it was stopped before there was a child
        child.send(self._order)
        self._delivered = 0
        self.deliver()
        while (message := await child.receive()) is not None:
            if isinstance(message, Ended):
                return begun, message
            if isinstance(message, Drafted):
                self._drafted((message.kind, message.data))
            elif isinstance(message, (Checkpoint, Keep)):
                child.send(await self._answer(message))
            elif isinstance(message, Taken):
                if self._inbox is not None:
                    self._inbox.note(message.read)
            else:
                begun = True
        return begun, None

    async def _answer(self, message: Checkpoint | Keep) -> Answer:
        try:
            return Answer(go_on=await self._saved(message))
        except LanewayError as error:
            return Answer(problem=str(error))

    async def _after_end(self, child: ChildProcess, outcome: Outcome | None) -> Outcome | None:
        # A signal may still be on its way, or memory may be short: the next attempt must not suffer from that.
        spent = isinstance(outcome, Failed) and outcome.failure.kind == "out_of_memory"
        if child.signalled or spent:
            await self._children.kill_and_wait(child)
        else:
            self._children.give_back(child)
        return outcome


def _death(status: int, *, begun: bool) -> Failure:
    if status < 0:
        how = f"was killed by signal {-status}"
        with contextlib.suppress(ValueError):  # a signal without a name
            how += f" ({signal.Signals(-status).name})"
    else:
        how = f"exited with status {status}"
    return Failure("child_died", "ChildDied", f"the child process {how}" + ("" if begun else " before it could begin"))
