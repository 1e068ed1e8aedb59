"""Packing: all that a store on Redis has, in pages of pieces (`core.transfer.pieces`).

What runs and shelves look like in Redis is known to `lua/admin/pieces.lua` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from laneway.core.jobs.record import FIRES_KEPT
from laneway.core.records.breakers import Circuit
from laneway.core.records.events import ANSWERED, Stamped, drafted
from laneway.core.records.policy import SessionIntent
from laneway.core.records.run import Failure, RunLinks
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
from laneway.ports.jobs import JobFilter
from laneway.stores.redis.codec.decode import wait_of
from laneway.stores.redis.codec.decode_counts import (
    circuit_of,
    lane_book,
    lane_of,
    pairs,
    rule_of,
    session_book,
    some,
    turns_of,
)
from laneway.stores.redis.verbs.jobs import Jobs
from laneway.stores.redis.verbs.runs import key_of, memo_of, message_of

_ties = msgspec.json.Decoder(RunLinks).decode
_failure = msgspec.json.Decoder(Failure).decode
_rows = msgspec.json.Decoder(list[tuple[str, int, int, msgspec.Raw]]).decode

Found = tuple[list[Piece], str | None]  # pieces, and the last if there may be more


class Packing(Jobs):
    """Packs what there is, part by part."""

    async def _page(self, after: Mark, limit: int) -> Page:
        part, last = after
        return page_of(part, *await getattr(self, f"_pack_{part}")(last, limit))

    async def _pack_settings(self, _: str, __: int) -> Found:
        counters, lanes, declared, ruled, counts, caps, *sets, rules, circuits = await self._call("moves/pack_settings")
        accepted, jobs_at = (int(count or 0) for count in counters)
        users, sessions, tasks, disabled = sets
        found: list[Piece] = [Counters(accepted=accepted, jobs_at=jobs_at)]
        books, said, set_ = dict(pairs(lanes)), dict(pairs(declared)), dict(pairs(ruled))
        told = {lane: {what: int(count) for what, count in pairs(flat)} for lane, flat in pairs(counts)}
        found += [_lane(name, books[name], said, set_, told.get(name, {})) for name in sorted(books)]
        for field, cap in pairs(caps):
            lane, user = field.split("\n", 1)
            found.append(Cap(user=user, lane=lane, cap=int(cap)))
        paused = {Held.USER: users, Held.SESSION: sessions, Held.TASK: tasks}
        found += [PausedIn(what=what.value, name=name) for what, names in paused.items() for name in names]
        found += [Disabled(task=task) for task in disabled]
        found += [SessionRule(name=name, rule=rule_of(rule)) for name, rule in pairs(rules)]
        found += [_circuit(key, circuit_of(packed)) for key, packed in pairs(circuits)]
        return found, None

    async def _pack_turns(self, last: str, _: int) -> Found:
        lane, on = await self._next_lane(last)
        if lane is None:
            return [], on
        books = dict(pairs(await self._call("moves/pack_hash", "lanes")))
        turns = list(lane_book(lane, books[lane]).turns.items())
        for user, packed in pairs(await self._call("moves/pack_hash", f"seats:{lane}")):
            turns += [((user, priority), turn) for priority, turn in turns_of(packed)]
        pieces: list[Piece] = [
            TurnIn(lane=lane, user=whose, priority=priority, last=turn.last, waiting=turn.waiting)
            for (whose, priority), turn in turns
            if turn.waiting
        ]
        return pieces, on

    async def _pack_seats(self, last: str, _: int) -> Found:
        lane, on = await self._next_lane(last)
        seats = pairs(await self._call("moves/pack_hash", f"seats:{lane}")) if lane is not None else ()
        pieces: list[Piece] = [
            SeatIn(lane=lane or "", user=user, active=active, parked=parked, out=out)
            for user, (active, parked, out, *_) in seats
            if active or parked or out
        ]
        return pieces, on

    async def _next_lane(self, last: str) -> tuple[str | None, str | None]:
        """Return the lane behind this one, and the same again if there are more behind it."""
        names = sorted(name.decode() for name in await self._link.command("HKEYS", f"{self._address.prefix}:lanes"))
        behind = [name for name in names if name > last]
        return (behind[0] if behind else None), (behind[0] if len(behind) > 1 else None)

    async def _pack_sessions(self, _: str, __: int) -> Found:
        found = pairs(await self._call("moves/pack_hash", "sessions"))
        return [SessionIn.of(name, session_book(packed)) for name, packed in found], None

    async def _pack_jobs(self, last: str, limit: int) -> Found:
        after = msgspec.json.decode(last, type=tuple[str, str]) if last else ("", "")
        jobs = await self.jobs(JobFilter(), limit=limit, after=after)
        found: list[Piece] = [
            JobIn(job=job, fires=tuple(reversed(await self.fires(job.id, limit=FIRES_KEPT)))) for job in jobs
        ]
        more = len(jobs) >= limit and jobs
        return found, msgspec.json.encode((jobs[-1].spec.name, jobs[-1].id)).decode() if more else None

    async def _pack_keys(self, last: str, limit: int) -> Found:
        keys, on = await self._call("moves/pack_keys", int(last or 0), limit)
        found: list[Piece] = []
        for field, (run_id, number, digest, at) in keys:
            task, user, key = key_of(field)
            found.append(KeyIn(task=task, user=user, key=key, digest=digest, at=at, run_id=run_id, number=number))
        return found, None if on is False else str(on)

    async def _pack_runs(self, last: str, limit: int) -> Found:
        runs, on = await self._call("moves/pack_runs", int(last or 0), limit)
        return [_run(facts) for facts in runs], None if on is False else str(on)

    async def _pack_places(self, last: str, limit: int) -> Found:
        places, on = await self._call("moves/pack_places", int(last or 0), limit)
        found: list[Piece] = [
            Place(
                number=number,
                shelf=shelf,
                rank=int(rank),
                kind=kind,
                owner=some(owner),
                gate=some(gate),
                paused=paused,
            )
            for number, shelf, rank, kind, owner, gate, paused in places
        ]
        return found, None if on is False else str(on)


def _lane(
    name: str, packed: Any, declared: Mapping[str, Any], ruled: Mapping[str, Any], counts: dict[str, int]
) -> LaneIn:
    book = lane_book(name, packed)
    return LaneIn(
        lane=book.lane,
        declared=lane_of(name, declared[name]) if name in declared else None,
        ruled=lane_of(name, ruled[name]) if name in ruled else None,
        paused=book.paused,
        active=book.active,
        pending=book.pending,
        paces=tuple((priority, pace.v, pace.ready) for priority, pace in sorted(book.paces.items())),
        counts=counts,
    )


def _circuit(key: str, circuit: Circuit) -> CircuitIn:
    return CircuitIn(key=key, failures=circuit.failures, until=circuit.until)


_SAME = (
    *("number", "id", "task", "args", "lane", "accepted_at", "due_at", "user", "session", "priority", "attempt"),
    *("fence", "crashes", "started_at", "ended_at", "reason", "result", "retry_of", "checkpoint", "prepared"),
)


def _run(facts: dict[str, Any]) -> RunIn:
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
    """Return the events of a chunk as they are read: an answer that scripts have written whole is cut."""
    rows = [(kind, attempt, at, bytes(data).decode()) for kind, attempt, at, data in _rows(text)]
    return [
        (kind, attempt, at, drafted(kind, data)[1] if kind == ANSWERED else data) for kind, attempt, at, data in rows
    ]
