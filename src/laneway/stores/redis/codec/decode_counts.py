"""Decoding what the store keeps packed about lanes, users, sessions, circuits and workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from laneway.core.queue.circuits import FOREVER
from laneway.core.queue.sessions import SessionBook, Window
from laneway.core.queue.turns import LaneBook, Ledger, Seat, Turn, VirtualTime
from laneway.core.records.breakers import Circuit
from laneway.core.records.liveness import Heartbeat, Incarnation, ProcessMark, WorkerInfo
from laneway.core.records.policy import NO_RULE, Lane, Rule

_incarnation = msgspec.json.Decoder(Incarnation).decode
_NEVER = -1  # FOREVER in scripts, whose whole numbers are smaller


def pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Iterate over the fields and values of a hash."""
    return zip(flat[::2], flat[1::2], strict=True)


def some(value: Any) -> Any:
    """Return the value; None for False, which scripts send for a missing one."""
    return None if value is False else value


def lane_of(name: str, packed: Sequence[Any]) -> Lane:
    """Return the settings of a lane."""
    limit, per_user, worker_limit, max_pending, when_full, *_ = packed
    return Lane(name, limit, some(per_user), some(worker_limit), some(max_pending), when_full)


def lane_book(name: str, packed: Sequence[Any]) -> LaneBook:
    """Return the counts of a lane, without its users' seats and turns."""
    paused, active, pending, paces = packed[5:9]
    ready = {priority: VirtualTime(v, count) for priority, v, count, *_ in paces}
    turns: Ledger[tuple[str | None, int], Turn] = Ledger(Turn)
    turns.update({(None, priority): Turn(*turn) for priority, _, _, *turn in paces if any(turn)})
    return LaneBook(lane_of(name, packed), ready, turns, Ledger(Seat), active, pending, paused=paused)


def seat_of(packed: Sequence[Any]) -> Seat:
    """Return a user's seat in a lane."""
    active, parked, out, *_ = packed
    return Seat(active, parked, out)


def turns_of(packed: Sequence[Any]) -> list[tuple[int, Turn]]:
    """Return the turns of a seat for which runs wait, with their priorities.

    >>> [(priority, turn.last, turn.waiting) for priority, turn in turns_of((1, 0, 0, (5, 17, 2, 7, 3, 0)))]
    [(5, 17, 2)]
    """
    flat = packed[3] or ()  # Lua packs an empty list as an empty map
    rows = zip(*[iter(flat)] * 3, strict=True)
    return [(priority, Turn(last, waiting)) for priority, last, waiting in rows if waiting]


def rule_of(packed: Any) -> Rule:
    """Return a rule with the values that are given."""
    return msgspec.convert(packed, Rule) if packed else NO_RULE


def session_book(packed: Sequence[Any]) -> SessionBook:
    """Return the counts of a session that is not idle."""
    admitted, unstarted, held, back, joined, front, *_ = packed
    book = SessionBook(admitted, unstarted, held, back, joined, front)
    book.outside, book.asking, windows, given, ruled, book.throttled, book.paused, book.alone = packed[6:14]
    book.windows = [Window(task, some(user), number, until) for task, user, number, until in windows]
    book.given, book.ruled = rule_of(given), rule_of(ruled)
    book.judge()
    return book


def idle_book(ruled: Any, *, paused: bool) -> SessionBook:
    """Return the counts of an idle session that an operator has settings for."""
    book = SessionBook()
    book.ruled, book.paused = rule_of(ruled), paused
    book.judge()
    return book


def circuit_of(packed: Sequence[Any]) -> Circuit:
    """Return a circuit."""
    failures, until, number, fence = packed
    probe = None if number is False else (number, fence)
    return Circuit(failures=failures, until=until_of(until), probe=probe)


def until_of(until: Any) -> int | None:
    """Return until when a circuit is open, None if it is closed."""
    return FOREVER if until == _NEVER else some(until)


def _unknown(name: str) -> Incarnation:
    """Return an incarnation of which only the name is known: a damaged store can be read, too."""
    nowhere = ProcessMark(boot="", namespace="", pid=0, started=0)
    return Incarnation(id=name, host="", process=nowhere, tasks=frozenset())


class WorkerLoad(msgspec.Struct):
    """An incarnation, and how many runs of each lane it executes."""

    info: WorkerInfo
    busy: dict[str, int]

    @classmethod
    def of(cls, packed: Sequence[Any]) -> WorkerLoad:
        """Return what lua/admin/worker_list.lua has packed."""
        id_, info, renewed_at, left, short, rests, leases, busy = packed
        found = WorkerInfo(
            incarnation=_incarnation(info) if info else _unknown(id_),
            renewed_at=renewed_at,
            running=leases,
            idle=bool(rests),
            left=left,
            short=short,
        )
        return cls(found, {lane: int(count) for lane, count in pairs(busy)})

    def is_dead(self, heartbeat: Heartbeat, now: int) -> bool:
        """Tell whether it has left or lapsed."""
        info = self.info
        return info.left or heartbeat.lapsed(info.renewed_at, info.incarnation.lease, now)

    def spare(self, lane: str, limit: int) -> int:
        """Return how many more runs of a lane with this limit it may take."""
        return limit - self.busy.get(lane, 0)


def alive(packed: Sequence[Any], beat: Sequence[int], now: int) -> list[WorkerLoad]:
    """Return the incarnations that have neither left nor lapsed."""
    heartbeat = Heartbeat(*beat)
    workers = [WorkerLoad.of(one) for one in packed]
    return [worker for worker in workers if not worker.is_dead(heartbeat, now)]
