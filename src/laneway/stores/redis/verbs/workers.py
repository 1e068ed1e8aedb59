"""The verbs of workers: register, step, renew, take over leases, leave; see `WorkerStore`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from laneway.core.lifecycle.step import PushedReply, ReclaimReply, RenewReply, Step, StepReply
from laneway.core.records.liveness import Incarnation
from laneway.ports.workers import WakeHandle
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import claimed, requests
from laneway.stores.redis.verbs.script_caller import ScriptCaller, unpack


class WorkerVerbs:
    """Leases runs to incarnations. Each of them gets its wake-ups on a channel of its own."""

    def __init__(self, scripts: ScriptCaller) -> None:
        self._scripts, self._client = scripts, scripts.client
        self._unsubscribe: dict[str, Callable[[], None]] = {}

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Register the incarnation; `wake` is called for its wake-ups."""
        name = incarnation.id
        if name not in self._unsubscribe:
            channel, timeout = self._scripts.key(f"wake:{name}"), self._scripts.address.timeout
            subscribe = self._client.subscriptions.subscribe_from_now
            self._unsubscribe[name] = await subscribe(channel, _on_wake_up(wake), timeout)
        info, tasks = msgspec.json.encode(incarnation).decode(), sorted(incarnation.tasks)
        await self._scripts.call("workers/register", name, incarnation.lease, info, tasks)

    async def step(self, step: Step) -> StepReply:
        """Settle, claim, become idle."""
        return _reply(await self._scripts.call("workers/step", *encode.step(step), about=step.incarnation))

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; called from a thread that may block."""
        now, leases, requested = self._scripts.call_now("workers/renew", incarnation, about=incarnation)
        return RenewReply(now, [(number, fence) for number, fence in leases], requests(requested))

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Take over the leases of dead incarnations."""
        reply = await self._scripts.call("workers/reclaim", incarnation, gone, limit, about=incarnation)
        numbers, lapsed, more = reply
        return ReclaimReply(list(map(claimed, numbers, lapsed)), more)

    async def leave(self, incarnation: str) -> None:
        """Note that the incarnation has left."""
        await self._scripts.call("workers/leave", incarnation)
        unsubscribe = self._unsubscribe.pop(incarnation, None)
        if unsubscribe is not None:
            unsubscribe()

    def look(self) -> bool:
        """Tell whether wake-ups may have been missed."""
        return not self._client.subscriptions.healthy


def _on_wake_up(wake: Callable[[], None]) -> Callable[[bytes], None]:
    """Return the callback for a worker's channel: it wakes the worker, or gives it the reply of a step made ahead."""
    if not isinstance(wake, WakeHandle):
        return lambda _: wake()

    def on_message(message: bytes) -> None:
        reply = pushed_reply(message)
        wake() if reply is None else wake.push(reply)

    return on_message


def pushed_reply(message: bytes) -> PushedReply | None:
    """Return the reply that a wake-up brings, if it brings one."""
    try:
        call, reply = unpack(message)
        return PushedReply(call, _reply(reply))
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None  # an empty message, or one of another version: the worker makes its step itself


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
