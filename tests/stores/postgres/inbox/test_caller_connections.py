"""Submitting through connections of any library, whatever their rows look like; and only into the same store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import psycopg2.extras
import pytest
from psycopg.rows import class_row, dict_row, kwargs_row, scalar_row, tuple_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from laneway import Scheduler
from laneway.errors import BadSetting, StoreUnavailable
from laneway.stores.postgres.server.address import Address
from laneway.testing.servers import Postgres, PostgresServer, postgres_server
from tests.stores.postgres.tools import opened

ELSEWHERE = "another server or database than this scheduler's store"
MAKES: dict[str, Any] = {
    "dict_row": {"row_factory": dict_row},
    "scalar_row": {"row_factory": scalar_row},
    "class_row": {"row_factory": class_row(SimpleNamespace)},
    "kwargs_row": {"row_factory": kwargs_row(dict)},
    "client cursors": {"cursor_factory": psycopg.ClientCursor},
    "raw cursors": {"cursor_factory": psycopg.RawCursor},
}


def greet(name: str) -> str:
    return f"hello {name}"


def scheduler(url: str) -> Scheduler:
    app = Scheduler(url)
    app.task(greet)
    return app


@pytest.fixture
def conninfo(postgres_url: str) -> str:
    return Address.parse(postgres_url).conninfo


@pytest.fixture
async def app(postgres_url: str) -> AsyncIterator[Scheduler]:
    async with scheduler(postgres_url) as app:
        yield app


async def states(app: Scheduler) -> list[str]:
    return [run.state for run in await app.runs()]


@pytest.mark.parametrize("make", MAKES)
async def test_psycopgs_rows_and_cursors_may_be_of_any_kind(app: Scheduler, conninfo: str, make: str) -> None:
    of_async = {"cursor_factory": psycopg.AsyncRawCursor} if make == "raw cursors" else MAKES[make]
    of_async = {"cursor_factory": psycopg.AsyncClientCursor} if make == "client cursors" else of_async
    with psycopg.connect(conninfo, **MAKES[make]) as link:
        await app.submit("greet", {"name": "ann"}, connection=link)
    async with await psycopg.AsyncConnection.connect(conninfo, **of_async) as awaited:
        await app.submit("greet", {"name": "ann"}, connection=awaited)

    assert await states(app) == ["pending", "pending"]


@pytest.mark.parametrize("rows", [dict_row, scalar_row, tuple_row], ids=["mappings", "values", "tuples"])
async def test_another_drivers_rows_may_be_of_any_kind(app: Scheduler, conninfo: str, rows: Any) -> None:
    with psycopg.connect(conninfo) as link:
        another = SimpleNamespace(cursor=lambda: link.cursor(row_factory=rows))
        await app.submit("greet", {"name": "ann"}, connection=another)

    assert await states(app) == ["pending"]


class Dollars:
    """A connection with the interface of asyncpg, over psycopg."""

    def __init__(self, link: psycopg.AsyncConnection[Any]) -> None:
        self._link = link

    async def fetchrow(self, query: str, *values: str) -> Any:
        cursor = await psycopg.AsyncRawCursor(self._link, row_factory=tuple_row).execute(query.encode(), values)
        return await cursor.fetchone()


async def test_by_a_connection_that_takes_dollars_as_asyncpgs_do(app: Scheduler, conninfo: str) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo) as link:
        await app.submit("greet", {"name": "ann"}, connection=Dollars(link))
        assert await states(app) == []

    assert await states(app) == ["pending"]


async def test_by_asyncpgs_own(app: Scheduler, conninfo: str) -> None:
    link = await asyncpg.connect(conninfo)
    async with link.transaction():
        await app.submit("greet", {"name": "ann"}, connection=link)
        assert await states(app) == []
    await link.close()
    async with asyncpg.create_pool(conninfo, min_size=1) as pool, pool.acquire() as lent:
        await app.submit("greet", {"name": "ann"}, connection=lent)

    assert await states(app) == ["pending", "pending"]


@pytest.mark.parametrize("with_session", [False, True], ids=["connection", "session"])
async def test_by_sqlalchemys_over_asyncpg(app: Scheduler, conninfo: str, *, with_session: bool) -> None:
    engine = create_async_engine(conninfo.replace("postgresql://", "postgresql+asyncpg://"))
    opened: Any = AsyncSession(engine) if with_session else engine.connect()
    async with opened as link:
        await app.submit("greet", {"name": "ann"}, connection=link)
        await link.commit()
    await engine.dispose()

    assert await states(app) == ["pending"]


async def test_by_psycopg2s_with_rows_that_are_mappings(app: Scheduler, conninfo: str) -> None:
    link = psycopg2.connect(conninfo, cursor_factory=psycopg2.extras.RealDictCursor)
    await app.submit("greet", {"name": "ann"}, connection=link)
    link.commit()
    link.close()

    assert await states(app) == ["pending"]


async def test_a_pool_and_what_is_awaited_where_nobody_awaits_are_refused(app: Scheduler) -> None:
    async def fetchrow() -> None:
        """Do nothing."""

    pool, awaited = SimpleNamespace(fetchrow=fetchrow, acquire=fetchrow), SimpleNamespace(fetchrow=fetchrow)
    letter = await app.letter("greet", {"name": "ann"})

    with pytest.raises(BadSetting, match="connection is SimpleNamespace; it must be psycopg's, asyncpg's"):
        await app.submit("greet", {"name": "ann"}, connection=pool)
    with pytest.raises(BadSetting, match="is one that is awaited"):
        letter.post(awaited)


# Only into the very store


async def test_a_store_of_the_same_name_in_another_database_is_refused_without_harm(
    app: Scheduler, postgres_server: Postgres, postgres_url: str
) -> None:
    schema = Address.parse(postgres_url).schema
    with postgres_server.database() as url:
        async with opened(url, f"schema={schema}") as other:
            with psycopg.connect(url) as link:
                link.execute("CREATE TABLE kept (id int)")
                with pytest.raises(BadSetting, match=ELSEWHERE):
                    await app.submit("greet", {"name": "ann"}, connection=link)
                link.execute("INSERT INTO kept VALUES (1)")
            async with await psycopg.AsyncConnection.connect(url) as awaited:
                with pytest.raises(BadSetting, match=ELSEWHERE):
                    await app.submit("greet", {"name": "ann"}, connection=awaited)
            assert (await other.depths()).runs == {}
            with psycopg.connect(url) as link:
                assert link.execute("SELECT id FROM kept").fetchall() == [(1,)]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.mark.timeout(120)
async def test_a_store_of_the_same_name_on_another_server_is_refused_and_a_server_started_again_is_not(
    app: Scheduler, server: PostgresServer, postgres_url: str, conninfo: str
) -> None:
    async with scheduler(f"{server.url}?schema={Address.parse(postgres_url).schema}") as other:
        with psycopg.connect(conninfo) as link:
            await app.submit("greet", {"name": "ann"}, connection=link)
            with pytest.raises(BadSetting, match=ELSEWHERE):
                await other.submit("greet", {"name": "ann"}, connection=link)
        with psycopg.connect(server.url) as link:
            await other.submit("greet", {"name": "ann"}, connection=link)
        server.restart()
        with psycopg.connect(server.url) as link:
            await other.submit("greet", {"name": "ann"}, connection=link)
        assert await states(other) == ["pending", "pending"]

    assert await states(app) == ["pending"]


async def test_a_schema_that_was_dropped_and_made_anew_is_the_same_place(postgres_place: str) -> None:
    address = Address.parse(postgres_place)
    async with scheduler(postgres_place) as app:
        with psycopg.connect(address.conninfo) as link:
            await app.submit("greet", {"name": "ann"}, connection=link)
            link.rollback()
            link.execute(f"DROP SCHEMA {address.schema} CASCADE".encode())
        async with opened(postgres_place) as other:
            with psycopg.connect(address.conninfo) as link:
                await app.submit("greet", {"name": "ann"}, connection=link)
            assert (await other.depths()).runs == {"pending": 1}


async def test_a_store_that_cannot_be_written_now_is_told_as_that(app: Scheduler, conninfo: str) -> None:
    more = "&" if "?" in conninfo else "?"
    read_only = Address.parse(f"{conninfo}{more}options=-c%20default_transaction_read_only%3Don")
    app._store._home.address = read_only  # type: ignore[attr-defined]
    with psycopg.connect(conninfo) as link, pytest.raises(StoreUnavailable, match="it is a standby"):
        await app.submit("greet", {"name": "ann"}, connection=link)
