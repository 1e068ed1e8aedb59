"""Calling the scripts of one store: every verb goes through this."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from laneway.core.records.states import RunState
from laneway.core.transfer.move_state import filling
from laneway.errors import (
    BadSetting,
    JobExists,
    LanewayError,
    LeaseLost,
    NotWaiting,
    StoreMoved,
    UnknownLane,
    UnknownRun,
    WrongState,
)
from laneway.ports.clock import Clock
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.errors import Refusal
from laneway.stores.redis.client.scripts import script

_pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder().decode


class ScriptCaller:
    """Calls scripts by name. `clock` is given by tests; without one, the server's time applies."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.address = Address.parse(url)
        self.client = RedisClient(self.address)
        self._clock = clock

    async def call(self, verb: str, *args: object, about: str = "") -> Any:
        """Run `lua/verbs/<verb>.lua` with these arguments and return its reply. Raises what a refusal means.

        `about` is the id of the run or the incarnation that an error names.
        """
        try:
            return unpack(await self.client.call(script(verb), self._now(), _pack(args)))
        except Refusal as refusal:
            _raise(refusal, about)

    def call_now(self, verb: str, *args: object, about: str = "") -> Any:
        """Do the same from a thread that may block."""
        try:
            return unpack(self.client.call_now(script(verb), self._now(), _pack(args)))
        except Refusal as refusal:
            _raise(refusal, about)

    async def load_functions(self) -> None:
        """Let the server load its functions before a caller has to wait for that."""
        # It renews an incarnation that does not exist, which changes nothing.
        await self.client.load_functions(script("workers/renew"), self._now(), _pack([""]))

    def key(self, name: str) -> str:
        """Return a key with the store's prefix."""
        return f"{self.address.prefix}:{name}"

    def _now(self) -> int | str:
        return "" if self._clock is None else self._clock.now()


def _raise(refusal: Refusal, about: str) -> NoReturn:
    """Raise the error that a refusal means: a word, and facts as a JSON array."""
    kind, _, text = str(refusal).partition(" ")
    facts: list[str] = msgspec.json.decode(text or "[]")
    error: LanewayError
    match kind:
        case "lease_lost":
            error = LeaseLost(f"incarnation {about} is not alive in this store")
        case "moved" | "arriving":
            error = StoreMoved(facts[0]) if kind == "moved" else filling(facts[0])
        case "unknown_run":
            error = UnknownRun(about)
        case "unknown_lane":
            error = UnknownLane(facts[0], facts[1:])
        case "wrong_state":
            error = WrongState(*facts)
        case "not_waiting" | "other_question":
            error = NotWaiting(about, _what_it_does(*facts))
        case "several_questions":
            error = BadSetting(f"run {about} has asked several questions; say which is answered: {', '.join(facts)}")
        case "job_exists":
            error = JobExists(*facts)
        case _:
            raise refusal
    raise error from None


def _what_it_does(state: str, other: str | None = None) -> str:
    """Return what a run waits for, or its state, for an error about an answer."""
    if other is not None:
        return f"waiting for the answer to {state!r}, not {other!r}"
    return state if state != RunState.WAITING else "waiting for other runs"
