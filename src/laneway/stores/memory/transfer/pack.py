"""Packing: all that the memory store has, as pieces (`core.transfer.pieces`), a part at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from laneway.core.records.states import RunState
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
    RunIn,
    SeatIn,
    SessionIn,
    SessionRule,
    Taken,
    TurnIn,
    page_of,
)
from laneway.ports.gates import Held
from laneway.stores.memory.state.records import RunRecord, log_of
from laneway.stores.memory.state.state import MemoryState


def page(state: MemoryState, after: Mark) -> Page:
    """Return a whole part; see `MovingStore.pack`."""
    part, _ = after
    return page_of(part, list(_PARTS[part](state)), None)


def _settings(state: MemoryState) -> Iterator[Piece]:
    yield Counters(accepted=state.accepted, jobs_at=state.jobs.latest)
    for name, book in state.lanes.items():
        yield LaneIn(
            lane=book.lane,
            declared=state.declared.get(name),
            ruled=state.ruled_lanes.get(name),
            paused=book.paused,
            active=book.active,
            pending=book.pending,
            paces=tuple((priority, pace.v, pace.ready) for priority, pace in sorted(book.paces.items())),
            counts={what: count for (lane, what), count in state.counts.items() if lane == name and count},
        )
    yield from (Cap(user=user, lane=lane, cap=cap) for (user, lane), cap in state.caps.items())
    paused = {Held.USER: state.paused_users, Held.SESSION: state.paused_sessions, Held.TASK: state.paused_tasks}
    yield from (PausedIn(what=what.value, name=name) for what, names in paused.items() for name in names)
    yield from (Disabled(task=task) for task in state.disabled_tasks)
    yield from (SessionRule(name=name, rule=rule) for name, rule in state.ruled_sessions.items())
    for key in state.circuits.keys:
        circuit = state.circuits.get(key)
        yield CircuitIn(key=key, failures=circuit.failures, until=circuit.until)


def _turns(state: MemoryState) -> Iterator[Piece]:
    for name, book in state.lanes.items():
        for (user, priority), turn in book.turns.items():
            if turn.waiting:
                yield TurnIn(lane=name, user=user, priority=priority, last=turn.last, waiting=turn.waiting)


def _seats(state: MemoryState) -> Iterator[Piece]:
    for name, book in state.lanes.items():
        for user, seat in book.seats.items():
            if seat.active or seat.parked or seat.out:
                yield SeatIn(lane=name, user=user, active=seat.active, parked=seat.parked, out=seat.out)


def _sessions(state: MemoryState) -> Iterator[Piece]:
    return (SessionIn.of(name, book) for name, book in state.sessions.items() if not book.idle)


def _jobs(state: MemoryState) -> Iterator[Piece]:
    return (JobIn(job=job, fires=fires) for job, fires in state.jobs.everything())


def _keys(state: MemoryState) -> Iterator[Piece]:
    for (task, user, key), entry in state.keys.items():
        if entry.run_id not in state.by_id:
            facts = (entry.digest, entry.at, entry.run_id, entry.number)
            yield KeyIn(task, user, key, *facts)


def _runs(state: MemoryState) -> Iterator[Piece]:
    keys: dict[str, list[KeyIn]] = defaultdict(list)
    for (task, user, key), entry in sorted(
        state.keys.items(), key=lambda item: (item[0][0], item[0][1] or "", item[0])
    ):
        keys[entry.run_id].append(KeyIn(task=task, user=user, key=key, digest=entry.digest, at=entry.at))
    return (_run(state, run, tuple(keys[run.id])) for run in state.records)


def _run(state: MemoryState, run: RunRecord, keys: tuple[KeyIn, ...]) -> RunIn:
    return RunIn(
        **{name: getattr(run, name) for name in SAME},
        error=run.failure,
        request=run.request.value if run.request is not None and run.state is RunState.WAITING else None,
        log=tuple(log_of(run)),
        streamed=run in state.transient,
        taken=tuple(Taken(message=message, moved=state.takers.get(message.id) is not run) for message in run.taken),
        keys=keys,
    )


# The fields that have the same name and form in a record.
_OTHERWISE = {"request", "log", "taken"}
SAME = [name for name in RunIn.__struct_fields__ if name in RunRecord.__struct_fields__ and name not in _OTHERWISE]


def _places(state: MemoryState) -> Iterator[Piece]:
    for shelf, gate, rank, run in state.heaps.places():
        owner = run.lane if shelf.value in ("ready", "parked") else run.session
        paused = run.state is RunState.PAUSED
        yield Place(run.number, shelf.value, rank, run.kind, owner=owner, gate=gate, paused=paused)


_PARTS: dict[str, Callable[[MemoryState], Iterator[Piece]]] = {
    "settings": _settings,
    "turns": _turns,
    "seats": _seats,
    "sessions": _sessions,
    "jobs": _jobs,
    "keys": _keys,
    "runs": _runs,
    "places": _places,
}
