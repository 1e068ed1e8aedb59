"""Tracing the statements of a piece of work, and their cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from laneway.stores.sqlite.database import TEXTS


@contextmanager
def traced(db: sqlite3.Connection) -> Iterator[list[str]]:
    """Collect the statements that are executed, but for those that every transaction begins with."""
    texts: list[str] = []
    db.set_trace_callback(lambda text: None if is_header(text) else texts.append(text))
    yield texts
    db.set_trace_callback(None)


@contextmanager
def counted(db: sqlite3.Connection) -> Iterator[list[int]]:
    """Count the instructions that SQLite executes."""
    count = [0]

    def tick() -> None:
        count[0] += 1

    db.set_progress_handler(tick, 1)
    yield count
    db.set_progress_handler(None, 1)


def is_header(text: str) -> bool:
    """Tell whether this is a statement that reads the header of a transaction."""
    return "FROM counter" in text or text == TEXTS["transaction.flags"]
