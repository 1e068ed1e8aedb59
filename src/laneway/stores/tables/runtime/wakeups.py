"""Which workers to wake up: idle ones that could start something, or one that must know of an earlier due time.

A worker that is chosen is idle no more, in the same transaction, so nobody is woken twice for one thing. The wake-ups
are sent after the commit. # Crash here: they are lost, and those workers find the work when they look.

**Claim ahead.** Where a store makes the next claim of an idle worker (`AfterCommit.claim_ahead`), only the first worker
is chosen for that and stays idle until it is done. Then `wake_for_work` is called again for what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from laneway.core.records.liveness import Incarnation
from laneway.stores.tables.runtime.after_commit import AfterCommit, IdleWorker, WakeUp
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("wakeups")
_NEXT_DUE = sql_names("transaction")["next_due"]

decode_incarnation = msgspec.json.Decoder(Incarnation).decode


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

    def is_for(self, worker: IdleWorker) -> bool:
        """Tell whether the worker may start one, and count it as started; or whether one it knows is set aside."""
        for lane, runs in self._left.items():
            if runs and self._may_take(worker, lane):
                self._left[lane] -= 1
                return True
        known = tasks(worker.incarnation) if self._aside else frozenset()
        return any(task in known and self._may_take(worker, lane) for lane, _, task in self._aside)

    def _may_take(self, worker: IdleWorker, lane: str) -> bool:
        most = self._limits.get(lane)
        return most is None or self._executed.get((worker.id, lane), 0) < most


def wake_for_work(db: Database, after_commit: AfterCommit, now: int) -> None:
    """Wake as many idle workers as can start something, and all that know a task set aside where there is room."""
    db.expect(Query(_SQL["idle"], (now,)), Query(_SQL["startable"]), Query(_SQL["asides"], (now,)))
    idle = [IdleWorker(*row) for row in db.execute(_SQL["idle"], (now,))]
    if idle:
        work = _Work(db, now)
        chosen = [worker for worker in idle if work.is_for(worker)] or _for_due(db, idle, now)
        wake_idle(db, after_commit, [worker for worker in chosen if worker.room is None])
        first = next((worker for worker in chosen if worker.room is not None), None)
        after_commit.claim_ahead = first or after_commit.claim_ahead


def wake_idle(db: Database, after_commit: AfterCommit, workers: Sequence[IdleWorker]) -> None:
    """Wake these idle workers."""
    if workers:
        db.each(_SQL["rouse"], [(worker.number,) for worker in workers])
        after_commit.wake_ups += [WakeUp(worker.id, worker.address) for worker in workers]


def wake_holder(db: Database, after_commit: AfterCommit, incarnation: str) -> None:
    """Wake a worker, idle or not: something is requested of what it executes."""
    if not any(chosen.incarnation == incarnation for chosen in after_commit.wake_ups):
        after_commit.wake_ups += [WakeUp(*row) for row in db.execute(_SQL["holder"], (incarnation,))]


def wake_for_fire(db: Database, after_commit: AfterCommit, fire_at: int | None, soonest: int | None) -> bool:
    """Wake all workers, idle or not, if a job is due sooner than the soonest that they know of.

    Return whether it is. It concerns all: any of them may be gone by then.
    """
    if fire_at is None or (soonest is not None and soonest <= fire_at):
        return False
    wake_everybody(db, after_commit)
    return True


def wake_everybody(db: Database, after_commit: AfterCommit) -> None:
    """Wake all workers, idle or not."""
    live = [WakeUp(*row) for row in db.execute(_SQL["live"])]
    after_commit.wake_ups += [worker for worker in live if worker not in after_commit.wake_ups]


def _for_due(db: Database, idle: list[IdleWorker], now: int) -> list[IdleWorker]:
    # Invariant: if any worker is idle, at least one idle or just woken worker knows the next due time.
    [[soonest]] = db.execute(_NEXT_DUE, (now,)).fetchall()
    if soonest is None or any(worker.due_at is not None and worker.due_at <= soonest for worker in idle):
        return []
    return [idle[0]._replace(room=None)]


@lru_cache(maxsize=256)
def tasks(incarnation: str) -> frozenset[str]:
    """Return the tasks that an incarnation, as it is stored, knows."""
    return decode_incarnation(incarnation).tasks
