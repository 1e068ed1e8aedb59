"""A server understands the statements of the page about PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from laneway import Scheduler
from laneway.stores.postgres.server.address import OURS, Address
from laneway.testing.servers import Postgres

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "postgres.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def statements(block: str) -> dict[str, str]:
    """Return the statements of a block, by the comments above them."""
    parts = re.split(r"^-- (.*)\n", block, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


RIGHTS, QUERIES, REMOVAL = blocks("sql")
ADDRESSES = [line.split()[0] for line in blocks("text")[0].splitlines()]
LOOKS = statements(QUERIES)


@pytest.fixture(scope="module")
def url(postgres_server: Postgres) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


async def greeted(url: str) -> str:
    """Let a run succeed there; return its id."""
    async with Scheduler(url) as app:

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"

        receipt = await app.submit(greet, {"name": "ann"})
        await app.drain()
        assert await app.result(receipt) == "hello ann"
    return receipt.run_id


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as link:
        return link.execute(statement.encode()).fetchall()


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_is_one(address: str) -> None:
    assert Address.parse(address).shown


def test_the_parameters_that_are_laneway_s_own_are_all_named() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| `", PAGE, flags=re.MULTILINE)) == set(OURS)


@pytest.mark.parametrize("what", LOOKS)
async def test_every_query_is_understood(url: str, what: str) -> None:
    run_id = await greeted(url)

    found = rows(url, LOOKS[what].replace("RUN", run_id))

    match what:
        case "runs by state":
            assert dict(found)["succeeded"] >= 1
        case "a run, its arguments and its result":
            assert found == [(run_id, "succeeded", 1, '{"name":"ann"}', '"hello ann"', None)]
        case "how many runs of each lane may start now, and how many are active":
            assert ("main", 0, 0, 0) in found
        case "how large the tables are, and how much of them is dead":
            assert len(found) == 10
        case "runs of the future":
            assert found == [(0, None)]
        case "submissions of your transactions that no worker has taken in yet":
            assert found == [(0,)]
        case "who executes what, longest first" | "workers, and when they were last heard of":
            assert found == []


async def test_a_user_with_the_rights_that_are_named_can_work(postgres_server: Postgres) -> None:
    with postgres_server.database() as url:
        role = "laneway_docs"
        with psycopg.connect(url, autocommit=True) as link:
            link.execute(
                RIGHTS.replace("ROLE laneway", f"ROLE {role}").replace("TION laneway", f"TION {role}").encode()
            )
            try:
                await greeted(re.sub(r"//[^@/]*@", f"//{role}:secret@", url))
                owners = link.execute(
                    "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'laneway'"
                ).fetchall()
                assert owners == [(role,)]
            finally:
                link.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}".encode())


async def test_a_store_is_removed_by_its_schema(postgres_server: Postgres) -> None:
    with postgres_server.database() as url:
        await greeted(f"{url}{'&' if '?' in url else '?'}schema=staging")
        with psycopg.connect(url, autocommit=True) as link:
            link.execute(REMOVAL.encode())
        assert rows(url, "SELECT to_regnamespace('staging')") == [(None,)]
