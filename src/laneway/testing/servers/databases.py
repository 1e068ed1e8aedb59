"""Empty databases on a PostgreSQL server."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

Row = tuple[Any, ...]

CONNECT_WITHIN = 10  # seconds


class Postgres(Protocol):
    """Any PostgreSQL server to test on."""

    @property
    def url(self) -> str:
        """The address of an existing database, from which others are created."""

    def execute(self, statement: str, *parameters: object) -> list[Row]:
        """Execute one statement on its own connection and return the rows. Needs psycopg, and raises its errors."""

    def database(self) -> AbstractContextManager[str]:
        """Create an empty database, yield its URL, and drop it after the block, even if others are connected."""


class GivenPostgres:
    """A server that others may use, too: only databases of our own are created and dropped."""

    def __init__(self, url: str) -> None:
        self.url = url

    def execute(self, statement: str, *parameters: object) -> list[Row]:
        """Execute one statement on its own connection and return the rows. Needs psycopg, and raises its errors."""
        return execute(self.url, statement, *parameters)

    def database(self) -> AbstractContextManager[str]:
        """Create an empty database, yield its URL, and drop it after the block, even if others are connected."""
        return fresh_database(self.url)

    def trouble(self) -> Exception | None:
        """Return why it does not answer, None if it does."""
        import psycopg  # as in `execute`

        try:
            self.execute("SELECT 1")
        except psycopg.Error as error:
            return error
        return None


@contextmanager
def fresh_database(url: str, is_up: Callable[[], bool] = lambda: True) -> Iterator[str]:
    """Create an empty database on the server, yield its URL, and drop it after the block if the server is up."""
    name = f"laneway_test_{secrets.token_hex(8)}"
    execute(url, f'CREATE DATABASE "{name}" TEMPLATE template0')
    try:
        yield _with_database(url, name)
    finally:
        if is_up():
            execute(url, f'DROP DATABASE "{name}" WITH (FORCE)')


def _with_database(url: str, name: str) -> str:
    parts = urlsplit(url)
    # Not `geturl`, which takes the slashes from a URL without a host.
    return f"{parts.scheme}://{parts.netloc}/{name}{'?' if parts.query else ''}{parts.query}"


def execute(url: str, statement: str, *parameters: object) -> list[Row]:
    """Execute one statement over a connection of its own and return the rows. Raises the errors of psycopg."""
    import psycopg  # to start a server needs no client

    with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_WITHIN) as connection:
        cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []
