"""The books of sessions, kept in their table, and how far each has come with what it held.

Of what a session held, the rows of runs that it has let in lie far apart from those of other sessions, so one by one
they would cost a page each when they are deleted. They stay until a place is passed that can be divided by sixteen, or
nothing is held any more, and the session's row tells how far it has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from laneway.core.policy import NO_RULE, Rule
from laneway.stores.tables import rosters
from laneway.stores.tables.database import Database
from laneway.stores.tables.ledgers import StoredLedger
from laneway.stores.tables.lines import Shelf
from laneway.stores.tables.remembering import Memory
from laneway.stores.tables.rosters import Roster
from laneway.stores.tables.rules import ruled_sessions
from laneway.stores.tables.statements import Row, as_json, sql_names

_SQL = sql_names("ledgers")
_TOGETHER = 16  # rows of held runs that are deleted at once


class SessionBooks(StoredLedger[str, Roster]):
    """The books of the sessions that were asked for. `ruled`: operators may have set something of sessions.

    The last column of a session's row is the place that it has `passed`: the rows of what it held at a place from 1 to
    there are of runs that it has let in, and will be deleted together. *Invariant*: a session that holds nothing has
    no such rows, because without its row they would be taken for what is held.
    """

    def __init__(self, db: Database, memory: Memory | None = None, *, ruled: bool = True) -> None:
        self._memory = memory or Memory()
        super().__init__(rosters.new, self._memory.sessions)
        self._db, self._ask = db, ruled
        self._ruled: dict[str, tuple[Rule, bool]] = {}

    def made(self, key: str) -> Roster:
        """Return an idle session."""
        return self._as_ruled(key, rosters.new())

    def emptied(self, key: str) -> None:
        """Begin anew, with what operators have set; its places count from 1 again."""
        was, book, row = self[key], rosters.new(), self._rows.get(key)
        self._tidy(key, was)
        if row is not None and row[-1]:
            # What is held from now on may be looked for in the tables before the session's row is written.
            self._db.execute(_SQL["pass_nothing"], (key,))
        if was.paused or was.ruled != NO_RULE:
            rosters.ruled(book, was.ruled, paused=was.paused)
        self[key] = self._known[key] = book

    def changes(self) -> tuple[list[Row], list[Row], list[str]]:
        """Return the rows that are new, those that must be written over, and the names of those that must be deleted.

        Of a session of which nothing has changed but that its unstarted run was started, the lease tells: who reads the
        session looks whether that run has been started since. So what is known of the row is what it says, until
        something else has changed.
        """
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[str] = []
        rows, stored = self._rows, rosters.stored
        for name, book in self.items():
            if not book.held and book.passed:
                self._tidy(name, book)
            was, row = rows.get(name), stored(name, book)
            if row is None:
                if was is not None:
                    gone.append(name)
                    del rows[name]
            elif was is None:
                new.append(row)
                rows[name] = row
            elif row != was and (row[1] != was[1] or not self._has_only_started(row, was)):
                changed.append(row)
                rows[name] = row
        return new, changed, gone

    def _has_only_started(self, row: Row, was: Row) -> bool:
        """Tell whether a session has changed only in that its run was started: by a lease that is remembered."""
        return was[2] in self._memory.leases and row == (*was[:2], 0, *was[3:])

    def write(self) -> None:
        """Write back what changed."""
        new, changed, gone = self.changes()
        new.sort()  # by name, as they stand in the table
        changed.sort()
        self._db.insert(_SQL["set_session"], new, changed)
        self._db.each(_SQL["drop_session"], [(name,) for name in gone])

    def let_in(self, held: Iterable[Shelf], *, last: bool) -> list[Row]:
        """Take note of what sessions let in of what they held; return up to where the rows of each are to be deleted.

        Rows can stay only if this is the `last` that is written before the books are.
        """
        gone: list[Row] = []
        for shelf in held:
            taken = shelf.taken
            [name], first, place = shelf.key, taken[0][0], taken[-1][0]
            book = self[name]
            # Where something was put, too, the session may have begun anew.
            if (
                last
                and first >= 1
                and book.held
                and not shelf.fresh
                and (book.passed or first - 1) // _TOGETHER == place // _TOGETHER
            ):
                book.passed = place
                continue
            gone.append((name, *taken[-1]))
            if place >= book.passed:  # what came back to the front is deleted alone
                book.passed = 0
        return gone

    def _tidy(self, name: str, book: Roster) -> None:
        """Delete the rows of what a session has let in."""
        if book.passed:
            self._db.execute(_SQL["drop_passed"], (name, book.passed))
            book.passed = 0

    def _read(self, names: set[str]) -> Callable[[], Iterator[tuple[str, Roster, Row]]]:
        self._memory.rows += len(names)
        sessions = self._db.execute(_SQL["sessions"], (as_json(names),))

        def rows() -> Iterator[tuple[str, Roster, Row]]:
            if self._ask:
                self._ruled |= ruled_sessions(self._db, names)
            for row in sessions:
                name = row[0]
                yield name, self._as_ruled(name, rosters.opened(*row[1:])), row

        return rows

    def _as_ruled(self, name: str, book: Roster) -> Roster:
        if name in self._ruled:
            rule, paused = self._ruled[name]
            rosters.ruled(book, rule, paused=paused)
        return book
