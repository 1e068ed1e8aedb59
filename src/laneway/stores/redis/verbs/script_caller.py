"""Calling the scripts: what every verb of the store goes through."""

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


class Calling:
    """A store that is reached through a link. `clock` is given by tests; without one, the server's time holds."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._address = Address.parse(url)
        self._link = RedisClient(self._address)
        self._clock = clock

    async def _call(self, verb: str, *args: object, about: str = "") -> Any:
        """Run the script of that name with these arguments; return what it answers. Raises what it refuses with.

        `about` is what the call is about: the id of a run, or of an incarnation.
        """
        try:
            return unpack(await self._link.call(script(verb), self._now(), _pack(args)))
        except Refusal as refusal:
            refused(refusal, about)

    def _call_now(self, verb: str, *args: object, about: str = "") -> Any:
        """Do the same from a thread that may block."""
        try:
            return unpack(self._link.call_now(script(verb), self._now(), _pack(args)))
        except Refusal as refusal:
            refused(refusal, about)

    async def _make_functions(self) -> None:
        """Have the server make what it calls all the time, before somebody waits for it."""
        # To renew nobody is the call of a function that changes nothing.
        await self._link.load_functions(script("workers/renew"), self._now(), _pack([""]))

    def _now(self) -> int | str:
        return "" if self._clock is None else self._clock.now()


def refused(refusal: Refusal, about: str) -> NoReturn:
    """Raise what a script's refusal means to a caller: a word, and facts as a JSON array."""
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
            error = NotWaiting(about, _found(*facts))
        case "several_questions":
            error = BadSetting(f"run {about} has asked several questions; say which is answered: {', '.join(facts)}")
        case "job_exists":
            error = JobExists(*facts)
        case _:
            raise refusal
    raise error from None


def _found(state: str, other: str | None = None) -> str:
    """Say what a run waits for, or is, that was to be answered otherwise."""
    if other is not None:
        return f"waiting for the answer to {state!r}, not {other!r}"
    return state if state != RunState.WAITING else "waiting for other runs"
