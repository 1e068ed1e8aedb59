"""Callers' own connections: how each kind takes a statement, what its rows look like, and what its errors mean.

A statement is asked for one value at most, because rows are tuples, mappings or bare values as the caller has set it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import tuple_row

from laneway.errors import BadSetting, LanewayError, StoreMoved

READ_ONLY = "connection is in a transaction that is read only, or leads to a standby; nothing can be submitted in it"
_KINDS = "psycopg's, asyncpg's, SQLAlchemy's or Django's"
_OF_PSYCOPG = (psycopg.Connection, psycopg.AsyncConnection)


class Statement(NamedTuple):
    """A statement, with `{value}` for each of its values."""

    text: str
    values: tuple[str, ...] = ()

    def marked(self, mark: str) -> str:
        """Return the text with a mark for each value; `mark` may hold the number of the value, as `{}`.

        >>> Statement("SELECT {value}, {value}", ("a", "b")).marked("${}")
        'SELECT $1, $2'
        """
        text = self.text
        for nth in range(len(self.values)):
            text = text.replace("{value}", mark.format(nth + 1), 1)
        return text


def plain(connection: Any) -> Any:
    """Return the connection of a session, awaitable if the session is."""
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        return connection.connection()
    return connection


def is_awaited(connection: Any) -> bool:
    """Tell whether what is done by the connection is awaited."""
    if isinstance(connection, psycopg.AsyncConnection) or _is_asyncpg(connection):
        return True
    return inspect.iscoroutinefunction(getattr(connection, "exec_driver_sql", None))


def ask(connection: Any, statement: Statement) -> Any:
    """Do the statement; return the value that it found, if any. Raises the driver's error, or what it means here."""
    try:
        found = _begun(connection, statement)
        row = found.fetchone()
        found.close()
    except Exception as error:
        if (meaning := _meant(error)) is not None:
            raise meaning from error
        raise
    return _value(row)


async def ask_awaited(connection: Any, statement: Statement) -> Any:
    """Do the same by a connection that is awaited."""
    try:
        if _is_asyncpg(connection):
            return _value(await connection.fetchrow(statement.marked("${}"), *statement.values))
        found = await _begun(connection, statement)
        row = found.fetchone()
        return _value(await row if inspect.isawaitable(row) else row)
    except Exception as error:
        if (meaning := _meant(error)) is not None:
            raise meaning from error
        raise


def _is_asyncpg(connection: Any) -> bool:
    # A pool has that as well, but each call of it is another transaction.
    return hasattr(connection, "fetchrow") and not hasattr(connection, "acquire")


def _begun(connection: Any, statement: Statement) -> Any:
    """Do the statement; return the cursor or result, awaitable if the connection is."""
    if isinstance(connection, _OF_PSYCOPG):
        # A cursor of ours: those that the connection makes may mark values, and give rows, in another way.
        kind: Any = psycopg.Cursor if isinstance(connection, psycopg.Connection) else psycopg.AsyncCursor
        return kind(connection, row_factory=tuple_row).execute(statement.marked("%s").encode(), statement.values)
    if hasattr(connection, "exec_driver_sql"):
        return _by_sqlalchemy(connection, statement)
    if hasattr(connection, "cursor"):
        cursor = connection.cursor()
        cursor.execute(statement.marked("%s"), statement.values)
        return cursor
    raise BadSetting(f"connection is {type(connection).__name__}; it must be {_KINDS}")


def _by_sqlalchemy(connection: Any, statement: Statement) -> Any:
    """Let it mark the values: each of the drivers below it has its own way."""
    from sqlalchemy import text

    values = {f"value{nth + 1}": value for nth, value in enumerate(statement.values)}
    return connection.execute(text(statement.marked(":value{}")), values)


def _value(row: Any) -> Any:
    """Return the value of a row with one, whatever rows are.

    >>> [_value(row) for row in [("a",), ["a"], {"place": "a"}, "a", None]]
    ['a', 'a', 'a', 'a', None]
    """
    if row is None or isinstance(row, str):
        return row
    return next(iter(row.values() if isinstance(row, Mapping) else row))


def _meant(error: Exception) -> LanewayError | None:
    """Return the error to raise instead of a driver's own, if that is about what the caller passed in."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    code = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if code == "LW001":
        return StoreMoved(str(cause).partition("moved to ")[2].partition("; use that address")[0])
    if code == "25P02" or "current transaction is aborted" in str(cause):
        return BadSetting("connection is in a transaction that is aborted already; roll it back first")
    if code == "25006" or "in a read-only transaction" in str(cause):
        return BadSetting(READ_ONLY)
    return None
