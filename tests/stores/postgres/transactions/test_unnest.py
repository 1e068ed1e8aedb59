"""A statement for many rows does the same as one statement per row, whatever values the rows share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import connect_bare
from laneway.stores.postgres.server.pipeline import Pipeline
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.postgres.transactions.unnest import for_rows
from laneway.stores.tables.sql.statements import Row
from tests.stores.postgres.tools import undone

INSERT = "INSERT INTO {} (a, b, c, d) VALUES ($1::int, $2::text, $3::bigint, $4::text)"
DELETE = "DELETE FROM {} WHERE b = $2::text AND (a, c) <= ($1::int, $3::bigint) AND b = $2::text"


@pytest.fixture
def pipe(postgres_place: str) -> Iterator[Pipeline]:
    with closing(connect_bare(Address.parse(postgres_place))) as link, Pipeline(link) as pipe:
        for name in ("one", "many"):
            pipe.send(f"CREATE TEMPORARY TABLE {name} (a int, b text, c bigint, d text)")
        yield pipe


def some_rows(chosen: random.Random) -> list[Row]:
    """Return rows in which some columns have the same value in every row."""
    count = chosen.choice((2, 3, 16, 32))
    makes = (
        lambda: chosen.randrange(-3, 3),
        lambda: chosen.choice("xyz"),
        lambda: chosen.randrange(2**40),
        lambda: chosen.choice((None, "d")),
    )
    columns = [[make()] * count if chosen.random() < 0.5 else [make() for _ in range(count)] for make in makes]
    return list(zip(*columns, strict=True))


def left(pipe: Pipeline, table: str, columns: str = "a, b, c, coalesce(d, '-')") -> list[Row]:
    return sorted(pipe.send(f"SELECT {columns} FROM {table}").fetchall())


def test_rows_are_written_and_deleted_as_they_would_be_one_by_one(pipe: Pipeline) -> None:
    chosen = random.Random(3)
    for _ in range(60):
        rows = some_rows(chosen)
        gone = [row[:3] for row in some_rows(chosen)]
        pipe.send(*for_rows(INSERT.format("many"), rows))
        pipe.send(*for_rows(DELETE.format("many"), gone))
        for row in rows:
            pipe.send(INSERT.format("one"), row)
        for key in gone:
            pipe.send(DELETE.format("one"), key)
        assert left(pipe, "many") == left(pipe, "one")
    assert left(pipe, "many")


# Rows that are known to be there

ROWS: dict[str, Callable[[random.Random, int], Row]] = {
    "turn": lambda chosen, n: ("main" if n % 7 else "other", f"u{n}", n % 3, chosen.randrange(99), 1),
    "seat": lambda chosen, n: ("main" if n % 7 else "other", f"u{n}", *(chosen.randrange(9) for _ in range(3))),
    "session": lambda chosen, n: (f"s{n}", f"[{n}]", n, *(chosen.randrange(9) for _ in range(4)), None),
}


@pytest.fixture
def db(postgres_place: str) -> Iterator[PostgresDatabase]:
    with undone(postgres_place) as db:
        yield db


@pytest.mark.parametrize("table", ROWS)
def test_rows_that_are_known_are_written_over_as_by_an_insert(db: PostgresDatabase, table: str) -> None:
    """So often that a new era begins."""
    chosen, name = random.Random(4), f"counts.set_{table}"
    inserted = list[Row]()
    db.insert(name, [ROWS[table](chosen, n) for n in range(40)])
    for count in (1, 2, 30) * 50:
        rows = [ROWS[table](chosen, n) for n in chosen.sample(range(40), count)]
        db.pipe.send("SAVEPOINT before")
        db.insert(name, rows)
        inserted = left(db.pipe, table, "*")
        db.pipe.send("ROLLBACK TO before")
        db.insert(name, [], rows)
        assert left(db.pipe, table, "*") == inserted
    assert len(inserted) == 40
