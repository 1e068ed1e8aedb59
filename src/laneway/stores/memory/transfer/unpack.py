"""Unpacking: pieces that another store had, taken into the memory store. What is there already stays as it is."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from laneway.core.common.keys import KeyEntry
from laneway.core.queue.shelves import Shelf
from laneway.core.queue.turns import AGAIN, FRESH, LaneBook, Ledger, Seat, Turn, Turns, VirtualTime
from laneway.core.records.breakers import Circuit
from laneway.core.records.events import TRIMMED
from laneway.core.records.run import Request
from laneway.core.records.states import RunState
from laneway.core.transfer.pieces import (
    Cap,
    CircuitIn,
    Counters,
    Disabled,
    JobIn,
    KeyIn,
    LaneIn,
    PausedIn,
    Piece,
    Place,
    RunIn,
    SeatIn,
    SessionIn,
    SessionRule,
    TurnIn,
)
from laneway.ports.gates import Held
from laneway.stores.memory.state.records import EventBatch, RunRecord
from laneway.stores.memory.state.state import MemoryState
from laneway.stores.memory.transfer.pack import SAME


def unpack(state: MemoryState, pieces: Sequence[Piece]) -> None:
    """Take in these pieces; see `MovingStore.unpack`."""
    for piece in pieces:
        _TAKERS[type(piece)](state, piece)


def _counters(state: MemoryState, piece: Counters) -> None:
    state.accepted = piece.accepted
    state.jobs.restart_time(piece.jobs_at)


def _lane(state: MemoryState, piece: LaneIn) -> None:
    name = piece.lane.name
    if name in state.lanes:
        return
    state.declared[name] = piece.declared or piece.lane
    if piece.ruled is not None:
        state.ruled_lanes[name] = piece.ruled
    paces = {priority: VirtualTime(v, ready) for priority, v, ready in piece.paces}
    counts = (piece.active, piece.pending)
    state.lanes[name] = LaneBook(piece.lane, paces, Turns(), Ledger(Seat), *counts, paused=piece.paused)
    state.counts.update({(name, what): count for what, count in piece.counts.items()})


def _cap(state: MemoryState, piece: Cap) -> None:
    state.caps[piece.user, piece.lane] = piece.cap
    state.judge_user(piece.user)


def _paused(state: MemoryState, piece: PausedIn) -> None:
    names = {Held.USER: state.paused_users, Held.SESSION: state.paused_sessions, Held.TASK: state.paused_tasks}
    names[Held(piece.what)].add(piece.name)
    if piece.what == Held.USER:
        state.judge_user(piece.name)


def _rule(state: MemoryState, piece: SessionRule) -> None:
    state.ruled_sessions[piece.name] = piece.rule


def _turn(state: MemoryState, piece: TurnIn) -> None:
    state.lanes[piece.lane].turns[piece.user, piece.priority] = Turn(piece.last, piece.waiting)


def _seat(state: MemoryState, piece: SeatIn) -> None:
    state.lanes[piece.lane].seats[piece.user] = Seat(piece.active, piece.parked, piece.out)


def _session(state: MemoryState, piece: SessionIn) -> None:
    made, book = state.sessions[piece.name], piece.book
    book.ruled, book.paused = made.ruled, made.paused
    book.judge()
    state.sessions[piece.name] = book


def _key(state: MemoryState, piece: KeyIn) -> None:
    state.keys[piece.task, piece.user, piece.key] = KeyEntry(piece.run_id, piece.number, piece.digest, piece.at)


def _run(state: MemoryState, piece: RunIn) -> None:
    if piece.id in state.by_id:
        return
    run = RunRecord(
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
        run.log = EventBatch(attempt, at, tuple((kind, data) for kind, _, _, data in rows), run.log)
    insort(state.records, run, key=attrgetter("number"))
    state.by_id[run.id] = run
    state.takers.update({taken.message.id: run for taken in piece.taken if not taken.moved})
    for key in piece.keys:
        state.keys[key.task, key.user, key.key] = KeyEntry(run.id, run.number, key.digest, key.at)
    if piece.streamed:
        state.transient.add(run)
    if run.state is RunState.WAITING:
        state.heaps.put_deadline(run)


def _place(state: MemoryState, piece: Place) -> None:
    run = state.numbered(piece.number)
    if run.spot:
        return
    run.kind, shelf = piece.kind, Shelf(piece.shelf)
    if shelf is Shelf.HELD:
        state.heaps.put_held(run, piece.rank)
    elif shelf is Shelf.DUE:
        state.heaps.put_due(run)
    else:
        run.rank = piece.rank
        if shelf is Shelf.READY:
            state.heaps.put_ready(run)
        else:
            state.heaps.put_parked(run, piece.gate or "")


_TAKERS: dict[type, Callable[[MemoryState, Any], None]] = {
    Counters: _counters,
    LaneIn: _lane,
    Cap: _cap,
    PausedIn: _paused,
    Disabled: lambda state, piece: state.disabled_tasks.add(piece.task),
    SessionRule: _rule,
    CircuitIn: lambda state, piece: state.circuits.put(piece.key, Circuit(failures=piece.failures, until=piece.until)),
    TurnIn: _turn,
    SeatIn: _seat,
    SessionIn: _session,
    JobIn: lambda state, piece: state.jobs.bring(piece.job, piece.fires),
    KeyIn: _key,
    RunIn: _run,
    Place: _place,
}
