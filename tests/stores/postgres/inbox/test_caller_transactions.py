"""Submitting inside a transaction of the caller's own: the run exists if and only if the transaction commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import django
import psycopg
import pytest
import sqlalchemy
from django import conf
from django.db.backends.postgresql.base import DatabaseWrapper
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from laneway import Scheduler, SessionPolicy, Submission
from laneway.core.queue.claim import MOST_MOVES
from laneway.errors import BadSetting, RunDropped, UnknownRun
from laneway.stores.postgres.server.address import Address


def greet(name: str) -> str:
    return f"hello {name}"


@pytest.fixture
def conninfo(postgres_url: str) -> str:
    """How the caller's own program reaches the database that the store is in."""
    return Address.parse(postgres_url).conninfo


@pytest.fixture
async def app(postgres_url: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(postgres_url) as app:
        app.task(greet)
        await app.open()
        yield app
    await asyncio.to_thread(app.sync.close)


@pytest.fixture
def orders(conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the caller's own, to a database with a table of the caller's own."""
    with psycopg.connect(conninfo, autocommit=True) as link:
        link.execute("DROP TABLE IF EXISTS public.orders")
        link.execute("CREATE TABLE public.orders (id int)")
        yield link
        link.execute("DROP TABLE public.orders")


async def is_there(app: Scheduler, run_id: str) -> bool:
    try:
        await app.get(run_id)
    except UnknownRun:
        return False
    return True


async def test_a_run_exists_when_the_transaction_has_committed_and_not_before(
    app: Scheduler, orders: psycopg.Connection[Any]
) -> None:
    with orders.transaction():
        orders.execute("INSERT INTO public.orders VALUES (1)")
        receipt = await app.submit("greet", {"name": "ann"}, connection=orders)
        assert receipt.outcome == "accepted"
        assert not await is_there(app, receipt.run_id)

    assert (await app.get(receipt)).state == "pending"
    await app.drain()
    assert await app.result(receipt, timeout=5) == "hello ann"


async def test_a_transaction_that_is_rolled_back_leaves_no_run(app: Scheduler, orders: psycopg.Connection[Any]) -> None:
    with orders.transaction(force_rollback=True):
        receipt = await app.submit("greet", {"name": "ann"}, connection=orders)

    assert not await is_there(app, receipt.run_id)
    assert await app.runs() == []


@contextmanager
def of_psycopg(conninfo: str) -> Iterator[tuple[Any, Any]]:
    with psycopg.connect(conninfo) as link:
        yield link, link.commit


@contextmanager
def of_sqlalchemy(conninfo: str) -> Iterator[tuple[Any, Any]]:
    engine = sqlalchemy.create_engine(conninfo.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as link:
        yield link, link.commit
    engine.dispose()


@contextmanager
def of_a_sqlalchemy_session(conninfo: str) -> Iterator[tuple[Any, Any]]:
    engine = sqlalchemy.create_engine(conninfo.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        yield session, session.commit
    engine.dispose()


@contextmanager
def of_django(conninfo: str) -> Iterator[tuple[Any, Any]]:
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    wrapper = DatabaseWrapper(
        {
            **dict.fromkeys(("TIME_ZONE", "PASSWORD"), None),
            "NAME": parts["dbname"],
            "USER": parts["user"],
            "HOST": parts["host"],
            "PORT": parts["port"],
            "ENGINE": "django.db.backends.postgresql",
            "OPTIONS": {},
            "AUTOCOMMIT": True,
            "ATOMIC_REQUESTS": False,
            "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": False,
            "DISABLE_SERVER_SIDE_CURSORS": False,
            "TEST": {},
        },
        "orders",
    )
    wrapper.set_autocommit(False)
    yield wrapper, wrapper.commit
    wrapper.close()


KINDS = [of_psycopg, of_sqlalchemy, of_a_sqlalchemy_session, of_django]


@pytest.fixture(scope="session", autouse=True)
def django_settings() -> None:
    if not conf.settings.configured:
        conf.settings.configure(USE_TZ=True, TIME_ZONE="UTC", DATABASES={})
        django.setup()


@pytest.mark.parametrize("kind", KINDS)
async def test_by_a_connection_of_any_kind_on_the_callers_own_thread(app: Scheduler, conninfo: str, kind: Any) -> None:
    def buy() -> str:
        with kind(conninfo) as (connection, commit):
            receipt = app.sync.submit("greet", {"name": "ann"}, user="ann", connection=connection)
            assert app.sync.runs() == []
            commit()
        return receipt.run_id

    run_id = await asyncio.to_thread(buy)

    run = await app.get(run_id)
    assert (run.state, run.user) == ("pending", "ann")


async def test_by_an_awaited_connection(app: Scheduler, conninfo: str) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo) as link:
        receipt = await app.submit("greet", {"name": "ann"}, connection=link)
        assert not await is_there(app, receipt.run_id)

    assert await is_there(app, receipt.run_id)


@pytest.mark.parametrize("with_session", [False, True], ids=["connection", "session"])
async def test_by_an_awaited_connection_of_sqlalchemy(app: Scheduler, conninfo: str, *, with_session: bool) -> None:
    engine = create_async_engine(conninfo.replace("postgresql://", "postgresql+psycopg://"))
    opened: Any = AsyncSession(engine) if with_session else engine.connect()
    async with opened as link:
        receipt = await app.submit("greet", {"name": "ann"}, connection=link)
        assert not await is_there(app, receipt.run_id)
        await link.commit()
    await engine.dispose()

    assert await is_there(app, receipt.run_id)


async def test_an_idle_worker_starts_it_soon_after_the_commit(app: Scheduler, orders: psycopg.Connection[Any]) -> None:
    async with app.running():
        with orders.transaction():
            receipt = await app.submit("greet", {"name": "ann"}, connection=orders)
        assert await app.result(receipt, timeout=5) == "hello ann"


async def test_what_the_rules_refuse_later_ends_dropped_and_says_why(
    app: Scheduler, orders: psycopg.Connection[Any]
) -> None:
    await app.submit("greet", {"name": "first"}, session="chat")
    receipt = await app.submit(
        "greet", {"name": "second"}, session="chat", session_policy=SessionPolicy(mode="reject"), connection=orders
    )

    run = await app.get(receipt)
    assert (run.state, run.reason) == ("dropped", "session_busy")
    assert [event.kind async for event in app.events(receipt)] == ["dropped", "done"]
    with pytest.raises(RunDropped):
        await app.result(receipt, timeout=5)


async def test_a_key_that_was_used_before_leaves_one_run_and_one_that_is_dropped(
    app: Scheduler, orders: psycopg.Connection[Any]
) -> None:
    first = await app.submit("greet", {"name": "ann"}, key="order 1", connection=orders)
    second = await app.submit("greet", {"name": "ann"}, key="order 1", connection=orders)

    assert (await app.get(first)).state == "pending"
    assert ((await app.get(second)).state, (await app.get(second)).reason) == ("dropped", "existing")


async def test_a_delay_counts_from_the_submission(app: Scheduler, orders: psycopg.Connection[Any]) -> None:
    receipt = await app.submit("greet", {"name": "ann"}, delay=3600, connection=orders)

    run = await app.get(receipt)
    assert run.state == "pending"
    assert 3590 < (run.due_at - run.accepted_at).total_seconds() <= 3600


async def test_messages_of_one_session_keep_the_order_of_their_submission(
    app: Scheduler, orders: psycopg.Connection[Any]
) -> None:
    with orders.transaction():
        receipts = [
            await app.submit("greet", {"name": str(nth)}, session="chat", connection=orders) for nth in range(10)
        ]
    await app.drain()

    runs = [await app.get(receipt) for receipt in receipts]
    assert [run.number for run in runs] == sorted(run.number for run in runs)
    starts = [run.started_at for run in runs if run.started_at is not None]
    assert starts == sorted(starts)
    assert len(starts) == len(runs)


# Bad input


async def test_a_message_waits_in_the_inbox_until_all_that_is_due_is_lined_up(
    app: Scheduler, orders: psycopg.Connection[Any]
) -> None:
    await app.submit_many([Submission("greet", {"name": "late"}, delay=0.1) for _ in range(2 * MOST_MOVES)])
    await asyncio.sleep(0.2)  # the server's clock cannot be moved
    form: dict[str, Any] = {"session": "form", "session_policy": SessionPolicy(mode="reject")}
    with orders.transaction():
        receipts = [await app.submit("greet", {"name": "ann"}, connection=orders, **form) for _ in range(2)]

    ended = [await app.get(receipt) for receipt in receipts]

    assert [(run.state, run.reason) for run in ended] == [("pending", None), ("dropped", "session_busy")]


async def test_an_aborted_transaction_is_refused_and_left_as_it_was(
    app: Scheduler, orders: psycopg.Connection[Any]
) -> None:
    orders.autocommit = False
    with pytest.raises(psycopg.errors.UndefinedTable):
        orders.execute("SELECT * FROM public.nothing")

    with pytest.raises(BadSetting, match="aborted already; roll it back first"):
        await app.submit("greet", {"name": "ann"}, connection=orders)
    orders.rollback()
    orders.autocommit = True


async def test_a_read_only_transaction_is_refused_and_left_as_it_was(
    app: Scheduler, orders: psycopg.Connection[Any]
) -> None:
    orders.read_only = True
    with orders.transaction():
        with pytest.raises(BadSetting, match="read only"):
            await app.submit("greet", {"name": "ann"}, connection=orders)
        assert orders.execute("SELECT 1").fetchall() == [(1,)]
    orders.read_only = None


async def test_another_database_is_refused_without_harm_to_the_transaction(
    app: Scheduler, postgres_server: Any
) -> None:
    with postgres_server.database() as url, psycopg.connect(url) as link:
        link.execute("CREATE TABLE kept (id int)")
        with pytest.raises(BadSetting, match="another server or database than this scheduler's store"):
            await app.submit("greet", {"name": "ann"}, connection=link)
        link.execute("INSERT INTO kept VALUES (1)")


async def test_what_is_no_connection_is_refused(app: Scheduler) -> None:
    with pytest.raises(BadSetting, match="it must be psycopg's, asyncpg's, SQLAlchemy's or Django's"):
        await app.submit("greet", {"name": "ann"}, connection=object())


async def test_a_store_that_shares_no_database_refuses_it(orders: psycopg.Connection[Any]) -> None:
    async with Scheduler("memory://") as app:
        app.task(greet)
        with pytest.raises(BadSetting, match="needs a PostgreSQL store"):
            await app.submit("greet", {"name": "ann"}, connection=orders)


async def test_what_cannot_be_read_is_left_and_holds_nobody_up(
    app: Scheduler, orders: psycopg.Connection[Any], postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = Address.parse(postgres_url).schema
    orders.execute(f"INSERT INTO {schema}.inbox (id, at, body) VALUES ('bad', 0, 'no JSON')".encode())

    receipt = await app.submit("greet", {"name": "ann"})

    assert (await app.get(receipt)).state == "pending"
    assert "submission bad of the inbox cannot be read" in caplog.text
    assert orders.execute(f"SELECT id FROM {schema}.inbox".encode()).fetchall() == [("bad",)]
