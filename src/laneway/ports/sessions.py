"""Sessions: admission in order and by policy. It happens inside `submit` and `step`; here it is seen and steered."""

from __future__ import annotations

from typing import Protocol

import msgspec

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.queue.sessions import SessionBook
from laneway.core.records.policy import Rule


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is not idle, or that an operator has set something of.

    `rule` is what holds, `ruled` what an operator set. `active` counts the runs that were started and have not ended,
    `queued` those that have joined and were never started, `windows` the open debounce windows.
    """

    name: str
    rule: Rule
    active: int = 0
    queued: int = 0
    windows: int = 0
    paused: bool = False
    throttled: bool = False
    ruled: Rule = Rule()

    @classmethod
    def of(cls, name: str, book: SessionBook) -> SessionState:
        """Return how a session stands by its book."""
        return cls(
            name=name,
            rule=book.rule,
            active=len(book.active),
            queued=book.queued,
            windows=len(book.windows),
            paused=book.paused,
            throttled=book.throttled,
            ruled=book.ruled,
        )


class SessionStore(Protocol):
    """Admits a session's runs in the order they became due, at most `max_concurrent` at once."""

    async def session(self, name: str) -> SessionState | None:
        """Return the session, or None when nothing of it is going on or set: an idle session is not kept."""
        ...

    async def sessions(self, *, prefix: str = "", limit: int = 100, after: str = "") -> list[SessionState]:
        """Return up to `limit` sessions by name, of names that begin so and come behind `after`."""
        ...

    async def set_session(self, name: str, rule: Rule, *, throttled: bool | None = None) -> None:
        """Set what is given of the rule, as its operator: it wins over what messages give, and is kept while idle.

        An empty rule takes back all that was set. `throttled` lowers the session to one run at a time, or not any more,
        until a load function says otherwise or the session is idle; None leaves it. More room takes effect at once.
        """
        ...

    async def stop(self, call: str, name: str) -> Stopped:
        """Cancel the session's oldest active run that is not cancelled yet; the others and the queue stay.

        Repeatable, as the next two: the same call again changes nothing, and returns the same if it changed anything.
        """
        ...

    async def stop_all(self, call: str, name: str, *, abandon: bool = False) -> Stopped:
        """Cancel all active runs of the session and drop all that were never started, future ones included.

        Nothing accepted before it ever starts. What lies unread in inboxes is dropped, too. With `abandon` the active
        runs end at once, with their slots free and their workers' writes refused.
        """
        ...
