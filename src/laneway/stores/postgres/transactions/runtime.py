"""What a PostgreSQL store has in one process: its two threads, and a third that reads notifications."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from uuid import uuid4

from laneway.ports.workers import WakeHandle
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.transactions.claim_ahead import ReplyAhead, read
from laneway.stores.postgres.transactions.listener import Listener
from laneway.stores.postgres.transactions.reader import PostgresReader
from laneway.stores.postgres.transactions.writer import PostgresWriter
from laneway.stores.tables.runtime.after_commit import IdleWorker, WakeUp
from laneway.stores.tables.runtime.process_runtime import ProcessRuntime


class PostgresRuntime(ProcessRuntime):
    """The threads and connections of a store in this process. `now` is None to use the server's clock."""

    writer: PostgresWriter
    reader: PostgresReader

    def __init__(self, address: Address, now: Callable[[], int] | None) -> None:
        super().__init__()
        self._pooled, channel = address.pooled, f"laneway_{uuid4().hex}"
        self._listener = Listener(address, channel, self._notified, self.notify_watchers, self._missed)
        self.writer = PostgresWriter(
            address,
            now,
            wake=self._wake_here,
            publish=self.notify_watchers,
            reply=self._reply,
            is_far=self._is_far,
            is_alive=self._is_alive,
            channel=channel,
        )
        self.reader = PostgresReader(address, now)

    @property
    def is_listening(self) -> bool:
        """Whether wake-ups reach this process."""
        return self._listener.is_listening

    def listen_for_wake_ups(self) -> str | None:
        """Listen for wake-ups; return the channel."""
        self._listener.start()
        return self._listener.channel

    async def wait_until_listening(self) -> None:
        """Wait until wake-ups reach this process."""
        await asyncio.to_thread(self._listener.wait)

    def listen_for_events(self) -> None:
        """Listen for other processes' notice that they wrote events."""
        self._listener.watch_events()

    def stop_listening(self) -> None:
        """Stop listening."""
        self._listener.stop()

    def _is_alive(self, worker: IdleWorker) -> bool:
        """Return whether a claim may be made for a worker.

        A worker of this process must be there; the process of another one must listen, which its lock shows
        (`sql/runtime/wakeups.sql`). Behind a pooler no claims are made: a pooler keeps a connection when the server
        behind it fails, so nothing would revoke the offer of a lost step (`settings.STOP_CLAIMS_AHEAD`).
        """
        wake = self._workers.get(worker.id)
        if self._pooled or wake is None:
            return worker.has_listener and not self._pooled
        return wake.is_alive if isinstance(wake, WakeHandle) else True

    def _is_far(self, wake_up: WakeUp) -> bool:
        return wake_up.address is not None and wake_up.incarnation not in self._workers

    def _wake_here(self, workers: list[WakeUp]) -> None:
        for worker in workers:
            self.wake(worker.incarnation)

    def _reply(self, replies: list[ReplyAhead]) -> None:
        for each in replies:
            wake = self._workers.get(each.wake_up.incarnation)
            # A callback whose loop is closed must not disturb its neighbours.
            with contextlib.suppress(Exception):
                if isinstance(wake, WakeHandle):
                    wake.push(each.reply)
                elif wake is not None:
                    wake()

    def _notified(self, text: str) -> None:
        incarnation, reply = read(text)
        if reply is None:
            self.wake(incarnation)
        else:
            self._reply([ReplyAhead(WakeUp(incarnation, None), reply)])

    def _missed(self) -> None:
        self.writer.missed = True
        self.wake_all()
        self.notify_watchers()
