"""Schemas of other programs, empty, newer or damaged ones: the errors, and that nothing is changed."""

from __future__ import annotations

import pytest

from laneway.errors import NotAStore, StoreTooNew
from laneway.stores.postgres.server.address import Address
from laneway.testing import new_run
from tests.stores.postgres.tools import execute, opened, refusal, tables

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE {0}.invoice (id int)",
        "CREATE VIEW {0}.layout AS SELECT 1 AS x",
        "CREATE TABLE {0}.layout (program text, version text); INSERT INTO {0}.layout VALUES ('laneway', 'one')",
        "CREATE TABLE {0}.layout (program int, version int); INSERT INTO {0}.layout VALUES (1, 1)",
        "CREATE TABLE {0}.layout (program point, version int)",
        "CREATE TABLE {0}.layout (program text, version int); INSERT INTO {0}.layout VALUES ('another', 1)",
        "CREATE TABLE {0}.layout (program text, version int)",
    ],
)
async def test_a_schema_of_another_program_is_refused_and_left_alone(postgres_place: str, made: str) -> None:
    schema = Address.parse(postgres_place).schema
    execute(postgres_place, f"CREATE SCHEMA {schema}", *made.format(schema).split("; "))
    before = tables(postgres_place)

    error = await refusal(postgres_place)

    assert isinstance(error, NotAStore)
    assert str(error).endswith(f"schema {schema} belongs to another program; ?schema= names another one")
    assert tables(postgres_place) == before


async def test_a_schema_that_is_there_and_empty_is_taken(postgres_place: str) -> None:
    execute(postgres_place, f"CREATE SCHEMA {Address.parse(postgres_place).schema}")

    async with opened(postgres_place) as store:
        assert (await store.depths()).runs == {}


async def test_a_schema_of_a_newer_laneway_is_refused(postgres_place: str) -> None:
    schema = Address.parse(postgres_place).schema
    async with opened(postgres_place):
        execute(postgres_place, f"UPDATE {schema}.layout SET version = 999")

        error = await refusal(postgres_place)

    assert isinstance(error, StoreTooNew)
    assert f"schema {schema} has layout 999, made by a newer laneway; this one knows up to" in str(error)
    assert str(error).endswith("upgrade it")


async def test_tables_that_were_dropped_are_said_and_nothing_hangs(postgres_place: str) -> None:
    schema = Address.parse(postgres_place).schema
    async with opened(postgres_place) as store:
        execute(postgres_place, f"DROP TABLE {schema}.ready")

        with pytest.raises(NotAStore, match=f"the tables of schema {schema} are not as laneway made them"):
            await store.submit([new_run("a")])
