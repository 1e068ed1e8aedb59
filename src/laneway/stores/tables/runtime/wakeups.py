"""Choosing whom to wake: resting workers that could start something, or must know of an earlier due time.

Who is chosen rests no more, in the same transaction, so nobody is woken twice for one thing. The wake-ups go out after
the commit. *Crash here*: they are lost, and those workers find the work when they look.

Of those that have lent their next step only the first is chosen, and rests until `lending` has done it: then it is
chosen again, among those who rest still, for what is left.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from laneway.core.records.liveness import Incarnation
from laneway.stores.tables.runtime.after_commit import Effects, Lender, Woken
from laneway.stores.tables.sql.database import Database, Question
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("wakeups")
_NEXT_DUE = sql_names("transaction")["next_due"]

decode_incarnation = msgspec.json.Decoder(Incarnation).decode


class _Resting(NamedTuple):
    number: int
    id: str
    socket: str | None
    told: int | None  # the next due time it knows of
    incarnation: str
    call: int
    room: int | None  # of one that has lent its next step, and has renewed in time
    is_heard: bool


class _Work:
    """What could start now. A worker that executes as many runs of a lane as one may is not woken for that lane."""

    def __init__(self, db: Database, now: int) -> None:
        startable = db.execute(_SQL["startable"]).fetchall()
        self._aside: list[tuple[str, int | None, str]] = db.execute(_SQL["asides"], (now,)).fetchall()
        self._left = {lane: runs for lane, runs, _ in startable}
        found = [(lane, most) for lane, _, most in startable] + [(lane, most) for lane, most, _ in self._aside]
        self._limits = {lane: most for lane, most in found if most is not None}
        self._executed: dict[tuple[str, str], int] = {}
        if self._limits:
            self._executed = {(holder, lane): runs for holder, lane, runs in db.execute(_SQL["executed"])}

    def is_for(self, worker: _Resting) -> bool:
        """Tell whether the worker may start one, and count it as started; or whether one it knows is set aside."""
        for lane, runs in self._left.items():
            if runs and self._may_take(worker, lane):
                self._left[lane] -= 1
                return True
        known = tasks(worker.incarnation) if self._aside else frozenset()
        return any(task in known and self._may_take(worker, lane) for lane, _, task in self._aside)

    def _may_take(self, worker: _Resting, lane: str) -> bool:
        most = self._limits.get(lane)
        return most is None or self._executed.get((worker.id, lane), 0) < most


def wake_for_work(db: Database, effects: Effects, now: int) -> None:
    """Choose as many as can start something, and all that know a task set aside where there is room."""
    db.expect(Question(_SQL["idle"], (now,)), Question(_SQL["startable"]), Question(_SQL["asides"], (now,)))
    idle = [_Resting(*row) for row in db.execute(_SQL["idle"], (now,))]
    if idle:
        work = _Work(db, now)
        # First those that execute nothing.
        chosen = [worker for worker in sorted(idle, key=_is_busy) if work.is_for(worker)]
        effects.lender = next((_lender(worker) for worker in chosen if not _is_busy(worker)), effects.lender)
        _wake(db, effects, [worker for worker in chosen if _is_busy(worker)] if chosen else _for_due(db, idle, now))


def wake_holder(db: Database, effects: Effects, incarnation: str) -> None:
    """Choose a worker, whether it rests or not: something is requested of what it executes."""
    if not any(chosen.incarnation == incarnation for chosen in effects.wake):
        effects.wake += [Woken(*row) for row in db.execute(_SQL["holder"], (incarnation,))]


def wake_for_fire(db: Database, effects: Effects, fire_at: int | None, soonest: int | None) -> bool:
    """Choose all workers, whether they rest or not, if a job is due sooner than the soonest that they were told of.

    Return whether it is. It concerns all: any of them may be gone by then.
    """
    if fire_at is None or (soonest is not None and soonest <= fire_at):
        return False
    wake_everybody(db, effects)
    return True


def wake_everybody(db: Database, effects: Effects) -> None:
    """Choose all workers, whether they rest or not."""
    live = [Woken(*row) for row in db.execute(_SQL["live"])]
    effects.wake += [worker for worker in live if worker not in effects.wake]


def wake_lender(db: Database, effects: Effects, lender: Lender) -> None:
    """Choose a worker that has lent its next step, and shall make it by itself."""
    db.execute(_SQL["rouse"], (lender.number,))
    effects.wake.append(Woken(lender.incarnation, lender.socket))


def _for_due(db: Database, idle: list[_Resting], now: int) -> list[_Resting]:
    # Invariant: while anybody rests, somebody who rests, or was woken and will ask, knows the next due time.
    [[soonest]] = db.execute(_NEXT_DUE, (now,)).fetchall()
    if soonest is None or any(worker.told is not None and worker.told <= soonest for worker in idle):
        return []
    return idle[:1]


def _wake(db: Database, effects: Effects, chosen: list[_Resting]) -> None:
    if chosen:
        db.each(_SQL["rouse"], [(worker.number,) for worker in chosen])
        effects.wake += [Woken(worker.id, worker.socket) for worker in chosen]


def _is_busy(worker: _Resting) -> bool:
    return worker.room is None


def _lender(worker: _Resting) -> Lender:
    assert worker.room is not None
    return Lender(worker.number, worker.id, worker.socket, worker.call, worker.room, bool(worker.is_heard))


@lru_cache(maxsize=256)
def tasks(incarnation: str) -> frozenset[str]:
    """Return the tasks that an incarnation, as it is stored, knows."""
    return decode_incarnation(incarnation).tasks
