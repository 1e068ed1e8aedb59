"""Connections of callers: how each kind of driver executes a statement, and what its rows and errors mean.

A statement returns one value at most, because rows are tuples, mappings or bare values, as the caller has configured.
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
        """Return the text with a placeholder for each value; `{}` in `mark` is the number of the value.

        >>> Statement("SELECT {value}, {value}", ("a", "b")).marked("${}")
        'SELECT $1, $2'
        """
        text = self.text
        for nth in range(len(self.values)):
            text = text.replace("{value}", mark.format(nth + 1), 1)
        return text


def plain(connection: Any) -> Any:
    """Return the connection of an SQLAlchemy session, awaitable if the session is async; others unchanged."""
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        return connection.connection()
    return connection


def is_awaited(connection: Any) -> bool:
    """Return whether calls of the connection must be awaited."""
    if isinstance(connection, psycopg.AsyncConnection) or _is_asyncpg(connection):
        return True
    return inspect.iscoroutinefunction(getattr(connection, "exec_driver_sql", None))


def ask(connection: Any, statement: Statement) -> Any:
    """Execute the statement; return its value, if any. Raises the driver's error, or laneway's error instead of it."""
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
    """Do the same with a connection whose calls are awaited."""
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
    # A pool has `fetchrow` as well, but each of its calls is another transaction.
    return hasattr(connection, "fetchrow") and not hasattr(connection, "acquire")


def _begun(connection: Any, statement: Statement) -> Any:
    """Execute the statement; return the cursor or result, awaitable if the connection is."""
    if isinstance(connection, _OF_PSYCOPG):
        # A plain cursor: the connection's own cursors may use other placeholders and rows.
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
    """Execute with named values: SQLAlchemy translates them for the driver below."""
    from sqlalchemy import text

    values = {f"value{nth + 1}": value for nth, value in enumerate(statement.values)}
    return connection.execute(text(statement.marked(":value{}")), values)


def _value(row: Any) -> Any:
    """Return the value of a row of one column, whatever type rows have.

    >>> [_value(row) for row in [("a",), ["a"], {"place": "a"}, "a", None]]
    ['a', 'a', 'a', 'a', None]
    """
    if row is None or isinstance(row, str):
        return row
    return next(iter(row.values() if isinstance(row, Mapping) else row))


def _meant(error: Exception) -> LanewayError | None:
    """Return the error to raise instead of the driver's, if the caller passed an unusable connection."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    code = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if code == "LW001":
        return StoreMoved(str(cause).partition("moved to ")[2].partition("; use that address")[0])
    if code == "25P02" or "current transaction is aborted" in str(cause):
        return BadSetting("connection is in a transaction that is aborted already; roll it back first")
    if code == "25006" or "in a read-only transaction" in str(cause):
        return BadSetting(READ_ONLY)
    return None
