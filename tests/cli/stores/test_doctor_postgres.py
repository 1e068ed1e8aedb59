"""`laneway doctor` on PostgreSQL: what the server keeps, what fills it, and what to do about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import psycopg
import pytest

from laneway import Scheduler
from laneway.stores.postgres import examination
from laneway.testing.servers import Postgres, PostgresServer, postgres_server
from tests.cli.conftest import Invoke

Facts = list[tuple[str, str, str]]


async def work(url: str) -> None:
    async with Scheduler(url) as app:

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"

        await app.submit(greet, {"name": "ann"})
        await app.drain()


@pytest.fixture(scope="module")
def url(postgres_server: Postgres) -> Iterator[str]:
    """A store in which one run has succeeded, on the server that tests share: it does not wait for the disk."""
    with postgres_server.database() as url:
        asyncio.run(work(url))
        yield url


def facts(invoke: Invoke, url: str, *words: str) -> Facts:
    told = json.loads(invoke("doctor", "--store", url, "--json", *words).stdout)
    return [(fact["name"], fact["level"], fact["text"]) for fact in told["facts"]]


def said(found: Facts, name: str) -> list[str]:
    return [text for fact, _, text in found if fact == name]


def test_it_tells_the_server_its_size_and_that_all_agrees(invoke: Invoke, url: str) -> None:
    result = invoke("doctor", "--store", url)

    assert result.exit_code == 0
    found = facts(invoke, url)
    assert said(found, "engine")[0].startswith("PostgreSQL ")
    assert "1 succeeded" in said(found, "runs")[0]
    assert said(found, "tables")
    assert not [text for _, level, text in found if level == "wrong"]


def test_a_server_that_does_not_wait_for_its_disk_is_warned_of(invoke: Invoke, url: str) -> None:
    found = facts(invoke, url)

    assert "fsync is off" in said(found, "restart")[0]
    assert any(text.startswith("fsync is off: turn it on") for text in said(found, "server"))
    assert any(text.startswith("full_page_writes is off") for text in said(found, "server"))


def test_a_server_as_it_comes_keeps_everything_and_nothing_is_warned_of(invoke: Invoke) -> None:
    with postgres_server(fsync=True) as server:
        asyncio.run(work(server.url))
        found = facts(invoke, server.url)

    assert said(found, "restart") == ["keeps everything that was acknowledged"]
    assert said(found, "server") == []


def test_settings_that_lose_or_pile_up_are_named_with_what_to_do(invoke: Invoke, tuned: PostgresServer) -> None:
    asyncio.run(work(tuned.url))
    found = facts(invoke, tuned.url)

    assert "synchronous_commit is off" in said(found, "restart")[0]
    advice = said(found, "server")
    assert 'synchronous_commit is off: ALTER ROLE "postgres" SET synchronous_commit = on' in advice
    assert any(text.startswith("autovacuum is off: turn it on") for text in advice)


@pytest.fixture
def tuned() -> Iterator[PostgresServer]:
    with postgres_server(fsync=True, autovacuum=False, synchronous_commit=False) as server:
        yield server


def test_a_transaction_that_goes_on_is_named(invoke: Invoke, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "OLD", -1)
    with psycopg.connect(url) as link:
        link.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        link.execute("SELECT 1")
        found = facts(invoke, url)

    assert any("a transaction has been open for 0 s" in text for text in said(found, "server"))


def test_a_table_full_of_dead_rows_is_named(invoke: Invoke, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "MANY", -1)
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("UPDATE laneway.worker SET short = short; UPDATE laneway.lane SET paused = paused")
        if link.info.server_version >= 150000:
            link.execute("SELECT pg_stat_force_next_flush()")
        tables = link.execute("SELECT relname FROM pg_stat_user_tables WHERE schemaname = 'laneway'").fetchall()
    found = facts(invoke, url)

    assert set(examination.BUSY) <= {name for (name,) in tables}
    assert any(text.startswith("table lane has ") and "dead rows" in text for text in said(found, "server"))
    assert "rows wait to be vacuumed" in said(found, "tables")[0]


def test_a_server_whose_connections_are_taken_is_named(
    invoke: Invoke, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "CROWDED", 0.0)

    assert any("connections are taken" in text for text in said(facts(invoke, url), "server"))


def test_a_database_without_a_store_is_told_from_one_with(invoke: Invoke, postgres_server: Postgres) -> None:
    with postgres_server.database() as url:
        result = invoke("doctor", "--store", url)

    assert result.exit_code != 0
    assert "a store is made when a scheduler first uses it" in result.output
