"""The reader: reads on a thread and a connection of its own, all waiting calls from one snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psycopg

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect_bare, diagnosed_error
from laneway.stores.postgres.server.errors import AGAIN, was_cut
from laneway.stores.postgres.server.pipeline import Pipeline
from laneway.stores.postgres.server.settings import begin_to_read, set_up
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.tables.runtime.worker_thread import WorkerThread, WorkItem
from laneway.stores.tables.runtime.writer import copied


class PostedError(Exception):
    """The inbox has submissions, which must be accepted before a read."""


class PostgresReader(WorkerThread):
    """Reads from snapshots. A call gets a PostedError while the inbox has submissions."""

    def __init__(self, address: Address, now: Callable[[], int] | None) -> None:
        super().__init__("laneway-postgres-reader")
        self._address, self._now = address, now
        self._link: ServerConnection | None = None
        self._begin = begin_to_read(address)

    def process(self, batch: list[WorkItem]) -> None:
        """Do the reads, all of which were waiting when the snapshot was taken."""
        try:
            self._asked(batch)
        except StoreUnavailable as error:
            for item in batch:
                item.error = copied(error)
        except LanewayError:
            # The error concerns one call: the others succeed alone.
            for item in batch:
                self._alone(item)

    def close_connection(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(psycopg.Error):
                link.close()

    def _alone(self, item: WorkItem) -> None:
        try:
            self._asked([item])
        except LanewayError as error:
            item.error = error

    def _asked(self, batch: list[WorkItem], *, again: bool = True) -> None:
        try:
            self._answer(batch)
        except psycopg.Error as error:
            self.close_connection()
            if again and (was_cut(error) or isinstance(error, AGAIN)):
                # Retry once, silently, after a lost connection, a concurrent migration or a lock time-out.
                self._asked(batch, again=False)
                return
            raise diagnosed_error(error, self._address) from error

    def _answer(self, batch: list[WorkItem]) -> None:
        with Pipeline(self._link or self._connect()) as pipe:
            *_, header = [pipe.send(statement) for statement in self._begin]
            [[now, posted]] = header.fetchall()
            db = PostgresDatabase(pipe, self._now or (lambda: now))
            for item in batch:
                item.error = None
                try:
                    if posted:
                        raise PostedError
                    item.value = item.work(db)
                except psycopg.Error:
                    raise
                except Exception as error:  # noqa: BLE001 - it goes to its caller
                    item.error = error
            db.say("ROLLBACK")

    def _connect(self) -> ServerConnection:
        link = self._link = connect_bare(self._address, again=True)
        if setting := set_up(self._address):
            link.execute(setting.encode())
        return link
