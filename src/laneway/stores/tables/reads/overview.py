"""Lanes, users and tasks as people read them, and the numbers of waiting runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from laneway.core.records.liveness import Heartbeat
from laneway.core.records.policy import Lane
from laneway.ports.gates import Depths, Held, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.users import UserState
from laneway.stores.tables.reads import runs
from laneway.stores.tables.rows.settings import disabled_tasks, paused
from laneway.stores.tables.rows.submission_counts import counts
from laneway.stores.tables.runtime.wakeups import tasks as tasks_of
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state import circuits
from laneway.stores.tables.state.lane_counts import lane_of

_SQL = sql_names("overview")
_HEARTBEAT = sql_names("workers")["heartbeat"]
_LAST = chr(0x10FFFF)  # greater than every name
_lane = msgspec.json.Decoder(Lane).decode


def lanes(db: Database) -> list[LaneState]:
    """Return the lanes; see `LaneStore.lanes`."""
    known = counts(db)
    return [
        LaneState(
            lane_of(*lane),
            active,
            ready,
            pending,
            bool(paused),
            bool(ruled),
            None if declared is None else _lane(declared),
            known.get(lane[0], {}),
        )
        for *lane, active, ready, pending, paused, ruled, declared in db.execute(_SQL["lanes"])
    ]


def users(db: Database, user: str | None, limit: int, after: tuple[str, str]) -> list[UserState]:
    """Return users in lanes; see `UserStore.users`."""
    first, last = (after[0], _LAST) if user is None else (user, user)
    asked = {"first": first, "last": last, "after_user": after[0], "after_lane": after[1], "limit": max(0, limit)}
    return [
        UserState(user=name, lane=lane, active=active, waiting=waiting, cap=cap, paused=bool(held))
        for name, lane, active, waiting, cap, held in db.execute(_SQL["users"], asked)
    ]


def tasks(db: Database, now: int) -> list[TaskState]:
    """Return the tasks; see `GateStore.tasks`."""
    held, disabled = paused(db, Held.TASK), disabled_tasks(db)
    aside: dict[str, int] = dict(db.execute(_SQL["asides"]).fetchall())
    known = [worker.tasks for worker in alive(db, now)]
    states = circuits.states(db, now)
    return [
        TaskState(
            name=name,
            paused=name in held,
            disabled=name in disabled,
            workers=sum(name in tasks for tasks in known),
            aside=aside.get(name, 0),
            circuits=tuple(states.get(name, ())),
        )
        for name in sorted({*held, *disabled, *aside, *states}.union(*known))
    ]


def depths(db: Database) -> Depths:
    """Count; see `GateStore.depths`."""
    return Depths(runs=runs.count(db), **dict(db.execute(_SQL["depths"]).fetchall()))


class LiveWorker(NamedTuple):
    """An incarnation that is alive, the tasks it knows, and whether it claims nothing because it is short of memory."""

    id: str
    tasks: frozenset[str]
    short: bool


def alive(db: Database, now: int) -> Iterator[LiveWorker]:
    """Yield the incarnations that have neither left nor lapsed."""
    [beat] = db.execute(_HEARTBEAT).fetchall()
    heartbeat = Heartbeat(*beat)
    for id_, incarnation, lease, renewed_at, short in db.execute(_SQL["present"]):
        if not heartbeat.lapsed(renewed_at, lease, now):
            yield LiveWorker(id_, tasks_of(incarnation), bool(short))
