"""The verbs of workers: registering, stepping, staying alive, taking over from the dead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from laneway.core.lifecycle.step import LentReply, ReclaimReply, RenewReply, Step, StepReply
from laneway.core.records.liveness import Incarnation
from laneway.ports.clock import Clock
from laneway.ports.workers import Standby
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import claimed, requests
from laneway.stores.redis.verbs.script_caller import Calling, unpack


class Working(Calling):
    """Leases runs to incarnations. Each worker hears its wake-ups on a channel of its own."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        super().__init__(url, clock)
        self._deaf: dict[str, Callable[[], None]] = {}

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Make the incarnation known; see `WorkerStore`."""
        known = incarnation.id
        if known not in self._deaf:
            channel = f"{self._address.prefix}:wake:{known}"
            hear = _hearer(wake)
            self._deaf[known] = await self._link.subscriptions.subscribe_from_now(channel, hear, self._address.timeout)
        info, tasks = msgspec.json.encode(incarnation).decode(), sorted(incarnation.tasks)
        await self._call("workers/register", known, incarnation.lease, info, tasks)

    async def step(self, step: Step) -> StepReply:
        """Settle, claim, rest; see `WorkerStore`."""
        return _reply(await self._call("workers/step", *encode.step(step), about=step.incarnation))

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; see `WorkerStore`."""
        now, leases, requested = self._call_now("workers/renew", incarnation, about=incarnation)
        return RenewReply(now, [(number, fence) for number, fence in leases], requests(requested))

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Take over from the dead; see `WorkerStore`."""
        numbers, lapsed, more = await self._call("workers/reclaim", incarnation, gone, limit, about=incarnation)
        return ReclaimReply(list(map(claimed, numbers, lapsed)), more)

    async def leave(self, incarnation: str) -> None:
        """Say good-bye; see `WorkerStore`."""
        await self._call("workers/leave", incarnation)
        stop = self._deaf.pop(incarnation, None)
        if stop is not None:
            stop()

    def look(self) -> bool:
        """Tell whether wake-ups may have been missed; see `WorkerStore`."""
        return not self._link.subscriptions.healthy


def _hearer(wake: Callable[[], None]) -> Callable[[bytes], None]:
    """Return what wakes a worker, and hands over the answer that a wake-up brings (`fast/claim_ahead.lua`)."""
    if not isinstance(wake, Standby):
        return lambda _: wake()

    def hear(said: bytes) -> None:
        lent = lent_reply(said)
        wake() if lent is None else wake.answer(lent)

    return hear


def lent_reply(said: bytes) -> LentReply | None:
    """Return the answer that a wake-up brings, if it does."""
    try:
        call, reply = unpack(said)
        return LentReply(call, _reply(reply))
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None  # nothing, or of another laneway: the worker asks


def _reply(reply: list[Any]) -> StepReply:
    numbers, runs, refused, due_in, more, now, requested, fires_in, moved = reply
    return StepReply(
        list(map(claimed, map(int, numbers), runs)),
        [(number, fence) for number, fence in refused],
        None if due_in is False else due_in,
        more,
        now,
        requests(requested),
        None if fires_in is False else fires_in,
        None if moved is False else moved,
    )
