"""Sessions: read and stop them. `submit` and `step` admit their runs, in order and by policy."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.queue.sessions import SessionBook
from laneway.core.records.policy import Rule


class Extent(StrEnum):
    """How much of a session is stopped."""

    OLDEST = "oldest"  # its oldest active run that is not cancelled yet; the others and the queue stay
    # Its active runs are cancelled, and those that were never started are dropped, future ones included: no run that
    # was accepted before ever starts. Unread messages in inboxes are dropped, too.
    ALL = "all"
    ABANDON = "abandon"  # as ALL; and active runs end at once: slots are free, later writes of workers are refused


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is not idle, or that has settings of an operator.

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
        """Return the state of a session, from its book."""
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

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        """Return up to `limit` sessions by name, after `after`, with names that begin with `prefix`.

        With `named`, only the session of exactly that name, if there is one. An idle session without settings is not
        kept.
        """
        ...

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        """Stop what goes on in the session; return the runs that were cancelled, and those that were dropped.

        Repeatable: the same call again changes nothing, and returns the same if it changed anything.
        """
        ...
