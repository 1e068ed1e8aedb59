"""One session of a store."""

from __future__ import annotations

from laneway.ports.sessions import SessionState, SessionStore


async def session_of(store: SessionStore, name: str) -> SessionState | None:
    """Return the session, or None when nothing of it goes on or is set."""
    found = await store.sessions(named=name)
    return found[0] if found else None
