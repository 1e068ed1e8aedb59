"""Unpacking: pieces that another store had, taken into the memory store. What is there already stays as it is."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from laneway.core.common.keys import KeyEntry
from laneway.core.moving.pieces import (
    Cap,
    CircuitIn,
    Counters,
    Disabled,
    JobIn,
    KeyIn,
    LaneIn,
    Paused,
    Piece,
    Place,
    RunIn,
    SeatIn,
    SessionIn,
    SessionRule,
    TurnIn,
)
from laneway.core.queue.shelves import Shelf
from laneway.core.queue.turns import AGAIN, FRESH, LaneBook, Ledger, Pace, Seat, Turn, Turns
from laneway.core.records.breakers import Circuit
from laneway.core.records.events import TRIMMED
from laneway.core.records.run import Request
from laneway.core.records.states import RunState
from laneway.ports.gates import Held
from laneway.stores.memory.kept import Kept
from laneway.stores.memory.packing import SAME
from laneway.stores.memory.records import Batch, Record


def unpack(kept: Kept, pieces: Sequence[Piece]) -> None:
    """Take in these pieces; see `MovingStore.unpack`."""
    for piece in pieces:
        _TAKERS[type(piece)](kept, piece)


def _counters(kept: Kept, piece: Counters) -> None:
    kept.accepted = piece.accepted
    kept.jobs.restart_time(piece.jobs_at)


def _lane(kept: Kept, piece: LaneIn) -> None:
    name = piece.lane.name
    if name in kept.lanes:
        return
    kept.declared[name] = piece.declared or piece.lane
    if piece.ruled is not None:
        kept.ruled_lanes[name] = piece.ruled
    paces = {priority: Pace(v, ready) for priority, v, ready in piece.paces}
    counts = (piece.active, piece.pending)
    kept.lanes[name] = LaneBook(piece.lane, paces, Turns(), Ledger(Seat), *counts, paused=piece.paused)
    kept.counts.update({(name, what): count for what, count in piece.counts.items()})


def _cap(kept: Kept, piece: Cap) -> None:
    kept.caps[piece.user, piece.lane] = piece.cap
    kept.judge_user(piece.user)


def _paused(kept: Kept, piece: Paused) -> None:
    names = {Held.USER: kept.paused_users, Held.SESSION: kept.paused_sessions, Held.TASK: kept.paused_tasks}
    names[Held(piece.what)].add(piece.name)
    if piece.what == Held.USER:
        kept.judge_user(piece.name)


def _rule(kept: Kept, piece: SessionRule) -> None:
    kept.ruled_sessions[piece.name] = piece.rule


def _turn(kept: Kept, piece: TurnIn) -> None:
    kept.lanes[piece.lane].turns[piece.user, piece.priority] = Turn(piece.last, piece.waiting)


def _seat(kept: Kept, piece: SeatIn) -> None:
    kept.lanes[piece.lane].seats[piece.user] = Seat(piece.active, piece.parked, piece.out)


def _session(kept: Kept, piece: SessionIn) -> None:
    made, book = kept.sessions[piece.name], piece.book
    book.ruled, book.paused = made.ruled, made.paused
    book.judge()
    kept.sessions[piece.name] = book


def _key(kept: Kept, piece: KeyIn) -> None:
    kept.keys[piece.task, piece.user, piece.key] = KeyEntry(piece.run_id, piece.number, piece.digest, piece.at)


def _run(kept: Kept, piece: RunIn) -> None:
    if piece.id in kept.by_id:
        return
    run = Record(
        **{name: getattr(piece, name) for name in SAME},
        failure=piece.error,
        request=None if piece.request is None else Request(piece.request),
        kind=AGAIN if piece.fence else FRESH,
        taken=tuple(taken.message for taken in piece.taken),
        messages=len(piece.taken),
        kept=len(piece.memos),
        keyed=tuple((key.task, key.user, key.key) for key in piece.keys),
        trimmed=any(kind == TRIMMED for kind, *_ in piece.log),
    )
    for (attempt, at), rows in groupby(piece.log, key=lambda row: row[1:3]):
        run.log = Batch(attempt, at, tuple((kind, data) for kind, _, _, data in rows), run.log)
    insort(kept.records, run, key=attrgetter("number"))
    kept.by_id[run.id] = run
    kept.takers.update({taken.message.id: run for taken in piece.taken if not taken.moved})
    for key in piece.keys:
        kept.keys[key.task, key.user, key.key] = KeyEntry(run.id, run.number, key.digest, key.at)
    if piece.streamed:
        kept.transient.add(run)
    if run.state is RunState.WAITING:
        kept.heaps.put_deadline(run)


def _place(kept: Kept, piece: Place) -> None:
    run = kept.numbered(piece.number)
    if run.spot:
        return
    run.kind, shelf = piece.kind, Shelf(piece.shelf)
    if shelf is Shelf.HELD:
        kept.heaps.put_held(run, piece.rank)
    elif shelf is Shelf.DUE:
        kept.heaps.put_due(run)
    else:
        run.rank = piece.rank
        if shelf is Shelf.READY:
            kept.heaps.put_ready(run)
        else:
            kept.heaps.put_parked(run, piece.gate or "")


_TAKERS: dict[type, Callable[[Kept, Any], None]] = {
    Counters: _counters,
    LaneIn: _lane,
    Cap: _cap,
    Paused: _paused,
    Disabled: lambda kept, piece: kept.disabled_tasks.add(piece.task),
    SessionRule: _rule,
    CircuitIn: lambda kept, piece: kept.circuits.put(piece.key, Circuit(failures=piece.failures, until=piece.until)),
    TurnIn: _turn,
    SeatIn: _seat,
    SessionIn: _session,
    JobIn: lambda kept, piece: kept.jobs.bring(piece.job, piece.fires),
    KeyIn: _key,
    RunIn: _run,
    Place: _place,
}
