"""Telling subscribers what the engine says of runs: that they started, and what their settlement told.

Not before the store has it. A step's answer does not tell whether a settlement was overruled, by a cancel that was
stored a moment before it, so for a run that somebody listens to the store is asked once more how it stands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from laneway.core.common.instants import instant
from laneway.core.lifecycle.outcome import Settlement, overruled
from laneway.core.lifecycle.step import Result, StepReply
from laneway.core.records import codec
from laneway.core.records.events import LAPSED, RESULT, STARTED, Event
from laneway.core.records.run import Claimed, Request, Run
from laneway.core.records.states import RunState
from laneway.engine.attempts.subscribers import Subscribers
from laneway.errors import LanewayError


class SettlementEvents:
    """What subscribers are to hear of when the store has been told; `get` reads a run."""

    def __init__(self, get: Callable[[str], Awaitable[Run]], subscribers: Subscribers) -> None:
        self._get, self.subscribers = get, subscribers
        self._settling: dict[tuple[int, int], Claimed] = {}

    def note(self, run: Claimed) -> None:
        """Take note that this lease is being settled."""
        if self.subscribers.listening:
            self._settling[run.number, run.fence] = run

    def forget(self) -> None:
        """Forget what is being settled: nobody will know what came of it."""
        self._settling.clear()

    @property
    def waiting(self) -> bool:
        """Whether it has to hear what the store answers."""
        return self.subscribers.listening or bool(self._settling)

    def answered(self, results: Sequence[Result], reply: StepReply) -> None:
        """Hear that the store was told these results, and tell of them and of what was claimed."""
        if not self.subscribers.listening:
            self.forget()  # whoever wanted to hear of it has gone
            return
        refused = set(reply.refused)
        for result in results:
            run = self._settling.pop((result.number, result.fence), None)
            if run is not None and (result.number, result.fence) not in refused:
                self._tell_end(run, result.settlement, reply.now)
        for run in reply.claimed:
            data = msgspec.json.encode({"worker": run.worker}).decode()
            self.subscribers.say(run.id, STARTED, data, run.attempt, instant(reply.now))

    def _tell_end(self, run: Claimed, settlement: Settlement, now: int) -> None:
        async def found() -> list[Event]:
            return _events(run, await self._written(run, settlement), now)

        self.subscribers.say_later(run.id, found)

    async def _written(self, run: Claimed, settlement: Settlement) -> Settlement:
        try:
            stands = await self._get(run.id)
        except LanewayError:
            return settlement  # deleted meanwhile, or out of reach: most are not overruled
        if stands.fence != run.fence or stands.state is settlement.state:
            return settlement
        request = {RunState.CANCELLED: Request.CANCEL, RunState.PAUSED: Request.PAUSE}.get(stands.state)
        return settlement if request is None else overruled(settlement, request, run.attempt)


def _events(run: Claimed, settlement: Settlement, now: int) -> list[Event]:
    said = settlement.drafts
    # What an attempt said itself was heard when it was said; that its worker died is said by whoever took over.
    own = 0 if said and said[0][0] == LAPSED else settlement.own
    return [
        Event(run.id, 0, kind, _data(kind, data, settlement), run.attempt, instant(now)) for kind, data in said[own:]
    ]


def _data(kind: str, data: str, settlement: Settlement) -> object:
    if kind == RESULT:
        return {"value": codec.from_json(settlement.result or "null")}
    return codec.from_json(data)
