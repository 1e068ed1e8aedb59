"""Reading and changing the file of a store without the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """Return the rows that a query finds in the file."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def edit(path: Path, *statements: str) -> None:
    """Change the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep everybody else from writing the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
