"""What a PostgreSQL store has in one process: its two threads, and a third that hears what other processes say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.transactions.listener import Listener
from laneway.stores.postgres.transactions.reader import PostgresReader
from laneway.stores.postgres.transactions.writer import PostgresWriter
from laneway.stores.tables.runtime.after_commit import Lender, Woken
from laneway.stores.tables.runtime.process_runtime import Presence


class PostgresRuntime(Presence):
    """The threads and connections of a store in this process. `now` is None where the server's clock is right."""

    writer: PostgresWriter
    reader: PostgresReader

    def __init__(self, address: Address, now: Callable[[], int] | None) -> None:
        super().__init__()
        self._pooled, channel = address.pooled, f"laneway_{uuid4().hex}"
        self._listener = Listener(address, channel, self.hear, self.tell_watchers, self._missed)
        self.writer = PostgresWriter(
            address, now, self._wake_here, self.tell_watchers, self.is_there, self._far, channel
        )
        self.reader = PostgresReader(address, now)

    @property
    def hears(self) -> bool:
        """Tell whether wake-ups reach this process."""
        return self._listener.hears

    def address(self) -> str | None:
        """Listen for wake-ups; return the channel."""
        self._listener.start()
        return self._listener.channel

    async def settle(self) -> None:
        """Wait until wake-ups reach this process: before that, nobody may count on one."""
        await asyncio.to_thread(self._listener.wait)

    def attend(self) -> None:
        """Listen for news of events."""
        self._listener.attend()

    def fall_silent(self) -> None:
        """Listen no more."""
        self._listener.stop()

    def is_there(self, lender: Lender) -> bool:
        """Tell whether a worker is seen to live, and what it lends is known to be so.

        A pooler keeps a connection through the end of the server behind it, so that nobody would take back what a lost
        step had lent (`session.LEND_NOTHING`).
        """
        return not self._pooled and super().is_there(lender)

    def reaches(self, lender: Lender) -> bool:
        """Tell whether the worker's process listens: then it has a lock (`sql/waking.sql`)."""
        return lender.is_heard

    def _wake_here(self, workers: list[Woken]) -> None:
        for woken in workers:
            self.wake(woken.incarnation, woken.answer)

    def _far(self, woken: Woken) -> bool:
        return woken.socket is not None and woken.incarnation not in self._wakes

    def _missed(self) -> None:
        self.writer.missed = True
        self.wake_all_here()
        self.tell_watchers()
