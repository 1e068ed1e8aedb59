"""The messages that a run took beside the one it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from laneway.core.records.codec import from_json

if TYPE_CHECKING:
    from laneway.core.records.run import Message, Run
    from laneway.scheduler import Scheduler

PAGE = 1000  # messages read at once


async def taken(scheduler: Scheduler, run: Run) -> list[Message]:
    """Return them: those merged into its arguments, then those of its inbox, each kind in order."""
    found: list[Message] = []
    if run.messages:
        store = await scheduler.open()
        while page := await store.messages(run.id, after=len(found), limit=PAGE):
            found += page
    return found


def record(message: Message) -> dict[str, Any]:
    """Return a message as it is in JSON."""
    return {"v": 1, **msgspec.to_builtins(message), "args": from_json(message.args)}
