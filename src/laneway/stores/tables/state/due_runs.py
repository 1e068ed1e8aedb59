"""The future shelf over its table: a transaction takes the runs that are due, and puts runs for later."""

from __future__ import annotations

from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import Key
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("shelves")
_FEW = 8  # rarely are more due at once
FIRST = Query(_SQL["first_due"], (), _FEW)  # can be prefetched: it does not need the time


class DueRuns:
    """The changes of one transaction to the future shelf, written at its end."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._put: list[RunRow] = []
        self._taken_to: Key | None = None
        self._left: int | None = None  # when the first run after those that were taken is due
        self.removed = False  # a run was removed before its turn

    def put(self, run: RunRow, due_at: int) -> None:
        """Keep the run until its due time."""
        run.rank = due_at
        self._put.append(run)

    def take(self, now: int, limit: int) -> tuple[list[RunRow], bool]:
        """Take up to `limit` runs that are due; return them, and whether more are due."""
        # Invariant: called before this transaction puts anything there, so the table has all due runs.
        rows, more = self._db.page(FIRST.name, FIRST.values, _FEW)
        found = [RunRow(*row) for row in rows]
        if more and found[-1].rank <= now:
            found, later = self._read_all(now, limit + 1)
        else:
            later = next((run.rank for run in found if run.rank > now), None)
            found = [run for run in found if run.rank <= now]
        runs = found[:limit]
        if runs:
            self._taken_to = runs[-1].rank, runs[-1].number
            self._left = found[limit].rank if len(found) > limit else later
        return runs, len(found) > limit

    def _read_all(self, now: int, limit: int) -> tuple[list[RunRow], int | None]:
        """Return up to `limit` runs that are due, and the due time of the first that is not due."""
        after = Query(_SQL["due_after"], (now,))
        self._db.expect(Query(_SQL["due"], (now, limit)), after)
        found = [RunRow(*row) for row in self._db.execute(_SQL["due"], (now, limit)).fetchall()]
        [[later]] = self._db.execute(after.name, after.values).fetchall()
        return found, later

    @property
    def is_changed(self) -> bool:
        """Whether runs were put, taken or removed."""
        return bool(self._put) or self._taken_to is not None or self.removed

    def first(self, before: int | None) -> int | None:
        """Return the first due time after `write`, if none was removed; `before` is the first of the table."""
        first = before if self._taken_to is None else self._left
        return min((rank for rank in (first, *(run.rank for run in self._put)) if rank is not None), default=None)

    def write(self) -> None:
        """Write the net effect."""
        if self._taken_to is not None:
            self._db.execute(_SQL["drop_due"], self._taken_to)
        self._db.insert(_SQL["put_due"], [(run.rank, run.number, run.kind, run.session) for run in self._put])
