"""The books of sessions, kept in their table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laneway.core.queue.sessions import SessionBook
from laneway.core.records.policy import NO_RULE, Rule
from laneway.stores.tables.rows import session_row
from laneway.stores.tables.rows.settings import ruled_sessions
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.stored_ledger import StoredLedger

_SQL = sql_names("counts")


class SessionCounts(StoredLedger[str, SessionBook]):
    """The books of the sessions that were asked for. `ruled`: operators may have set something of sessions."""

    def __init__(self, db: Database, cache: StepCache | None = None, *, ruled: bool = True) -> None:
        self._cache = cache or StepCache()
        super().__init__(SessionBook, self._cache.sessions)
        self._db, self._ask = db, ruled
        self._ruled: dict[str, tuple[Rule, bool]] = {}

    def made(self, key: str) -> SessionBook:
        """Return an idle session."""
        return self._as_ruled(key, SessionBook())

    def emptied(self, key: str) -> None:
        """Begin anew, with what operators have set; its places count from 1 again."""
        was, book = self[key], SessionBook()
        if was.paused or was.ruled != NO_RULE:
            session_row.ruled(book, was.ruled, paused=was.paused)
        self[key] = self._known[key] = book

    def changes(self) -> tuple[list[Row], list[Row], list[str]]:
        """Return the rows to insert, those to write over, and the names of those to delete."""
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[str] = []
        rows, row_of = self._rows, session_row.row_of
        for name, book in self.items():
            was, row = rows.get(name), row_of(name, book)
            if row is None:
                if was is not None:
                    gone.append(name)
                    del rows[name]
            elif was is None:
                new.append(row)
                rows[name] = row
            elif row != was:
                changed.append(row)
                rows[name] = row
        return new, changed, gone

    def write(self) -> None:
        """Write back what changed."""
        new, changed, gone = self.changes()
        new.sort()  # by name, as they stand in the table
        changed.sort()
        self._db.insert(_SQL["set_session"], new, changed)
        self._db.each(_SQL["drop_session"], [(name,) for name in gone])

    def _read(self, names: set[str]) -> Callable[[], Iterator[tuple[str, SessionBook, Row]]]:
        self._cache.rows += len(names)
        sessions = self._db.execute(_SQL["sessions"], (as_json(names),))

        def rows() -> Iterator[tuple[str, SessionBook, Row]]:
            if self._ask:
                self._ruled |= ruled_sessions(self._db, names)
            for row in sessions:
                name = row[0]
                yield name, self._as_ruled(name, session_row.opened(*row[1:])), row

        return rows

    def _as_ruled(self, name: str, book: SessionBook) -> SessionBook:
        if name in self._ruled:
            rule, paused = self._ruled[name]
            session_row.ruled(book, rule, paused=paused)
        return book
