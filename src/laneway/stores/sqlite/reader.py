"""The reader: answers questions, each from a snapshot, on a thread and a connection of its own.

It blocks no writer. At worst a long question keeps the log from being moved into the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from laneway.errors import StoreError, UnknownRun
from laneway.stores.sqlite.connection import StoreFile, connect_to_read, translated
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.tables.runtime.worker_thread import WorkerThread, WorkItem


class SQLiteReader(WorkerThread):
    """Answers questions, each from a snapshot."""

    def __init__(self, file: StoreFile, now: Callable[[], int]) -> None:
        super().__init__("laneway-sqlite-reader")
        self._file, self._now = file, now
        self._db: SQLiteDatabase | None = None

    def process(self, batch: list[WorkItem]) -> None:
        """Answer each question."""
        for item in batch:
            try:
                item.value = self._answer(item.work)
            except sqlite3.Error as error:
                self.close_connection()
                item.error = translated(error, self._file)
                item.error.__cause__ = error
            except (StoreError, UnknownRun) as error:
                item.error = error

    def close_connection(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.raw.close()
            self._db = None

    def _answer(self, question: Callable[[SQLiteDatabase], Any]) -> Any:
        db = self._db = self._db or SQLiteDatabase(connect_to_read(self._file), self._now)
        try:
            db.raw.execute("BEGIN")
            return question(db)
        finally:
            if db.raw.in_transaction:
                db.raw.execute("COMMIT")
