"""The writer's connection: opened on demand, closed when it breaks; and the statements that begin a transaction."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import NamedTuple

import psycopg
from psycopg import errors as pg

from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect
from laneway.stores.postgres.server.settings import STOP_CLAIMS_AHEAD, begin_to_write, cut_off_frozen, set_up
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.tables.sql.database import Query

log = logging.getLogger("laneway.postgres")
_STOP_CLAIMS_AHEAD = STOP_CLAIMS_AHEAD.format("$1::text")


class LockTimeout(Exception):
    """Another process held the write lock for too long."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


class Header(NamedTuple):
    """What a transaction reads first, when it has the lock."""

    number: int  # of the transaction: it tells a listener behind a pooler that a process has written
    now: int  # the server's time
    posted: bool  # the inbox has submissions to accept
    watched: bool  # a process watches events


class WriteConnection:
    """The connection over which this process writes. `channel` is that of the process."""

    def __init__(self, address: Address, channel: str) -> None:
        self._address, self._channel = address, channel
        self._begin, self._cut_off = begin_to_write(address), cut_off_frozen(address).encode()
        self.link: ServerConnection | None = None
        self._was_open = False  # there was a connection before
        self._is_new = False  # it replaces one that broke, and has committed nothing yet

    def opened(self) -> ServerConnection:
        """Return the open connection. The first one creates or migrates the tables."""
        return self.link or self._open()

    def _open(self) -> ServerConnection:
        link = self.link = connect(self._address, again=self._was_open)
        self._was_open, self._is_new = True, self._was_open
        if setting := set_up(self._address):
            link.execute(setting.encode())
        return link

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        link, self.link = self.link, None
        if link is not None:
            with contextlib.suppress(psycopg.Error):
                link.close()

    def begin(self, db: PostgresDatabase, ahead: Iterable[Query]) -> Header:
        """Begin a transaction, take the lock, and prefetch these queries. Raises LockTimeout."""
        *_, found = [db.pipe.send(statement) for statement in self._begin]
        if self._is_new:
            db.say(_STOP_CLAIMS_AHEAD, self._channel)
        db.expect(*ahead)
        try:
            [row] = found.fetchall()
        except (pg.LockNotAvailable, pg.QueryCanceled) as error:
            raise LockTimeout(error) from error
        return Header(*row)

    def committed(self) -> None:
        """Note that a transaction was committed."""
        self._is_new = False

    def roll_back(self) -> None:
        """Undo the transaction."""
        try:
            if self.link is not None:
                self.link.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def cut_off_frozen(self) -> bool:
        """End the connection of a process that holds the lock and stands still; return whether there was one."""
        self.roll_back()
        with contextlib.suppress(psycopg.Error):
            if self.link is not None and self.link.execute(self._cut_off).fetchall():
                log.warning("a process stood still while it had the lock of %s; it was cut off", self._address.shown)
                return True
        return False
