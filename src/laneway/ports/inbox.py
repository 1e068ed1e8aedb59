"""Submitting inside a transaction of the caller's own, where a store shares its database with the caller."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from laneway.core.records.run import NewRun, Receipt


class Letter(Protocol):
    """A submission on its way into a caller's transaction."""

    def post(self, connection: Any) -> Receipt:
        """Put it into the transaction that the connection is in; return its receipt, which holds once that commits.

        From the thread that the connection belongs to. Raises BadSetting for a connection of another kind, of another
        server or database, or whose transaction is aborted or read only, and StoreUnavailable if it cannot be found out
        where the store is; then nothing is written, and the transaction is as it was.
        """
        ...

    async def send(self, connection: Any) -> Receipt:
        """Do the same by a connection that is awaited; one that is not is used on another thread."""
        ...


@runtime_checkable
class InboxStore(Protocol):
    """Takes submissions that exist if, and only if, somebody else's transaction commits.

    Such a run is accepted by whoever writes next after the commit, by the rules that hold then: its place is behind
    what was accepted before. What these rules refuse, merge or steer ends `dropped`, with the reason, because its
    receipt has said `accepted`. Nothing but the submission is written, and nothing locked, before that.
    """

    def letter(self, new: NewRun) -> Letter:
        """Return the submission as it is put into a transaction. The store is open."""
        ...
