"""Write the pieces of another store into the tables. Rows that exist already stay as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from laneway.core.queue.circuits import named
from laneway.core.queue.shelves import Shelf
from laneway.core.records.policy import Lane
from laneway.core.transfer.pieces import (
    Cap,
    CircuitIn,
    Counters,
    Disabled,
    JobIn,
    KeyIn,
    LaneIn,
    Mark,
    PausedIn,
    Piece,
    Place,
    RunIn,
    SeatIn,
    SessionIn,
    SessionRule,
    TurnIn,
)
from laneway.stores.tables.rows import session_row
from laneway.stores.tables.rows.jobs import as_text
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, sql_names
from laneway.stores.tables.transfer import phases
from laneway.stores.tables.transfer.unpack_runs import key_row, put_runs

_SQL = sql_names("unpack")
Rows = dict[str, list[Row]]  # by statement, in the order in which they are to be written


def unpack(db: Database, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
    """Write these pieces; see `MovingStore.unpack`."""
    phases.remember(db, move, mark)
    put_runs(db, [piece for piece in pieces if isinstance(piece, RunIn)])
    rows: Rows = defaultdict(list)
    for piece in pieces:
        if isinstance(piece, Counters):
            db.execute(_SQL["set_counters"], (piece.accepted, piece.jobs_at))
        elif not isinstance(piece, RunIn):
            for name, row in _WRITERS[type(piece)](piece):
                rows[name].append(row)
    for name, found in rows.items():
        if name == "set_rank":
            db.each(_SQL[name], found)
        else:
            db.insert(_SQL[name], found)


Written = Iterable[tuple[str, Row]]


def _lane(piece: LaneIn) -> Written:
    lane, counts = piece.lane, (piece.paused, piece.active, piece.pending)
    holds = (lane.limit, lane.per_user, lane.worker_limit, lane.max_pending, str(lane.when_full))
    yield "put_lane", (lane.name, *holds, _text(piece.declared), _text(piece.ruled), *counts)
    yield from (("put_pace", (lane.name, *pace)) for pace in piece.paces)
    yield from (("put_lane_count", (lane.name, what, count)) for what, count in piece.counts.items())


def _session(piece: SessionIn) -> Written:
    row = session_row.row_of(piece.name, piece.book)
    return [("put_session", row)] if row is not None else []


def _job(piece: JobIn) -> Written:
    job, spec = piece.job, piece.job.spec
    found_by = (job.id, spec.owner, spec.name, spec.task, spec.source.value, job.is_on, job.state.fire_at)
    facts = (job.version, job.call, job.created_at, job.changed_at)
    yield "put_job", (*found_by, *facts, as_text(spec), as_text(job.state))
    yield from (("put_fire", (job.id, fire.nth, fire.run_id, as_text(fire))) for fire in piece.fires)


def _place(piece: Place) -> Written:
    place, number = (piece.rank, piece.number, piece.kind), piece.number
    shelf = Shelf(piece.shelf)
    if shelf is Shelf.READY:
        yield "put_ready", (piece.owner, *place)
    elif shelf is Shelf.PARKED:
        yield "put_parked", (piece.owner, piece.gate, *place)
    elif shelf is Shelf.HELD:
        yield "put_held", (piece.owner, *place, piece.paused)
    else:
        yield "put_due", (*place, piece.owner)
    yield "set_rank", (piece.rank, number)


_WRITERS: dict[type, Callable[[Any], Written]] = {
    LaneIn: _lane,
    Cap: lambda piece: [("put_cap", (piece.user, piece.lane, piece.cap))],
    PausedIn: lambda piece: [("put_paused", (piece.what, piece.name))],
    Disabled: lambda piece: [("put_disabled", (piece.task,))],
    SessionRule: lambda piece: [("put_session_rule", (piece.name, _text(piece.rule)))],
    CircuitIn: lambda piece: [("put_circuit", (piece.key, named(piece.key)[0], piece.failures, piece.until))],
    TurnIn: lambda piece: [("put_turn", (piece.lane, piece.user or "", piece.priority, piece.last, piece.waiting))],
    SeatIn: lambda piece: [("put_seat", (piece.lane, piece.user, piece.active, piece.parked, piece.out))],
    SessionIn: _session,
    JobIn: _job,
    KeyIn: lambda piece: [("put_key", key_row(piece, piece.run_id, piece.number, gone=True))],
    Place: _place,
}


def _text(value: Lane | msgspec.Struct | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
