"""The reader: answers questions, each from a snapshot, on a thread and a connection of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import psycopg

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.postgres.address import Address
from laneway.stores.postgres.connection import Link, connect_bare
from laneway.stores.postgres.database import PostgresDatabase
from laneway.stores.postgres.session import begin_to_read, set_up
from laneway.stores.postgres.trouble import meant, was_cut
from laneway.stores.tables.desk import Ask, Desk, Work
from laneway.stores.tables.writing import again


class PostedError(Exception):
    """There are submissions to be taken in before anything can be told."""


class PostgresReader(Desk):
    """Answers questions, each from a snapshot. Raises PostedError while submissions wait to be taken in."""

    def __init__(self, address: Address, now: Callable[[], int] | None) -> None:
        super().__init__("laneway-postgres-reader")
        self._address, self._now = address, now
        self._link: Link | None = None
        self._begin = begin_to_read(address).encode()

    def do(self, batch: list[Ask]) -> None:
        """Answer each question."""
        for nth, ask in enumerate(batch):
            try:
                ask.value = self._asked(ask.work)
            except StoreUnavailable as error:
                # The others would wait as long, one after the other.
                for other in batch[nth:]:
                    other.error = again(error)
                return
            except (LanewayError, PostedError) as error:
                ask.error = error

    def let_go(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(psycopg.Error):
                link.close()

    def _asked(self, question: Work[Any]) -> Any:
        kept = self._link is not None
        try:
            return self._answer(question)
        except psycopg.Error as error:
            self.let_go()
            if kept and was_cut(error):
                # It was cut while nobody asked, mostly: it is asked again over a new connection.
                return self._asked(question)
            raise meant(error, self._address) from error

    def _answer(self, question: Work[Any]) -> Any:
        link = self._link or self._connect()
        cursor = link.execute(self._begin)
        while cursor.nextset():
            pass
        [[now, posted]] = cursor.fetchall()
        try:
            if posted:
                raise PostedError
            return question(PostgresDatabase(link, self._now or (lambda: now)))
        finally:
            if not link.broken:
                link.execute("ROLLBACK")

    def _connect(self) -> Link:
        link = self._link = connect_bare(self._address, again=True)
        if setting := set_up(self._address):
            link.execute(setting.encode())
        return link
