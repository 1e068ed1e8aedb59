"""The books of sessions, kept in their table, and how far each has come with what it held.

Of what a session held, the rows of runs that it has let in lie far apart from those of other sessions, so one by one
they would cost a page each when they are deleted. They stay until a place is passed that can be divided by sixteen, or
nothing is held any more, and the session's row tells how far it has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from laneway.core.policy import NO_RULE, Rule
from laneway.core.sessions import SessionBook
from laneway.stores.tables import rosters
from laneway.stores.tables.database import Database
from laneway.stores.tables.ledgers import StoredLedger
from laneway.stores.tables.remembering import Memory
from laneway.stores.tables.rules import ruled_sessions
from laneway.stores.tables.statements import Row, as_json, sql_names

_SQL = sql_names("ledgers")
_TOGETHER = 16  # rows of held runs that are deleted at once


class SessionBooks(StoredLedger[str, SessionBook]):
    """The books of the sessions that were asked for. `ruled`: operators may have set something of sessions.

    The last column of a session's row is the place that it has `passed`: the rows of what it held at a place from 1 to
    there are of runs that it has let in, and will be deleted together. *Invariant*: a session that holds nothing has
    no such rows, because without its row they would be taken for what is held.
    """

    def __init__(self, db: Database, memory: Memory | None = None, *, ruled: bool = True) -> None:
        self._memory = memory or Memory()
        super().__init__(SessionBook, self._stored, rosters.row_of, self._memory.sessions)
        self._db, self._ask = db, ruled
        self._ruled: dict[str, tuple[Rule, bool]] = {}
        self.started: Set[int] = frozenset()  # the runs that this transaction has leased
        self.passing: dict[str, int] = {}  # what this transaction has changed of `passed`: 0 once the rows are deleted

    def made(self, key: str) -> SessionBook:
        """Return an idle session."""
        return self._as_ruled(key, SessionBook())

    def emptied(self, key: str) -> None:
        """Begin anew, with what operators have set; its places count from 1 again."""
        self._tidy(key)
        was, book, row = self[key], SessionBook(), self._rows.get(key)
        if row is not None and row[-1]:
            # What is held from now on may be looked for in the tables before the session's row is written.
            self._db.execute(_SQL["pass_nothing"], (key,))
        if was.paused or was.ruled != NO_RULE:
            rosters.ruled(book, was.ruled, paused=was.paused)
        self[key] = self._known[key] = book

    def changes(self) -> tuple[list[Row], list[str]]:
        """Return the rows that must be written, and the names of those that must be deleted.

        Of a session of which nothing has changed but that its unstarted run was started, the lease tells: who reads the
        session looks whether that run has been started since.
        """
        written: list[Row] = []
        gone: list[str] = []
        rows, started, passing = self._rows, self.started, self.passing
        for name, book in self.items():
            was = rows.get(name)
            passed = passing.get(name, 0 if was is None else was[-1])
            if passed and not book.held:
                passed = self._tidy(name)
            row = rosters.row_of(name, book, passed)
            if row is None:
                if was is not None:
                    gone.append(name)
                    del rows[name]
            elif row != was:
                rows[name] = row
                if was is None or was[2] not in started or row != (*was[:2], 0, *was[3:]):
                    written.append(row)
        return written, gone

    def write(self) -> None:
        """Write back what changed."""
        written, gone = self.changes()
        written.sort()  # by name, as they stand in the table
        self._db.insert(_SQL["set_session"], written)
        self._db.each(_SQL["drop_session"], [(name,) for name in gone])
        self.passing.clear()

    def passed(self, name: str) -> int:
        """Return the place that a session has passed."""
        self[name]  # its row is read
        row = self._rows.get(name)
        return self.passing.get(name, 0 if row is None else row[-1])

    def let_in(self, name: str, first: int, place: int, *, may_stay: bool) -> bool:
        """Take note that a session let in what it held from one place to another; tell whether the rows stay."""
        row = self._rows.get(name)
        passed: int = self.passing.get(name, 0 if row is None else row[-1])
        if may_stay and self[name].held and (passed or first - 1) // _TOGETHER == place // _TOGETHER:
            self.passing[name] = place
            return True
        if place >= passed:  # what came back to the front is deleted alone
            self.passing[name] = 0
        return False

    def _tidy(self, name: str) -> int:
        """Delete the rows of what a session has let in; return what it has passed then."""
        if passed := self.passed(name):
            self._db.execute(_SQL["drop_passed"], (name, passed))
            self.passing[name] = 0
        return 0

    def _stored(self, names: set[str]) -> Callable[[], Iterator[tuple[str, SessionBook, Row]]]:
        self._memory.rows += len(names)
        sessions = self._db.execute(_SQL["sessions"], (as_json(names),))

        def rows() -> Iterator[tuple[str, SessionBook, Row]]:
            if self._ask:
                self._ruled |= ruled_sessions(self._db, names)
            for row in sessions:
                name = row[0]
                yield name, self._as_ruled(name, rosters.opened(*row[1:-1])), row

        return rows

    def _as_ruled(self, name: str, book: SessionBook) -> SessionBook:
        if name in self._ruled:
            rule, paused = self._ruled[name]
            rosters.ruled(book, rule, paused=paused)
        return book
