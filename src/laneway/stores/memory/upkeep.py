"""Upkeep of the memory store: which records are old, and whether its counts are right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import groupby
from typing import Any

from laneway.core.common.keys import KEPT
from laneway.core.lifecycle.trim import Chunk, trimmed
from laneway.core.queue.audit import (
    ADMITTED,
    ASKING,
    LEASE,
    NO_PROBE,
    OUTSIDE,
    PAUSED,
    WAITING,
    Finding,
    Key,
    Spot,
    counted,
    differences,
    list_again,
    miscounted,
    recount,
)
from laneway.core.queue.circuits import holder
from laneway.core.queue.claim import Flow
from laneway.core.queue.shelves import BREAKER, TASK, Shelf
from laneway.core.queue.turns import AGAIN, FRESH, VirtualTime
from laneway.core.records.states import RunState
from laneway.stores.memory.state.heaps import Heaps
from laneway.stores.memory.state.records import EventBatch, RunRecord, log_of
from laneway.stores.memory.state.state import MemoryState


def outdated(records: Iterable[RunRecord], keep: Mapping[RunState, int], now: int, limit: int) -> list[RunRecord]:
    """Return up to `limit` records that ended longer ago than their state is kept, the oldest end first."""
    old = [
        (run.ended_at, run.number, run)
        for run in records
        if run.ended_at is not None and run.state in keep and now - run.ended_at > keep[run.state]
    ]
    return [run for _, _, run in nsmallest(limit, old)]


def forget(state: MemoryState, old: list[RunRecord], now: int) -> None:
    """Delete these records with all that belongs to them, and keys that are expired and have no run any more."""
    gone = {run.number for run in old}
    if gone:
        state.records = [run for run in state.records if run.number not in gone]
    for run in old:
        del state.by_id[run.id]
        state.transient.discard(run)
        for message in run.taken:
            # An unread message may have been taken twice; its id stands for the run that took it first.
            if state.takers.get(message.id) is run:
                del state.takers[message.id]
    expired = [key for key, entry in state.keys.items() if now - entry.at >= KEPT and entry.run_id not in state.by_id]
    for key in expired:
        del state.keys[key]


def trim(state: MemoryState, older_than: int, now: int, limit: int) -> int:
    """Trim the logs of up to `limit` runs that ended so long ago; return their number."""
    old = [
        (run.ended_at, run.number, run)
        for run in state.transient
        if run.ended_at is not None and now - run.ended_at > older_than
    ]
    runs = [run for _, _, run in nsmallest(limit, old)]
    for run in runs:
        run.log, run.trimmed = _batches(trimmed([(1, list(log_of(run)))])), True
        state.transient.discard(run)
    return len(runs)


def _batches(chunks: Iterable[Chunk]) -> EventBatch | None:
    log: EventBatch | None = None
    for (attempt, at), rows in groupby((row for _, chunk in chunks for row in chunk), key=lambda row: row[1:3]):
        log = EventBatch(attempt, at, tuple((kind, data) for kind, _, _, data in rows), log)
    return log


def check(state: MemoryState, *, repair: bool) -> list[Finding]:
    """Return the counts that are wrong; correct them with `repair`."""
    spots = list(_spots(state))
    wrong = differences(dict(_stored(state.flow, state.heaps)), recount(spots))
    if repair and wrong:
        flow = state.flow
        for key, _, count in wrong:
            _set(flow, key, count)
        for session in {str(key[1]) for key, _, _ in wrong if key[0] == "session"}:
            list_again(flow.sessions[session], [spot for spot in spots if spot.session == session])
        for name, book in flow.lanes.items():
            flow.reopen(name, set(book.seats))
        for session in list(flow.sessions):
            flow.let_go_on(session, ())
            if flow.sessions[session].idle:
                flow.sessions.emptied(session)
    return [miscounted(*difference) for difference in wrong] + list(_without_lease(state, repair=repair))


def _without_lease(state: MemoryState, *, repair: bool) -> Iterator[Finding]:
    """Find the circuits whose probe is not executed: they would let no run start, for ever."""
    leases = {(run.number, run.fence) for run in state.leased()}
    for key in sorted(state.circuits.keys):
        circuit = state.circuits.get(key)
        if circuit.probe is not None and circuit.probe not in leases:
            yield Finding(f"the breaker of {holder(key)}", NO_PROBE)
            if repair:
                state.circuits.put(key, circuit.let_go(*circuit.probe))


def _spots(state: MemoryState) -> Iterator[Spot]:
    for shelf, gate, run in state.heaps.everything():
        yield _spot(state, run, shelf, gate, run.kind)
    for run in state.leased():
        yield _spot(state, run, LEASE, None, run.kind)
    for run in state.records:
        if run.paused and not (run.shelf is Shelf.HELD and run.spot):
            yield _spot(state, run, PAUSED, None, AGAIN if run.fence else FRESH)
        elif run.state is RunState.WAITING:
            asks = run.wait is not None and run.wait.questions
            yield _spot(state, run, WAITING, ASKING if asks else None, AGAIN)


def _spot(state: MemoryState, run: RunRecord, shelf: str, gate: str | None, kind: int) -> Spot:
    book = None if run.session is None else state.sessions.get(run.session)
    place = ""
    if book is not None:
        place = ADMITTED if run.number in book.admitted else OUTSIDE if run.number in book.outside else ""
    facts = (run.lane, run.user, run.session, run.priority, run.task, kind)
    return Spot(shelf, gate, *facts, run.number, place, run.paused)


def _stored(flow: Flow[RunRecord], heaps: Heaps) -> Iterator[tuple[Key, int]]:
    for lane, book in flow.lanes.items():
        yield ("lane", lane, "active"), book.active
        yield ("lane", lane, "pending"), book.pending
        for priority, pace in book.paces.items():
            yield ("pace", lane, priority, "ready"), pace.ready
        for (user, priority), turn in book.turns.items():
            yield ("turn", lane, user, priority, "waiting"), turn.waiting
        for user, seat in book.seats.items():
            yield from ((("seat", lane, user, name), getattr(seat, name)) for name in ("active", "parked", "out"))
    for session, counts in flow.sessions.items():
        yield from ((("session", session, name), count) for name, count in counted(counts).items())
    for (lane, gate), runs in heaps.parked_sets():
        if gate.startswith(TASK):
            yield ("aside", lane, gate.removeprefix(TASK), "runs"), runs
        elif gate.startswith(BREAKER):
            yield ("broken", lane, gate.removeprefix(BREAKER), "runs"), runs


def _set(flow: Flow[RunRecord], key: Key, count: int) -> None:
    parts: tuple[Any, ...] = key
    match parts:
        case ("lane", lane, name):
            setattr(flow.lanes[lane], name, count)
        case ("pace", lane, priority, _):
            flow.lanes[lane].paces.setdefault(priority, VirtualTime()).ready = count
        case ("turn", lane, user, priority, _):
            flow.lanes[lane].turns[user, priority].waiting = count
        case ("seat", lane, user, name):
            setattr(flow.lanes[lane].seats[user], name, count)
