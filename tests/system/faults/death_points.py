"""Death at a chosen point: a process kills itself with -9 during one chosen call of its store.

The points of a call are, in this order:

    unsent       before the call
    1, 2, 3 ...  inside the transaction, before its statement of that number; the last one is the COMMIT
    committed    after the COMMIT, before any caller gets its answer
    answered     after the answer, before the caller uses it
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from unittest import mock

from laneway import Scheduler
from laneway.stores.sqlite import connection
from laneway.stores.sqlite.connection import StoreFile
from laneway.stores.sqlite.writer import SQLiteWriter

UNSENT, COMMITTED, ANSWERED = "unsent", "committed", "answered"
NAMED = (UNSENT, COMMITTED, ANSWERED)
NOWHERE = "0"  # a number that no statement has

Call = Callable[..., Awaitable[Any]]


class Death:
    """Kills the process at a point of the first call of `verb` for which `is_it` is true.

    `statements` counts those of its transaction.
    """

    def __init__(self, point: str, verb: str, is_it: Callable[..., bool] = lambda *_: True) -> None:
        self._point, self._verb, self._is_it = point, verb, is_it
        self._here = self._past = False
        self.statements = 0

    async def install(self, app: Scheduler) -> None:
        """Watch the calls of a scheduler that has not used its store yet."""
        mock.patch("laneway.stores.sqlite.writer.connect", self._connect).start()
        execute = SQLiteWriter._execute  # noqa: SLF001 - the only place that sees the end of a COMMIT
        mock.patch.object(SQLiteWriter, "_execute", _with_commit_hook(execute, self._committed)).start()
        store = await app.open()
        setattr(store, self._verb, partial(self._call, getattr(store, self._verb)))

    async def _call(self, call: Call, *args: Any, **options: Any) -> Any:
        if self._past or not self._is_it(*args):
            return await call(*args, **options)
        self._die_at(UNSENT)
        self._here = True
        answer = await call(*args, **options)
        self._here, self._past = False, True
        self._die_at(ANSWERED)
        return answer

    def _committed(self) -> None:
        if self._here:
            self._die_at(COMMITTED)

    def _die_at(self, point: str) -> None:
        if point == self._point:
            os.kill(os.getpid(), signal.SIGKILL)

    def _connect(self, place: StoreFile) -> sqlite3.Connection:
        db = connection.connect(place)
        db.set_trace_callback(self._begins)
        return db

    def _begins(self, _: str) -> None:
        # Called by SQLite when a statement is about to run, on the writer's thread.
        if self._here:
            self.statements += 1
            self._die_at(str(self.statements))


def _with_commit_hook(execute: Callable[..., None], committed: Callable[[], None]) -> Callable[..., None]:
    def executed(writer: SQLiteWriter, db: sqlite3.Connection, statement: str, **options: Any) -> None:
        execute(writer, db, statement, **options)
        if statement == "COMMIT":
            committed()

    return executed
