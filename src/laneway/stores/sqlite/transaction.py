"""One atomic piece of work: the core's flow over this store's tables, while the write lock is held.

A verb makes one, lets the rules run, and calls `write`. Nothing in it outlives the verb.
"""

from __future__ import annotations

import sqlite3

from laneway.core.flow import MOST_MOVES, Flow
from laneway.core.turns import AGAIN
from laneway.stores.sqlite.ledgers import Books
from laneway.stores.sqlite.lines import Line
from laneway.stores.sqlite.shelves import Shelves


class Transaction:
    """The flow over its books and shelves."""

    def __init__(self, db: sqlite3.Connection, now: int) -> None:
        self.db, self.now = db, now
        self.books = Books(db)
        self.shelves = Shelves(db, self.books)
        self.flow: Flow[Line] = Flow(self.shelves, self.books.lanes, self.books.sessions)

    def make_due(self) -> bool:
        """Make due runs startable, a bounded number of them; return whether more are due."""
        due, more = self.shelves.take_due(self.now, MOST_MOVES)
        for run in due:
            if run.kind & AGAIN:
                self.flow.rejoin(run)
            else:
                self.flow.join(run, run.max_concurrent)
        return more

    def write(self) -> None:
        """Write back what the rules changed."""
        self.shelves.write()
        self.books.write()
