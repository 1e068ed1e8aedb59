"""Submissions inside a caller's own transaction: one row in the inbox, by whatever connection the caller has.

The connection may be psycopg's, plain or async, SQLAlchemy's (a connection or a session, plain or async), Django's
(`django.db.connection`) or any other that has cursors and takes `%s`. It must lead to the store's database.

The statement also wakes a resting worker when it commits. That is a hint: the worker may have begun to rest after the
look, so resting workers look for themselves once a second.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import msgspec
import psycopg

from laneway.core.run import NewRun, Receipt, ReceiptOutcome
from laneway.errors import BadSetting, StoreMoved
from laneway.stores.postgres.session import NOW

_LOOK = "SELECT to_regclass('{0}.inbox') IS NOT NULL"
_POST = (
    "WITH posted AS (INSERT INTO {0}.inbox (id, at, body) VALUES (%s, {1}, %s) ON CONFLICT (id) DO NOTHING)"
    " SELECT pg_notify(socket, id) FROM"
    " (SELECT socket, id FROM {0}.worker WHERE idle <> 0 AND socket IS NOT NULL ORDER BY number LIMIT 1) AS resting"
)
_KINDS = "psycopg's, SQLAlchemy's or Django's"


class PostgresLetter:
    """Fulfils `Letter` for the store in a schema, which `shown` names."""

    def __init__(self, schema: str, shown: str, new: NewRun) -> None:
        self._shown = shown
        self._look = _LOOK.format(schema)
        self._post = _POST.format(schema, NOW)
        self._values = (new.id, msgspec.json.encode(new).decode())
        self._receipt = Receipt(ReceiptOutcome.ACCEPTED, new.id)

    def post(self, connection: Any) -> Receipt:
        """Put it into the connection's transaction."""
        connection = _plain(connection)
        if _is_awaited(connection):
            raise BadSetting("connection is one that is awaited; use `await app.submit(...)`, not `app.sync`")
        try:
            self._check(_fetched(_done(connection, self._look, ())))
            _fetched(_done(connection, self._post, self._values))
        except Exception as error:
            raise _meant(error) from error
        return self._receipt

    async def send(self, connection: Any) -> Receipt:
        """Put it into the connection's transaction, and await what is to be awaited."""
        connection = _plain(connection)
        # A session's; a connection of SQLAlchemy's can be awaited too, once, to be opened.
        if inspect.iscoroutine(connection):
            connection = await connection
        if not _is_awaited(connection):
            return await asyncio.to_thread(self.post, connection)
        try:
            self._check(await _awaited(_done(connection, self._look, ())))
            await _awaited(_done(connection, self._post, self._values))
        except Exception as error:
            raise _meant(error) from error
        return self._receipt

    def _check(self, row: Any) -> None:
        if not row or not row[0]:
            raise BadSetting(f"connection leads to another database than this scheduler's store, {self._shown}")


def _plain(connection: Any) -> Any:
    """Return the connection of a session, awaitable if the session is."""
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        return connection.connection()
    return connection


def _is_awaited(connection: Any) -> bool:
    if isinstance(connection, psycopg.AsyncConnection):
        return True
    return inspect.iscoroutinefunction(getattr(connection, "exec_driver_sql", None))


def _done(connection: Any, statement: str, values: tuple[str, ...]) -> Any:
    """Do the statement; return the cursor or result, awaitable if the connection is."""
    if isinstance(connection, (psycopg.Connection, psycopg.AsyncConnection)):
        return connection.execute(statement.encode(), values)
    if hasattr(connection, "exec_driver_sql"):
        return connection.exec_driver_sql(statement, values)
    if hasattr(connection, "cursor"):
        cursor = connection.cursor()
        cursor.execute(statement, values)
        return cursor
    raise BadSetting(f"connection is {type(connection).__name__}; it must be {_KINDS}")


def _fetched(found: Any) -> Any:
    row = found.fetchone()
    found.close()
    return row


async def _awaited(doing: Any) -> Any:
    found = await doing
    row = found.fetchone()
    return await row if inspect.isawaitable(row) else row


def _meant(error: Exception) -> Exception:
    """Return the error to raise: the driver's own, unless it is about what the caller passed in."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    if getattr(cause, "sqlstate", None) == "LW001":
        return StoreMoved(str(cause).partition("moved to ")[2].partition("; use that address")[0])
    if "current transaction is aborted" in str(cause):
        return BadSetting("connection is in a transaction that is aborted already; roll it back first")
    if "in a read-only transaction" in str(cause):
        return BadSetting(
            "connection is in a transaction that is read only, or leads to a standby; nothing can be submitted in it"
        )
    return error
