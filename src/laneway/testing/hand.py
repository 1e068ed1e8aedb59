"""A worker under the control of a test: each claim, settlement and repeat is a call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TypedDict, Unpack

from laneway.core.lifecycle.outcome import (
    Cancelled,
    Failed,
    Lapsed,
    Outcome,
    Paused,
    Released,
    Snoozed,
    Succeeded,
    settle,
)
from laneway.core.lifecycle.step import Emitted, ReclaimReply, RenewReply, Result, Saved, Step, StepReply, named_in
from laneway.core.records import codec
from laneway.core.records.events import Draft, draft
from laneway.core.records.liveness import LEASE, Incarnation, ProcessMark
from laneway.core.records.memos import Memo, Question
from laneway.core.records.policy import MAIN, SessionPolicy, TaskPolicy
from laneway.core.records.run import Claimed, Failure, NewRun, RunLinks
from laneway.ports.store import Store
from laneway.testing.waits import waits

TASK = "work"
_ids = count(1)


def new_run(
    id: str | None = None,  # noqa: A002 - the field's own name
    *,
    task: str = TASK,
    args: object = None,
    lane: str = MAIN,
    user: str | None = None,
    session: str | None = None,
    max_concurrent: int | None = None,
    policy: SessionPolicy | None = None,
    priority: int = 0,
    delay: float = 0,
    due_at: int | None = None,
    retry_of: str | None = None,
    key: str | None = None,
    inside: bool = False,
    ties: RunLinks | None = None,
) -> NewRun:
    """Return a submission; `args` is the value itself, `delay` is in seconds.

    The cap of a session's queue is 1,000 unless the test gives a policy: most tests are not about the cap.
    """
    if policy is None and session is not None:
        policy = SessionPolicy(max_concurrent=max_concurrent, cap=1000)
    return NewRun(
        id=id if id is not None else f"run-{next(_ids):06d}",
        task=task,
        args=codec.to_json({} if args is None else args, "the arguments", codec.ARGS_LIMIT),
        lane=lane,
        user=user,
        session=session,
        priority=priority,
        delay=round(delay * 1_000_000),
        due_at=due_at,
        retry_of=retry_of,
        arrival=None if policy is None else policy.arrival(),
        key=key,
        inside=inside,
        ties=ties,
    )


class Fields(TypedDict, total=False):
    """The options of `new_run`, without the id."""

    task: str
    args: object
    lane: str
    user: str | None
    session: str | None
    max_concurrent: int | None
    policy: SessionPolicy | None
    priority: int
    delay: float
    due_at: int | None
    retry_of: str | None
    key: str | None
    inside: bool
    ties: RunLinks | None


def new_runs(number: int, prefix: str, **fields: Unpack[Fields]) -> list[NewRun]:
    """Return `number` submissions that differ only in their ids, made of `prefix` and a number."""
    return [new_run(f"{prefix}-{index:05d}", **fields) for index in range(number)]


def error(message: str = "no", kind: str = "error") -> Failure:
    """Return a failure as an executor records it."""
    return Failure(kind, "ValueError", message)


class Hand:
    """One incarnation under the control of a test. It has the call number, its last step and the count of wake-ups.

    Like a worker, it must not use a new call number before a step is answered: after an error, call `repeat_last`.
    """

    def __init__(
        self,
        store: Store,
        name: str = "hand",
        *,
        tasks: Iterable[str] = (TASK,),
        lease: int = LEASE,
        policy: TaskPolicy | None = None,
    ) -> None:
        self.store, self.name, self.policy = store, name, policy or TaskPolicy()
        mark = ProcessMark(boot="boot", namespace="pid", pid=1, started=1)
        self.incarnation = Incarnation(id=name, host="host", process=mark, tasks=frozenset(tasks), lease=lease)
        self.woken = 0
        self._rung = threading.Event()
        self.last, self._last = Step(name, 0), 0

    async def register(self) -> Hand:
        """Register with the store; return self."""
        await self.store.register(self.incarnation, self._wake)
        return self

    def _wake(self) -> None:
        self.woken += 1
        self._rung.set()

    async def hears(self, within: float = 2.0) -> bool:
        """Return whether the worker was woken since it last became idle, or is within `within` real seconds.

        A store may wake it from a thread of its own, a moment later.
        """
        return self._rung.is_set() or await asyncio.to_thread(self._rung.wait, within)

    # Steps

    async def step(
        self,
        *,
        results: Sequence[Result] = (),
        emitted: Sequence[Emitted] = (),
        room: int = 0,
        park: bool = False,
        saved: Sequence[Saved] = (),
        overdue: Sequence[tuple[int, int]] = (),
        offers_next: bool = False,
    ) -> StepReply:
        """Make a new step and return the reply."""
        call, going_on = self.last.call + 1, (list(saved), list(overdue))
        last = self._last
        self.last = Step(
            self.name, call, list(results), list(emitted), room, park, *going_on, offers_next=offers_next, last=last
        )
        return await self.repeat_last()

    async def repeat_last(self) -> StepReply:
        """Send the last step again, as a worker does that received no reply."""
        reply = await self.store.step(self.last)
        if reply.claimed or (named_in(self.last) and reply.moved is None):
            self._last = self.last.call
        return reply

    async def claim(self, room: int = 1) -> list[Claimed]:
        """Claim up to `room` runs."""
        return (await self.step(room=room)).claimed

    async def rest(self, room: int = 1) -> StepReply:
        """Claim up to `room` runs; if slots stay free, be idle until woken."""
        self._rung.clear()
        return await self.step(room=room, park=True)

    async def offer_step(self, room: int = 1) -> StepReply:
        """Go idle and offer the next step, which must be empty but for its room."""
        self._rung.clear()
        return await self.step(room=room, park=True, offers_next=True)

    # Outcomes

    def result(
        self,
        run: Claimed,
        outcome: Outcome,
        drafts: tuple[Draft, ...] = (),
        *,
        read: int = 0,
        throttled: bool | None = None,
    ) -> Result:
        """Return the result that this worker would write for this outcome; `read` messages of its inbox were read."""
        return Result(run.number, run.fence, settle(run, outcome, self.policy, drafts), read, throttled)

    async def settle(self, runs: Iterable[Claimed], outcome: Outcome, *, room: int = 0, read: int = 0) -> StepReply:
        """Settle all these runs with one outcome, in one step."""
        return await self.step(results=[self.result(run, outcome, read=read) for run in runs], room=room)

    async def succeed(
        self, *runs: Claimed, value: object = None, room: int = 0, read: int = 0, leaving: Sequence[NewRun] = ()
    ) -> StepReply:
        """Settle these runs as succeeded; `leaving` are the runs that their handlers held back until then."""
        text = codec.to_json(value, "the result", codec.RESULT_LIMIT)
        return await self.settle(runs, Succeeded(text, tuple(leaving)), room=room, read=read)

    async def fail(self, *runs: Claimed, failure: Failure | None = None, room: int = 0) -> StepReply:
        """Settle these runs as failed attempts; the policy decides about a retry."""
        return await self.settle(runs, Failed(failure or error()), room=room)

    async def release(self, *runs: Claimed, room: int = 0) -> StepReply:
        """Give these runs back."""
        return await self.settle(runs, Released(), room=room)

    async def snooze(self, *runs: Claimed, delay: float, room: int = 0) -> StepReply:
        """Settle these runs as snoozed for `delay` seconds."""
        return await self.settle(runs, Snoozed(round(delay * 1_000_000)), room=room)

    async def pause(self, *runs: Claimed, room: int = 0) -> StepReply:
        """Settle these runs as paused at a checkpoint."""
        return await self.settle(runs, Paused(), room=room)

    async def stop(self, *runs: Claimed, room: int = 0) -> StepReply:
        """Settle these runs as stopped by a cancel."""
        return await self.settle(runs, Cancelled(), room=room)

    async def wait(self, run: Claimed, *things: str | Question | NewRun, room: int = 0) -> StepReply:
        """Settle the run as waiting for questions, by name or whole, and for called runs."""
        return await self.settle([run], waits(*things), room=room)

    async def lapse(self, *runs: Claimed, room: int = 0) -> StepReply:
        """Settle the leases of dead workers that `reclaim` returned."""
        return await self.settle(runs, Lapsed(), room=room)

    async def emit(self, run: Claimed, kind: str, *data: object) -> StepReply:
        """Write an event of this kind for each of `data`."""
        drafts = tuple(draft(kind, item) for item in data)
        return await self.step(emitted=[Emitted(run.number, run.fence, drafts)])

    async def save(self, run: Claimed, state: object) -> StepReply:
        """Save a checkpoint."""
        text = codec.to_json(state, "the checkpoint", codec.RESULT_LIMIT)
        return await self.step(saved=[Saved(run.number, run.fence, text)])

    async def keep(self, run: Claimed, *memos: Memo) -> StepReply:
        """Save these memos, in this order."""
        return await self.step(saved=[Saved(run.number, run.fence, memo=memo) for memo in memos])

    async def overdue(self, *runs: Claimed) -> StepReply:
        """Report that these runs have exceeded their time-out."""
        return await self.step(overdue=[(run.number, run.fence) for run in runs])

    # Liveness

    def renew(self) -> RenewReply:
        """Renew the incarnation."""
        return self.store.renew(self.name)

    async def reclaim(self, *gone: str, limit: int = 500) -> ReclaimReply:
        """Take over the leases of dead workers."""
        return await self.store.reclaim(self.name, gone, limit=limit)

    async def leave(self) -> None:
        """Report that this worker has stopped."""
        await self.store.leave(self.name)
