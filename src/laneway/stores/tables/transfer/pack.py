"""Read everything in the tables, in pages of pieces (`core.transfer.pieces`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from laneway.core.queue.shelves import Shelf
from laneway.core.records.policy import Lane, Rule
from laneway.core.transfer.pieces import (
    Cap,
    CircuitIn,
    Counters,
    Disabled,
    JobIn,
    KeyIn,
    LaneIn,
    Mark,
    Page,
    PausedIn,
    Piece,
    Place,
    SeatIn,
    SessionIn,
    SessionRule,
    TurnIn,
    page_of,
)
from laneway.stores.tables.rows import session_row
from laneway.stores.tables.rows.jobs import as_job, decode_fire
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state.lane_counts import lane_of
from laneway.stores.tables.transfer.pack_runs import runs

_SQL = sql_names("pack")
_LEAST = -(2**62)  # before every rank
_lane = msgspec.json.Decoder(Lane).decode
_rule = msgspec.json.Decoder(Rule).decode
_key = msgspec.json.Decoder(list[Any]).decode

Found = tuple[Sequence[Piece], list[Any] | None]  # pieces, and the key of the last one if more may exist


def page(db: Database, after: Mark, limit: int) -> Page:
    """Return the next pieces after a mark; see `MovingStore.pack`."""
    part, key = after
    pieces, last = _PARTS[part](db, _key(key) if key else [], limit)
    return page_of(part, pieces, None if last is None else msgspec.json.encode(last).decode())


def _settings(db: Database, _: list[Any], __: int) -> Found:
    [row] = db.execute(_SQL["counters"]).fetchall()
    found: list[Piece] = [Counters(accepted=row[0], jobs_at=row[1]), *_lanes(db)]
    found += [Cap(user=user, lane=lane, cap=cap) for user, lane, cap in db.execute(_SQL["caps"])]
    found += [PausedIn(what=what, name=name) for what, name in db.execute(_SQL["paused"])]
    found += [Disabled(task=task) for (task,) in db.execute(_SQL["disabled"])]
    found += [SessionRule(name=name, rule=_rule(rule)) for name, rule in db.execute(_SQL["rules"])]
    circuits = db.execute(_SQL["circuits"])
    found += [CircuitIn(key=key, failures=failures, until=until) for key, failures, until in circuits]
    return found, None


def _lanes(db: Database) -> list[LaneIn]:
    paces: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for lane, *pace in db.execute(_SQL["paces"]):
        paces[lane].append(tuple(pace))
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for lane, what, count in db.execute(_SQL["counts"]):
        counts[lane][what] = count
    return [
        LaneIn(
            lane=lane_of(name, *holds),
            declared=None if declared is None else _lane(declared),
            ruled=None if ruled is None else _lane(ruled),
            paused=bool(paused),
            active=active,
            pending=pending,
            paces=tuple(paces[name]),
            counts=counts[name],
        )
        for name, *holds, declared, ruled, paused, active, pending in db.execute(_SQL["lanes"])
    ]


def _turns(db: Database, key: list[Any], limit: int) -> Found:
    rows = db.execute(_SQL["turns"], (*(key or ("", "", _LEAST)), limit)).fetchall()
    pieces = [
        TurnIn(lane=lane, user=user or None, priority=priority, last=last, waiting=waiting)
        for lane, user, priority, last, waiting in rows
    ]
    return pieces, _last(rows, 3, limit)


def _seats(db: Database, key: list[Any], limit: int) -> Found:
    rows = db.execute(_SQL["seats"], (*(key or ("", "")), limit)).fetchall()
    pieces = [SeatIn(lane=lane, user=user, active=on, parked=off, out=out) for lane, user, on, off, out in rows]
    return pieces, _last(rows, 2, limit)


def _sessions(db: Database, key: list[Any], limit: int) -> Found:
    rows = db.execute(_SQL["sessions"], (*(key or ("",)), limit)).fetchall()
    return [SessionIn.of(name, session_row.opened(*book)) for name, *book in rows], _last(rows, 1, limit)


def _jobs(db: Database, key: list[Any], limit: int) -> Found:
    rows = db.execute(_SQL["jobs"], (*(key or ("",)), limit)).fetchall()
    fires = defaultdict(list)
    if rows:
        for job, record in db.execute(_SQL["fires"], (rows[0][0], rows[-1][0])):
            fires[job].append(decode_fire(record))
    return [JobIn(job=as_job(row), fires=tuple(fires[row[0]])) for row in rows], _last(rows, 1, limit)


def _keys(db: Database, key: list[Any], limit: int) -> Found:
    rows = db.execute(_SQL["keys"], (*(key or ("", "", "")), limit)).fetchall()
    pieces = [
        KeyIn(task=task, user=user or None, key=name, digest=digest, at=at, run_id=run_id, number=number)
        for task, user, name, digest, at, run_id, number in rows
    ]
    return pieces, _last(rows, 3, limit)


# Per shelf: a key before all others, and how a row becomes a piece.
_SHELVES: dict[Shelf, tuple[tuple[Any, ...], Callable[..., Place]]] = {
    Shelf.READY: (
        ("", _LEAST, 0),
        lambda lane, rank, number, kind: Place(
            number=number, shelf=Shelf.READY.value, rank=rank, kind=kind, owner=lane
        ),
    ),
    Shelf.PARKED: (
        ("", "", _LEAST, 0),
        lambda lane, gate, rank, number, kind: Place(
            number=number, shelf=Shelf.PARKED.value, rank=rank, kind=kind, owner=lane, gate=gate
        ),
    ),
    Shelf.HELD: (
        ("", _LEAST, 0),
        lambda session, rank, number, kind, paused: Place(
            number=number, shelf=Shelf.HELD.value, rank=rank, kind=kind, owner=session, paused=bool(paused)
        ),
    ),
    Shelf.DUE: (
        (_LEAST, 0),
        lambda rank, number, kind, session: Place(
            number=number, shelf=Shelf.DUE.value, rank=rank, kind=kind, owner=session
        ),
    ),
}
_ORDER = tuple(_SHELVES)


def _places(db: Database, key: list[Any], limit: int) -> Found:
    shelf = Shelf(key[0]) if key else _ORDER[0]
    first, piece_of = _SHELVES[shelf]
    rows = db.execute(_SQL[shelf.value], (*(key[1:] or first), limit)).fetchall()
    pieces = [piece_of(*row) for row in rows]
    last = _last(rows, len(first), limit)
    if last is not None:
        return pieces, [shelf.value, *last]
    following = _ORDER[_ORDER.index(shelf) + 1 :]
    return pieces, [following[0].value] if following else None


def _last(rows: Sequence[Sequence[Any]], length: int, limit: int) -> list[Any] | None:
    """Return the key of the last row, its first `length` columns, if more rows may exist."""
    return list(rows[-1][:length]) if rows and len(rows) >= limit else None


_PARTS: dict[str, Callable[[Database, list[Any], int], Found]] = {
    "settings": _settings,
    "turns": _turns,
    "seats": _seats,
    "sessions": _sessions,
    "jobs": _jobs,
    "keys": _keys,
    "runs": runs,
    "places": _places,
}
