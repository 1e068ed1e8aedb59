"""Submit inside a transaction of the caller, if the store and the caller share a database."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from laneway.core.records.run import NewRun, Receipt


class Letter(Protocol):
    """A submission on its way into a caller's transaction."""

    def post(self, connection: Any) -> Receipt:
        """Add the submission to the connection's transaction; return a receipt that holds once that commits.

        Call it on the thread that the connection belongs to. Raises BadSetting for a connection of another kind, of
        another server or database, or with a transaction that is aborted or read only. Raises StoreUnavailable if the
        store's place cannot be found out. After an error nothing is written, and the transaction is as it was.
        """
        ...

    async def send(self, connection: Any) -> Receipt:
        """Do the same with an async connection; a connection that is not async is used on another thread."""
        ...


@runtime_checkable
class InboxStore(Protocol):
    """Takes submissions that exist if, and only if, the caller's transaction commits.

    The next write to the store after that commit accepts such a run, by the rules of that moment and behind all runs
    accepted before. If these rules refuse, merge or steer it, the run ends `dropped`, with the reason, because its
    receipt has said `accepted`. Until then only the submission is written, and nothing is locked.
    """

    def letter(self, new: NewRun) -> Letter:
        """Return the submission in the form that can be added to a transaction. The store must be open."""
        ...
