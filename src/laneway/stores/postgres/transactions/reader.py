"""The reader: answers questions, all that lie there from one snapshot, on a thread and a connection of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psycopg

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import Link, connect_bare, explained
from laneway.stores.postgres.server.errors import AGAIN, was_cut
from laneway.stores.postgres.server.pipeline import Pipe
from laneway.stores.postgres.server.settings import begin_to_read, set_up
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.tables.runtime.worker_thread import WorkerThread, WorkItem
from laneway.stores.tables.runtime.writer import copied


class PostedError(Exception):
    """There are submissions to be taken in before anything can be told."""


class PostgresReader(WorkerThread):
    """Answers questions from snapshots. Raises PostedError while submissions wait to be taken in."""

    def __init__(self, address: Address, now: Callable[[], int] | None) -> None:
        super().__init__("laneway-postgres-reader")
        self._address, self._now = address, now
        self._link: Link | None = None
        self._begin = begin_to_read(address)

    def process(self, batch: list[WorkItem]) -> None:
        """Answer the questions, which all lay there when the snapshot was taken."""
        try:
            self._asked(batch)
        except StoreUnavailable as error:
            for item in batch:
                item.error = copied(error)
        except LanewayError:
            # What a server says of one question is said of that alone.
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
                # That a line was cut once, nobody hears of; nor that somebody migrated meanwhile, or locked tables.
                self._asked(batch, again=False)
                return
            raise explained(error, self._address) from error

    def _answer(self, batch: list[WorkItem]) -> None:
        with Pipe(self._link or self._connect()) as pipe:
            *_, look = [pipe.send(statement) for statement in self._begin]
            [[now, posted]] = look.fetchall()
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

    def _connect(self) -> Link:
        link = self._link = connect_bare(self._address, again=True)
        if setting := set_up(self._address):
            link.execute(setting.encode())
        return link
