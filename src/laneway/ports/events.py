"""Events: read the log of a run, and get notified of new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from laneway.core.records.events import Event


class EventStore(Protocol):
    """Keeps one log per run, numbered from 1 without gaps. `submit`, `step` and every verb that ends a run write it."""

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return up to `limit` events with numbers greater than `after`, in order.

        Fewer than `limit` means that there are no more now. Raises UnknownRun; `run_id` is the whole id.
        """
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` soon after any process has written events or ended runs; return a function that stops this.

        The call is a hint: it may come late, once for many changes, or (rarely) never. So the caller must also poll
        every second. `changed` is called from any thread and must not block.
        """
        ...
