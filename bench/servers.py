"""The PostgreSQL server of a whole run: a database on it for each store, and for each baseline."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from laneway.testing.servers import PostgresServer, postgres_server


@contextmanager
def fresh_database() -> Iterator[str]:
    """Give the address of an empty database, on a private server that waits for its disk; it is dropped at the end."""
    with _server().database() as url:
        yield url


@cache
def _server() -> PostgresServer:
    starting = postgres_server(fsync=True)
    server = starting.__enter__()
    atexit.register(starting.__exit__, None, None, None)
    return server
