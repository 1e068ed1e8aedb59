"""Publishes the engine's events to subscribers: that runs have started, and the events of their settlements.

Only once the store has them. A step's reply does not say whether a settlement was overruled by a cancel that was stored
just before it. So for a run with subscribers, the run is read once more.
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
    """The settlements on their way to the store, of runs that subscribers may want; `get` reads a run."""

    def __init__(self, get: Callable[[str], Awaitable[Run]], subscribers: Subscribers) -> None:
        self._get, self.subscribers = get, subscribers
        self._settling: dict[tuple[int, int], Claimed] = {}

    def add(self, run: Claimed) -> None:
        """Remember that this lease is being settled."""
        if self.subscribers.listening:
            self._settling[run.number, run.fence] = run

    def clear(self) -> None:
        """Drop what is being settled: the outcome will not be known."""
        self._settling.clear()

    @property
    def wants_replies(self) -> bool:
        """Whether `publish` must be called with the next reply."""
        return self.subscribers.listening or bool(self._settling)

    def publish(self, results: Sequence[Result], reply: StepReply) -> None:
        """Publish the events of the results that the store has taken, and of the runs that were claimed."""
        if not self.subscribers.listening:
            self.clear()  # the last subscriber is gone
            return
        refused = set(reply.refused)
        for result in results:
            run = self._settling.pop((result.number, result.fence), None)
            if run is not None and (result.number, result.fence) not in refused:
                self._publish_end(run, result.settlement, reply.now)
        for run in reply.claimed:
            data = msgspec.json.encode({"worker": run.worker}).decode()
            self.subscribers.publish(run.id, STARTED, data, run.attempt, instant(reply.now))

    def _publish_end(self, run: Claimed, settlement: Settlement, now: int) -> None:
        async def found() -> list[Event]:
            return _events(run, await self._written(run, settlement), now)

        self.subscribers.publish_later(run.id, found)

    async def _written(self, run: Claimed, settlement: Settlement) -> Settlement:
        try:
            stands = await self._get(run.id)
        except LanewayError:
            return settlement  # it was deleted, or the store is out of reach; most are not overruled
        if stands.fence != run.fence or stands.state is settlement.state:
            return settlement
        request = {RunState.CANCELLED: Request.CANCEL, RunState.PAUSED: Request.PAUSE}.get(stands.state)
        return settlement if request is None else overruled(settlement, request, run.attempt)


def _events(run: Claimed, settlement: Settlement, now: int) -> list[Event]:
    said = settlement.drafts
    # The attempt's own events were published when they were emitted. A lapse is published by the worker that takes
    # over.
    own = 0 if said and said[0][0] == LAPSED else settlement.own
    return [
        Event(run.id, 0, kind, _data(kind, data, settlement), run.attempt, instant(now)) for kind, data in said[own:]
    ]


def _data(kind: str, data: str, settlement: Settlement) -> object:
    if kind == RESULT:
        return {"value": codec.from_json(settlement.result or "null")}
    return codec.from_json(data)
