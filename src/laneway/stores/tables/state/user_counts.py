"""The counts of a lane's users, kept in their tables: whose turn it is, and who has a seat."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laneway.core.queue.turns import Seat, Turn
from laneway.stores.tables.runtime.step_cache import Known, StepCache, TurnKey
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.stored_ledger import StoredLedger

_SQL = sql_names("counts")


class TurnLedger(StoredLedger[TurnKey, Turn]):
    """The turns of a lane."""

    def __init__(self, db: Database, cache: StepCache, lane: str) -> None:
        super().__init__(Turn, cache.turns.setdefault(lane, Known()))
        self._db, self._cache, self._lane = db, cache, lane

    def changes(self) -> tuple[list[Row], list[Row], list[TurnKey]]:
        """Return what must be written. Who asks for a turn changes it, so none is compared with what it was."""
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[TurnKey] = []
        rows, lane = self._rows, self._lane
        for key, turn in self.items():
            waiting = turn.waiting
            if waiting:
                user, priority = key
                row = lane, user or "", priority, turn.last, waiting
                if key in rows:
                    changed.append(row)
                else:
                    new.append(row)
                    rows[key] = row
            elif key in rows:
                gone.append(key)
                del rows[key]
        return new, changed, gone

    def write(self) -> None:
        """Write back what changed."""
        db, lane = self._db, self._lane
        turns, changed, gone = self.changes()
        db.insert(_SQL["set_turn"], turns, changed)
        if gone:
            db.each(_SQL["drop_turn"], [(lane, user, priority) for user, priority in gone if user is not None])
            db.each(_SQL["rest_turn"], [(lane, priority) for user, priority in gone if user is None])

    def _read(self, keys: set[TurnKey]) -> Callable[[], Iterator[tuple[TurnKey, Turn, Row]]]:
        self._cache.rows += len(keys)
        lane, asked = self._lane, turn_query(self._lane, {user or "" for user, _ in keys})
        turns = self._db.execute(asked.name, asked.values)

        def rows() -> Iterator[tuple[TurnKey, Turn, Row]]:
            for user, priority, last, waiting in turns:
                yield (user or None, priority), Turn(last, waiting), (lane, user, priority, last, waiting)

        return rows


class SeatLedger(StoredLedger[str, Seat]):
    """The seats of a lane. `caps` is where to keep those of its users; `capped`: some have one of their own."""

    def __init__(self, db: Database, cache: StepCache, lane: str, caps: dict[str, int], *, capped: bool) -> None:
        super().__init__(Seat, cache.seats.setdefault(lane, Known()))
        self._db, self._cache, self._lane, self.caps, self._capped = db, cache, lane, caps, capped

    def changes(self) -> tuple[list[Row], list[Row], list[str]]:
        """Return what must be written: of a user who is at the cap all the time, little changes."""
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[str] = []
        rows, lane = self._rows, self._lane
        for user, seat in self.items():
            active, parked, out = seat.active, seat.parked, seat.out
            was = rows.get(user)
            if active or parked or out:
                row = lane, user, active, parked, out
                if row != was:
                    (new if was is None else changed).append(row)
                    rows[user] = row
            elif was is not None:
                gone.append(user)
                del rows[user]
        return new, changed, gone

    def write(self) -> None:
        """Write back what changed."""
        seats, changed, gone = self.changes()
        self._db.insert(_SQL["set_seat"], seats, changed)
        self._db.each(_SQL["drop_seat"], [(self._lane, user) for user in gone])

    def _read(self, users: set[str]) -> Callable[[], Iterator[tuple[str, Seat, Row]]]:
        lane, wanted = self._lane, (self._lane, as_json(users))
        self._cache.rows += len(users)
        # Nobody is asked about whose seat was not read.
        caps = self._db.execute(_SQL["caps"], wanted) if self._capped else ()
        seats = self._db.execute(_SQL["seats"], wanted)

        def rows() -> Iterator[tuple[str, Seat, Row]]:
            self.caps.update(caps)
            for user, *counts in seats:
                yield user, Seat(*counts), (lane, user, *counts)

        return rows


def turn_query(lane: str, users: set[str]) -> Query:
    """Return what is asked of the turns of these users."""
    return Query(_SQL["turns"], (lane, as_json(users)))
