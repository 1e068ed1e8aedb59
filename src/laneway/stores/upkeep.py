"""The memory store's upkeep: which records are old, and whether its counts are right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import chain
from typing import Any

from laneway.core.audit import LEASE, PAUSED, Finding, Key, Spot, differences, miscounted, recount
from laneway.core.flow import Flow
from laneway.core.states import RunState
from laneway.core.turns import AGAIN, FRESH, Pace
from laneway.stores.heaps import Heaps
from laneway.stores.records import Record


def outdated(records: Iterable[Record], keep: Mapping[RunState, int], now: int, limit: int) -> list[Record]:
    """Return up to `limit` records that ended longer ago than their state is kept, those that ended first first."""
    old = [
        (run.ended_at, run.number, run)
        for run in records
        if run.ended_at is not None and run.state in keep and now - run.ended_at > keep[run.state]
    ]
    return [run for _, _, run in nsmallest(limit, old)]


def check(
    flow: Flow[Record], heaps: Heaps, leased: Iterable[Record], paused: Iterable[Record], *, repair: bool
) -> list[Finding]:
    """Return the counts that are wrong, and set them right if told to."""
    shelved = (_spot(run, shelf, gate) for shelf, gate, run in heaps.everything())
    others = ((LEASE, leased), (PAUSED, paused))
    counted = recount(chain(shelved, (_spot(run, place, None) for place, runs in others for run in runs)))
    wrong = differences(dict(_stored(flow, heaps)), counted)
    if repair and wrong:
        for key, _, count in wrong:
            _set(flow, key, count)
        for name, book in flow.lanes.items():
            flow.reopen(name, set(book.seats))
        for session in list(flow.sessions):
            _reopen(flow, heaps, session)
    return [miscounted(*difference) for difference in wrong]


def _reopen(flow: Flow[Record], heaps: Heaps, session: str) -> None:
    counts = flow.sessions[session]
    if counts.held and counts.admits():
        # From the due shelf they join anew, in the order they had.
        for _ in range(counts.held):
            heaps.put_due(heaps.take_held(session))
        counts.held = 0
    if counts.idle:
        flow.sessions.emptied(session)


def _spot(run: Record, shelf: str, gate: str | None) -> Spot:
    kind = (AGAIN if run.fence else FRESH) if shelf == PAUSED else run.kind
    return Spot(shelf, gate, run.lane, run.user, run.session, run.priority, run.task, kind)


def _stored(flow: Flow[Record], heaps: Heaps) -> Iterator[tuple[Key, int]]:
    for lane, book in flow.lanes.items():
        yield ("lane", lane, "active"), book.active
        for priority, pace in book.paces.items():
            yield ("pace", lane, priority, "ready"), pace.ready
        for (user, priority), turn in book.turns.items():
            yield ("turn", lane, user, priority, "waiting"), turn.waiting
        for user, seat in book.seats.items():
            yield from ((("seat", lane, user, name), getattr(seat, name)) for name in ("active", "parked", "out"))
    for session, held in flow.sessions.items():
        yield from ((("session", session, name), getattr(held, name)) for name in ("admitted", "unstarted", "held"))
    for (lane, gate), runs in heaps.parked_sets():
        if gate.startswith("task:"):
            yield ("aside", lane, gate.removeprefix("task:"), "runs"), runs


def _set(flow: Flow[Record], key: Key, count: int) -> None:
    parts: tuple[Any, ...] = key
    match parts:
        case ("lane", lane, _):
            flow.lanes[lane].active = count
        case ("pace", lane, priority, _):
            flow.lanes[lane].paces.setdefault(priority, Pace()).ready = count
        case ("turn", lane, user, priority, _):
            flow.lanes[lane].turns[user, priority].waiting = count
        case ("seat", lane, user, name):
            setattr(flow.lanes[lane].seats[user], name, count)
        case ("session", session, name):
            setattr(flow.sessions[session], name, count)
