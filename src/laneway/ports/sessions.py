"""Sessions: admission in order. It happens inside `submit` and `step`; here it can be seen."""

from __future__ import annotations

from typing import Protocol

import msgspec


class SessionState(msgspec.Struct, frozen=True):
    """A session: how many of its runs are admitted (they keep that until they end) and how many it holds back."""

    name: str
    max_concurrent: int
    admitted: int
    held: int


class SessionStore(Protocol):
    """Admits a session's runs in the order they became due, at most `max_concurrent` at once."""

    async def session(self, name: str) -> SessionState | None:
        """Return the session, or None when nothing of it is pending or active: an idle session is not kept."""
        ...
