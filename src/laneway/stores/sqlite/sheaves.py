"""Sheaves: runs that were submitted together wait in one row until somebody looks for them.

**Why.** A hundred callers who await `submit` are written on their loop, which stands still meanwhile. As rows of their
own (a run, its entry in the index of ids, its place in the ready order) they take it three times as long, and twice as
many pages of the log, as bound into one row. So a submission binds, and whoever executes, reads or changes anything
unbinds first: off the loop, and many at once.

**Who unbinds.** Every transaction but that of a short submission, before its own work, in the same transaction; the
reader has the writer do it before it answers; the writer does it when nobody has asked for anything for a while, when
`MOST` runs are bound, and when the file is closed. So nobody but a submission ever meets a sheaf, and all that a
submission asks about runs that are there (counts, turns, the last number) is kept as for any other run.

**Crash points.** A sheaf is committed like the runs that it stands for, and unbound in one transaction: there is one of
the two. If all processes are killed, the next that opens the file unbinds.

**An id is unique** by the index on `run`. Ids sort by the time at which they were made, so a batch mostly lies between
all that are there and all to come: if nobody has an id in its range, and all that is bound is smaller, it is new, and
will not fail when it is unbound. If not, it is not bound.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain
from operator import lt

from laneway.stores.sqlite.database import TEXTS, SQLiteDatabase
from laneway.stores.tables.statements import Row

TOGETHER = 8  # fewer runs are not worth a sheaf, unless there is one already
MOST = 10_000  # runs: to unbind them takes some 20 ms, or 60 if they are as large as may be
LARGE = 500  # characters of arguments, on average; more are mostly data, which is better written once
TRIES = 20  # to have a snapshot in which nothing is bound: that takes a moment without submissions


class NotHereError(Exception):
    """What was begun on a loop takes longer than a loop may be held up; nothing of it is written."""


class Sheaves:
    """What the writer knows of the sheaves in its file. While it is `hurried` they cannot be unbound."""

    __slots__ = ("hurried", "some")

    def __init__(self) -> None:
        self.hurried = False
        self.forget()

    def forget(self) -> None:
        """Take note that others have written, or that what was written is undone."""
        self.some: bool | None = None  # whether there are any; None: nobody has looked


class BindingDatabase(SQLiteDatabase):
    """A connection that can bind runs, and unbind them."""

    __slots__ = ("_sheaves",)

    def __init__(self, raw: sqlite3.Connection, now: Callable[[], int], sheaves: Sheaves) -> None:
        super().__init__(raw, now)
        self._sheaves = sheaves

    def bind(self, first: int, rank: int, shared: Row, ids: Sequence[str], args: Sequence[str]) -> bool:
        """Write runs as one row, if that is worth it and can be: their ids go up and, as all have, no line breaks."""
        count = len(ids)
        if count < TOGETHER and self._sheaves.some is False:
            return False
        oldest, greatest, is_known = self.execute("sheaves.look", (ids[0], ids[-1])).fetchone()
        self._sheaves.some = oldest is not None
        if oldest is None:
            oldest, is_worth_it = first, count >= TOGETHER
        else:
            is_worth_it = greatest < ids[0]
        if is_known or not is_worth_it or first - oldest + count > MOST:
            return False
        lines, texts = "\n".join(ids), "\n".join(args)
        if len(texts) > count * (LARGE + 1):
            return False
        if lines.count("\n") != count - 1 or texts.count("\n") != count - 1 or not all(map(lt, ids, ids[1:])):
            return False
        if oldest == first:
            self.execute("sheaves.reserve", (_reserved(first),))
        self.execute("sheaves.bind", (first, count, rank, *shared, ids[-1], lines, texts))
        self._sheaves.some = True
        return True

    def unbind(self) -> bool:
        """Write what is bound as runs of their own; tell whether there was any."""
        if self._sheaves.some is not False:
            self._sheaves.some = _is_any(self.raw)
        if not self._sheaves.some:
            return False
        if self._sheaves.hurried:
            raise NotHereError
        unbind_all(self)
        self._sheaves.some = False
        return True


def begin_whole(db: sqlite3.Connection, unbind: Callable[[], None]) -> bool:
    """Begin a snapshot in which nothing is bound, and tell whether there is one. Raises what `unbind` does."""
    for _ in range(TRIES):
        db.execute("BEGIN")
        if not _is_any(db):
            return True
        # Race: by the next snapshot others may have bound more.
        db.execute("COMMIT")
        unbind()
    db.execute("BEGIN")
    return not _is_any(db)


def _is_any(db: sqlite3.Connection) -> bool:
    return bool(db.execute(TEXTS["sheaves.is_any"]).fetchone()[0])


def unbind_all(db: SQLiteDatabase) -> None:
    """Write what is bound, if anything, as runs of their own."""
    first = last = 0
    for first_of_it, count, rank, *shared, ids, args in db.execute("sheaves.bound").fetchall():
        own = chain.from_iterable(zip(ids.split("\n"), args.split("\n"), strict=True))
        db.insert_alike("submitting.insert_alike", count, first_of_it, rank, tuple(shared), list(own))
        first, last = first or first_of_it, first_of_it + count - 1
    if first:
        db.execute("sheaves.put_ready", (first, last))
        db.execute("sheaves.clear")
        db.execute("sheaves.unreserve", (first - 1, _reserved(first)))


def _reserved(first: int) -> int:
    """Return the last number that runs which are bound from `first` on can have."""
    return first + MOST - 1
