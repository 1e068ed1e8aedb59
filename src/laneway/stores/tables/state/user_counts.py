"""The counts of a lane's users, in tables: turns and seats."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laneway.core.queue.turns import Seat, Turn
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.stored_ledger import StoredLedger

TurnKey = tuple[str | None, int]  # user, priority

_SQL = sql_names("counts")


class TurnLedger(StoredLedger[TurnKey, Turn]):
    """The turns of a lane."""

    def __init__(self, db: Database, lane: str) -> None:
        super().__init__(Turn)
        self._db, self._lane = db, lane

    def write(self) -> None:
        """Write back what changed."""
        db, lane = self._db, self._lane
        turns, changed, gone = self.changes()
        db.insert(_SQL["set_turn"], turns, changed)
        if gone:
            db.each(_SQL["drop_turn"], [(lane, user, priority) for user, priority in gone if user is not None])
            # The row of runs without a user may stay when none of them waits.
            waited = [key for key in gone if key[0] is None and self._rows[key][-1]]
            db.each(_SQL["rest_turn"], [(lane, priority) for _, priority in waited])

    def _row(self, key: TurnKey, value: Turn) -> Row | None:
        user, priority = key
        return (self._lane, user or "", priority, value.last, value.waiting) if value.waiting else None

    def _read(self, keys: set[TurnKey]) -> Callable[[], Iterator[tuple[TurnKey, Turn, Row]]]:
        lane, asked = self._lane, turn_query(self._lane, {user or "" for user, _ in keys})
        turns = self._db.execute(asked.name, asked.values)

        def rows() -> Iterator[tuple[TurnKey, Turn, Row]]:
            for user, priority, last, waiting in turns:
                yield (user or None, priority), Turn(last, waiting), (lane, user, priority, last, waiting)

        return rows


class SeatLedger(StoredLedger[str, Seat]):
    """The seats of a lane. `caps` are the users' own caps; `capped`: some users have one."""

    def __init__(self, db: Database, lane: str, *, capped: bool) -> None:
        super().__init__(Seat)
        self._db, self._lane, self._capped = db, lane, capped
        self.caps: dict[str, int] = {}

    def write(self) -> None:
        """Write back what changed."""
        seats, changed, gone = self.changes()
        self._db.insert(_SQL["set_seat"], seats, changed)
        self._db.each(_SQL["drop_seat"], [(self._lane, user) for user in gone])

    def _row(self, key: str, value: Seat) -> Row | None:
        return None if value.idle else (self._lane, key, value.active, value.parked, value.out)

    def _read(self, keys: set[str]) -> Callable[[], Iterator[tuple[str, Seat, Row]]]:
        lane, wanted = self._lane, (self._lane, as_json(keys))
        # A cap is only needed together with its seat.
        caps = self._db.execute(_SQL["caps"], wanted) if self._capped else ()
        seats = self._db.execute(_SQL["seats"], wanted)

        def rows() -> Iterator[tuple[str, Seat, Row]]:
            self.caps.update(caps)
            for user, *counts in seats:
                yield user, Seat(*counts), (lane, user, *counts)

        return rows


def turn_query(lane: str, users: set[str]) -> Query:
    """Return the query for the turns of these users."""
    return Query(_SQL["turns"], (lane, as_json(users)))
