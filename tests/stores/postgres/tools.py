"""Helpers of the PostgreSQL store's tests: addresses, stores that are closed, and sessions of a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import psycopg
import pytest

from laneway.errors import LanewayError
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import connect
from laneway.stores.postgres.server.pipeline import Pipeline
from laneway.stores.postgres.server.settings import set_up
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.testing.servers import Postgres


def with_parameter(url: str, parameter: str) -> str:
    """Return the address with one parameter more."""
    return f"{url}{'&' if '?' in url else '?'}{parameter}"


@asynccontextmanager
async def opened(url: str, *parameters: str) -> AsyncIterator[PostgresStore]:
    """Give an open store, and close it."""
    for parameter in parameters:
        url = with_parameter(url, parameter)
    store = PostgresStore(url)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@contextmanager
def undone(place: str) -> Iterator[PostgresDatabase]:
    """Give a new store's tables in a transaction that is rolled back."""
    address = Address.parse(place)
    with closing(connect(address)) as link:
        link.execute(set_up(address).encode())
        with Pipeline(link) as pipe:
            pipe.send("BEGIN")
            yield PostgresDatabase(pipe)
            pipe.send("ROLLBACK")


async def until(fact: Callable[[], bool | Awaitable[bool]], within: float = 20) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + within
    while True:
        known = fact()
        if known if isinstance(known, bool) else await known:
            return
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.01)


def cut(server: Postgres, where: str = "true") -> int:
    """End the connections of stores at which this is so; return how many those were."""
    found = server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE application_name = 'laneway' AND pid <> pg_backend_pid() AND ({where})"
    )
    return len(found)


def waiting_for_the_lock(server: Postgres) -> int:
    """Return how many connections wait for the lock of the writer."""
    return len(server.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


async def refusal(url: str) -> LanewayError:
    """Return the error of opening a store: one line, without the password."""
    store = PostgresStore(url)
    with pytest.raises(LanewayError) as caught:
        await store.open()
    await store.close()
    said = f"{caught.value} {caught.value!r} {caught.value.__cause__}"
    assert "secret" not in said
    assert "\n" not in str(caught.value)
    return caught.value


def execute(url: str, *statements: str) -> None:
    """Execute statements in the database of the address."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as link:
        for statement in statements:
            link.execute(statement.encode())


def tables(url: str) -> list[str]:
    """Return the tables in the database of the address, by schema and name."""
    query = "SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
    with psycopg.connect(url.partition("?")[0]) as link:
        rows = link.execute(f"{query} WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')".encode())
        return sorted(name for (name,) in rows)
