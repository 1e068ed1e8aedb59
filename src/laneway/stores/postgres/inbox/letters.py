"""Submissions inside a caller's own transaction: one row in the inbox, written through the caller's connection.

The connection may be psycopg's, plain or async, asyncpg's, SQLAlchemy's (a connection or a session, plain or async),
Django's (`django.db.connection`) or any other that has cursors and takes `%s`: see `callers`. It must lead to this
store: in another database that has a schema of the same name the run would wait for ever.

The statement also wakes an idle worker up at COMMIT. This is a hint: a worker that became idle after the statement was
executed misses it, so idle workers also poll once a second.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import closing
from typing import Any

import msgspec
import psycopg

from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome
from laneway.errors import BadSetting
from laneway.stores.postgres.inbox import callers
from laneway.stores.postgres.inbox.callers import Statement
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import connect_bare
from laneway.stores.postgres.server.errors import as_laneway_error
from laneway.stores.postgres.server.settings import NOW

_READ_ONLY = "read only"  # what `_LOOK` returns in a read-only transaction
# The start time of the server and the ids of the database and the table inbox: no two stores have all of these in
# common, not even if one is a copy of the other's files. Every user may execute it, and it aborts no transaction.
_LOOK = (
    "SELECT CASE WHEN current_setting('transaction_read_only') = 'on' THEN 'read only' ELSE concat_ws(' ',"
    " extract(epoch FROM pg_postmaster_start_time())::text,"
    " (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())::text,"
    " to_regclass('{schema}.inbox')::oid::text) END AS place"
)
_POST = (
    "WITH posted AS (INSERT INTO {schema}.inbox (id, at, body) VALUES ({value}, {now}, {value})"
    " ON CONFLICT (id) DO NOTHING) SELECT pg_notify(socket, id) FROM"
    " (SELECT socket, id FROM {schema}.worker WHERE idle <> 0 AND socket IS NOT NULL ORDER BY number LIMIT 1)"
    " AS resting"
)


class StorePlace:
    """The place of the store, as `_LOOK` returns it: read at the first use, and again when a connection differs."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.look = Statement(_LOOK.replace("{schema}", address.schema))
        self._place = ""

    def is_at(self, place: str) -> bool:
        """Return whether the store was at this place when it was last read."""
        return place == self._place

    def find(self) -> None:
        """Read the place through an own connection: the server may have restarted, or another one took over."""
        try:
            with closing(connect_bare(self.address, again=True)) as link:
                [[self._place]] = link.execute(self.look.text.encode()).fetchall()
        except psycopg.Error as error:
            raise as_laneway_error(error, self.address) from error
        if self._place == _READ_ONLY:
            raise as_laneway_error(psycopg.errors.ReadOnlySqlTransaction(_READ_ONLY), self.address)


class PostgresLetter:
    """Implements `Letter` for the store at this place."""

    def __init__(self, home: StorePlace, new: NewRun) -> None:
        text = _POST.replace("{schema}", home.address.schema).replace("{now}", NOW)
        self._home = home
        self._post = Statement(text, (new.id, msgspec.json.encode(new).decode()))
        self._receipt = Receipt(ReceiptOutcome.ACCEPTED, new.id)

    def post(self, connection: Any) -> Receipt:
        """Write the submission in the connection's transaction."""
        connection = callers.plain(connection)
        if callers.is_awaited(connection):
            raise BadSetting("connection is one that is awaited; use `await app.submit(...)`, not `app.sync`")
        self._refuse_unless_home(self._seen(callers.ask(connection, self._home.look)))
        callers.ask(connection, self._post)
        return self._receipt

    async def send(self, connection: Any) -> Receipt:
        """Write the submission in the connection's transaction; await the connection if its driver is async."""
        connection = callers.plain(connection)
        # An async session returns its connection so. (An async connection can be awaited too, but only to open it.)
        if inspect.iscoroutine(connection):
            connection = await connection
        if not callers.is_awaited(connection):
            return await asyncio.to_thread(self.post, connection)
        place = self._seen(await callers.ask_awaited(connection, self._home.look))
        if not self._home.is_at(place):
            await asyncio.to_thread(self._refuse_unless_home, place)
        await callers.ask_awaited(connection, self._post)
        return self._receipt

    def _seen(self, place: str) -> str:
        if place == _READ_ONLY:
            raise BadSetting(callers.READ_ONLY)
        return place

    def _refuse_unless_home(self, place: str) -> None:
        home = self._home
        if not home.is_at(place):
            home.find()
        if not home.is_at(place):
            raise BadSetting(
                f"connection leads to another server or database than this scheduler's store, {home.address.shown}"
            )
