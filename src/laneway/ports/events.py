"""Events: reading a run's log, and hearing that something was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from laneway.core.records.events import Event


class EventStore(Protocol):
    """Keeps one log per run, numbered from 1 without gaps. It is written by `submit`, `step` and whoever ends a run."""

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return up to `limit` events with numbers greater than `after`, in order.

        Fewer than `limit` means: these are all there are now. Raises UnknownRun; `run_id` is the whole id.
        """
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` soon after events were written or runs ended, by any process; return what stops it.

        A hint: it may come late, once for many changes, or (rarely) not at all, so look again every second as well.
        It is called from any thread and must not block.
        """
        ...
