"""The counts of sessions, in their table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laneway.core.queue.sessions import SessionBook
from laneway.core.records.policy import NO_RULE, Rule
from laneway.stores.tables.rows import session_row
from laneway.stores.tables.rows.settings import ruled_sessions
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.stored_ledger import StoredLedger

_SQL = sql_names("counts")


class SessionCounts(StoredLedger[str, SessionBook]):
    """The `SessionBook`s of the sessions in use, by name. `ruled`: sessions may have operator settings."""

    def __init__(self, db: Database, *, ruled: bool = True) -> None:
        super().__init__(SessionBook)
        self._db, self._ask = db, ruled
        self._ruled: dict[str, tuple[Rule, bool]] = {}

    def made(self, key: str) -> SessionBook:
        """Return an idle session."""
        return self._as_ruled(key, SessionBook())

    def emptied(self, key: str) -> None:
        """Replace the session by a new one with the same operator settings; its places count from 1 again."""
        was, book = self[key], SessionBook()
        if was.paused or was.ruled != NO_RULE:
            session_row.ruled(book, was.ruled, paused=was.paused)
        self[key] = book

    def write(self) -> None:
        """Write back what changed."""
        new, changed, gone = self.changes()
        new.sort()  # the order of the table
        changed.sort()
        self._db.insert(_SQL["set_session"], new, changed)
        self._db.each(_SQL["drop_session"], [(name,) for name in gone])

    def _row(self, key: str, value: SessionBook) -> Row | None:
        return session_row.row_of(key, value)

    def _read(self, keys: set[str]) -> Callable[[], Iterator[tuple[str, SessionBook, Row]]]:
        sessions = self._db.execute(_SQL["sessions"], (as_json(keys),))

        def rows() -> Iterator[tuple[str, SessionBook, Row]]:
            if self._ask:
                self._ruled |= ruled_sessions(self._db, keys)
            for row in sessions:
                name = row[0]
                yield name, self._as_ruled(name, session_row.opened(*row[1:])), row

        return rows

    def _as_ruled(self, name: str, book: SessionBook) -> SessionBook:
        if name in self._ruled:
            rule, paused = self._ruled[name]
            session_row.ruled(book, rule, paused=paused)
        return book
