"""Decoding the content of a store for a move: pieces (`core.transfer.pieces`) from replies of lua/verbs/moves/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from laneway.core.records.events import ANSWERED, Stamped, drafted
from laneway.core.records.policy import SessionIntent
from laneway.core.records.run import Failure, RunLinks
from laneway.core.records.states import RunState
from laneway.core.transfer.pieces import (
    Cap,
    CircuitIn,
    Counters,
    Disabled,
    KeyIn,
    LaneIn,
    PausedIn,
    Piece,
    Place,
    RunIn,
    SeatIn,
    SessionRule,
    Taken,
    TurnIn,
)
from laneway.ports.gates import Held
from laneway.stores.redis.codec.decode import key_of, memo_of, message_of, wait_of
from laneway.stores.redis.codec.decode_counts import circuit_of, lane_book, lane_of, pairs, rule_of, some, turns_of

_ties = msgspec.json.Decoder(RunLinks).decode
_failure = msgspec.json.Decoder(Failure).decode
_rows = msgspec.json.Decoder(list[tuple[str, int, int, msgspec.Raw]]).decode


def settings_in(reply: Sequence[Any]) -> Iterator[Piece]:
    """Return what belongs to the store as a whole (pack_settings.lua)."""
    counters, lanes, declared, ruled, counts, caps, *sets, rules, circuits = reply
    accepted, jobs_at = (int(count or 0) for count in counters)
    users, sessions, tasks, disabled = sets
    yield Counters(accepted=accepted, jobs_at=jobs_at)
    yield from _lanes(dict(pairs(lanes)), dict(pairs(declared)), dict(pairs(ruled)), dict(pairs(counts)))
    for field, cap in pairs(caps):
        lane, user = field.split("\n", 1)
        yield Cap(user=user, lane=lane, cap=int(cap))
    for what, names in {Held.USER: users, Held.SESSION: sessions, Held.TASK: tasks}.items():
        yield from (PausedIn(what=what.value, name=name) for name in names)
    yield from (Disabled(task=task) for task in disabled)
    yield from (SessionRule(name=name, rule=rule_of(rule)) for name, rule in pairs(rules))
    for key, packed in pairs(circuits):
        circuit = circuit_of(packed)
        yield CircuitIn(key=key, failures=circuit.failures, until=circuit.until)


def turns_in(lane: str, lanes: Sequence[Any], seats: Sequence[Any]) -> list[Piece]:
    """Return the turns of a lane for which runs wait: of its users, and of runs without a user."""
    turns = list(lane_book(lane, dict(pairs(lanes))[lane]).turns.items())
    for user, packed in pairs(seats):
        turns += [((user, priority), turn) for priority, turn in turns_of(packed)]
    return [
        TurnIn(lane=lane, user=user, priority=priority, last=turn.last, waiting=turn.waiting)
        for (user, priority), turn in turns
        if turn.waiting
    ]


def seats_in(lane: str, seats: Sequence[Any]) -> list[Piece]:
    """Return the seats of a lane's users."""
    return [
        SeatIn(lane=lane, user=user, active=active, parked=parked, out=out)
        for user, (active, parked, out, *_) in pairs(seats)
        if active or parked or out
    ]


def key_in(field: str, entry: Sequence[Any]) -> Piece:
    """Return an idempotency key of a run that is gone."""
    (task, user, key), (run_id, number, digest, at) = key_of(field), entry
    return KeyIn(task=task, user=user, key=key, digest=digest, at=at, run_id=run_id, number=number)


def place_in(packed: Sequence[Any]) -> Piece:
    """Return the place of a run that is on a shelf."""
    number, shelf, rank, kind, owner, gate, paused = packed
    return Place(
        number=number, shelf=shelf, rank=int(rank), kind=kind, owner=some(owner), gate=some(gate), paused=paused
    )


def _lanes(
    books: Mapping[str, Any], declared: Mapping[str, Any], ruled: Mapping[str, Any], counts: Mapping[str, Any]
) -> Iterator[Piece]:
    for name in sorted(books):
        book = lane_book(name, books[name])
        yield LaneIn(
            lane=book.lane,
            declared=lane_of(name, declared[name]) if name in declared else None,
            ruled=lane_of(name, ruled[name]) if name in ruled else None,
            paused=book.paused,
            active=book.active,
            pending=book.pending,
            paces=tuple((priority, pace.v, pace.ready) for priority, pace in sorted(book.paces.items())),
            counts={what: int(count) for what, count in pairs(counts.get(name, ()))},
        )


# Fields that the scripts write in another form.
_OTHERWISE = {
    *("state", "error", "arrival", "ties", "request", "wait", "call", "log", "streamed", "memos", "taken", "read"),
    "keys",
}
_SAME = [name for name in RunIn.__struct_fields__ if name not in _OTHERWISE]


def run_in(facts: dict[str, Any]) -> Piece:
    """Return a run and all that belongs to it (`pieces.pack_run` in lua/admin/pieces.lua)."""
    state = RunState(facts["state"])
    keys = (KeyIn(*key_of(field), digest=digest, at=at) for field, digest, at in facts["keys"])
    taken = [Taken(message=message_of(*message), moved=moved) for message, moved in facts["taken"]]
    return RunIn(
        **{name: some(facts.get(name)) for name in _SAME},
        state=state,
        error=_failure(facts["error"]) if facts.get("error") else None,
        arrival=_arrival(facts["arrival"]) if facts.get("arrival") else None,
        ties=_ties(facts["ties"]) if facts.get("ties") else None,
        request=facts.get("request") or None if state is RunState.WAITING else None,
        wait=wait_of(facts["wait"]) if facts.get("wait") else None,
        call=facts.get("call") or "",
        log=tuple(row for _, text in pairs(facts["log"]) for row in _stamped(text)),
        streamed=bool(facts.get("streamed")),
        memos=tuple(memo_of(*memo) for memo in sorted(facts["memos"])),
        taken=tuple(sorted(taken, key=lambda one: (one.message.kind.value, one.message.nth))),
        read=facts.get("read") or 0,
        keys=tuple(sorted(keys, key=lambda key: (key.task, key.user or "", key.key))),
    )


def _arrival(packed: dict[str, Any]) -> SessionIntent:
    given = {**packed, "rule": rule_of(packed.get("rule"))}
    return msgspec.convert(given, SessionIntent)


def _stamped(text: str) -> list[Stamped]:
    """Return the events of a chunk; an answer that scripts have written whole is cut as readers get it."""
    rows = [(kind, attempt, at, bytes(data).decode()) for kind, attempt, at, data in _rows(text)]
    return [
        (kind, attempt, at, drafted(kind, data)[1] if kind == ANSWERED else data) for kind, attempt, at, data in rows
    ]
