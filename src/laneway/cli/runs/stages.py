"""How far a cancel, or a time-out, of the newest attempt has got; read from the events of the run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.cli.shell.formats import spoken
from laneway.core.records import events

if TYPE_CHECKING:
    from laneway.core.records.events import Event
    from laneway.core.records.run import Run
    from laneway.scheduler import Scheduler


class Stages(msgspec.Struct, kw_only=True):
    """When each stage was reached, None if it was not. `stack` is the stack of a stuck handler."""

    requested_at: datetime | None = None
    delivered_at: datetime | None = None
    stopped_at: datetime | None = None
    overdue_at: datetime | None = None
    stuck_at: datetime | None = None
    stack: str = ""

    @classmethod
    def of(cls, log: Iterable[Event]) -> Stages:
        """Read the stages from these events; each start of an attempt resets them."""
        found = cls()
        for event in log:
            if event.kind == events.STARTED:
                found = cls()
            elif event.kind in _FIELDS:
                setattr(found, _FIELDS[event.kind], event.at)
            if event.kind == events.STUCK and isinstance(event.data, dict):
                found.stack = str(event.data.get("stack", ""))
        return found

    def record(self) -> dict[str, Any]:
        """Return the JSON of a cancel's stages."""
        return {name: getattr(self, name) for name in ("requested_at", "delivered_at", "stopped_at")}


_FIELDS = {
    events.CANCEL_REQUESTED: "requested_at",
    events.CANCEL_DELIVERED: "delivered_at",
    events.STOPPED: "stopped_at",
    events.OVERDUE: "overdue_at",
    events.STUCK: "stuck_at",
}


async def read(scheduler: Scheduler, run: Run) -> Stages:
    """Read the stages of a run that is running or cancelled; others have none to show, and a log may be long."""
    from laneway.cli.runs.follow import stored

    if run.state not in ("running", "cancelled"):
        return Stages()
    return Stages.of([event async for event in stored(scheduler, run.id)])


def told(run: Run, stages: Stages) -> str:
    """Return how far the cancel of a run got, each stage with its time since the request."""
    if stages.requested_at is None:
        return run.state.value
    since = stages.requested_at
    reached = ["requested"]
    for word, at in (("delivered", stages.delivered_at), ("stopped", stages.stopped_at)):
        if at is not None:
            reached.append(f"{word} after {spoken(max(at - since, timedelta()))}")
    if run.ended:
        why = f" ({run.reason})" if run.reason else ""
        return f"{run.state.value}{why}" + (f": {', '.join(reached)}" if len(reached) > 1 else "")
    stuck = "; its handler is stuck" if stages.stuck_at is not None else ""
    return f"{run.state.value}: cancel {', '.join(reached)}, not stopped yet{stuck}"
