"""Explaining what waits: why a run does, and how lanes, users, sessions and tasks stand.

Each answer is one script's picture of one moment; what it means is decided by the core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laneway.core.lifecycle.why import Holding, Waiting, reasons
from laneway.core.queue.circuits import named
from laneway.core.queue.shelves import BREAKER, TASK, Shelf
from laneway.core.queue.turns import AGAIN
from laneway.core.records.run import Reason
from laneway.core.records.states import RunState
from laneway.ports.gates import CircuitState, Depths, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.users import UserState
from laneway.stores.redis.codec.decode import standing_of, wait_of
from laneway.stores.redis.codec.decode_counts import (
    alive,
    circuit_of,
    idle_book,
    lane_book,
    lane_of,
    pairs,
    seat_of,
    session_book,
    some,
    turns_of,
    until_of,
)
from laneway.stores.redis.verbs.script_caller import Calling


class Explaining(Calling):
    """Reads what is kept; changes nothing."""

    async def lanes(self) -> list[LaneState]:
        """Return the lanes; see `LaneStore`."""
        packed, ruled, declared, counts = await self._call("overviews/lanes")
        said, counted = dict(pairs(declared)), dict(pairs(counts))
        books = sorted((name, lane_book(name, book)) for name, book in pairs(packed))
        return [
            LaneState(
                book.lane,
                book.active,
                book.ready(),
                book.pending,
                book.paused,
                name in ruled,
                lane_of(name, said[name]) if name in said else None,
                {what: int(count) for what, count in sorted(pairs(counted[name]))},
            )
            for name, book in books
        ]

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        """Return users in lanes; see `UserStore`."""
        rows, caps, paused = await self._call("overviews/users", user)
        found = _Users(rows, caps, paused)
        keys = sorted(key for key in found.known() if key > after and user in (None, key[0]))
        return [found.state(*key) for key in keys[: max(0, limit)]]

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        """Return sessions by name; see `SessionStore`."""
        if named is not None:
            return await self._sessions([named])
        names = sorted({name for name in await self._call("overviews/session_names", prefix) if name > after})
        found: list[SessionState] = []
        while names and len(found) < limit:
            # Race: some may be idle by now, and others take their places on the page.
            page, names = names[: limit - len(found)], names[limit - len(found) :]
            found += await self._sessions(page)
        return found

    async def _sessions(self, names: Sequence[str]) -> list[SessionState]:
        """Return those of them that are not idle, or that an operator has set something of."""
        packed = await self._call("overviews/sessions", names)
        states = (_session(name, *one) for name, one in zip(names, packed, strict=True))
        return [state for state in states if state is not None]

    async def tasks(self) -> list[TaskState]:
        """Return the tasks; see `GateStore`."""
        now, workers, beat, paused, disabled, parked, circuits = await self._call("overviews/tasks")
        live_tasks = [worker.info.incarnation.tasks for worker in alive(workers, beat, now)]
        aside: dict[str, int] = {}
        broken: dict[str, int] = {}
        for _, gate, name, count in parked:
            into = aside if gate.startswith(TASK) else broken if gate.startswith(BREAKER) else {}
            into[name] = into.get(name, 0) + count
        states = _circuits(dict(pairs(circuits)), broken, now)
        return [
            TaskState(
                name=name,
                paused=name in paused,
                disabled=name in disabled,
                workers=sum(name in tasks for tasks in live_tasks),
                aside=aside.get(name, 0),
                circuits=tuple(states.get(name, ())),
            )
            for name in sorted({*paused, *disabled, *aside, *states}.union(*live_tasks))
        ]

    async def why(self, run_id: str) -> list[Reason]:
        """Return the gates that are closed for the run; see `GateStore`."""
        return reasons(_waiting(*await self._call("overviews/why", run_id, about=run_id)))

    async def depths(self) -> Depths:
        """Count; see `GateStore`."""
        states, (ready, parked, due) = await self._call("overviews/depths")
        runs = {state: int(count) for state, count in pairs(states)}
        held = runs.get(RunState.PENDING.value, 0) - ready - parked - due
        return Depths(runs=runs, ready=ready, parked=parked, held=held, due=due)


def _session(name: str, packed: Any, ruled: Any, paused: bool) -> SessionState | None:
    if packed:
        return SessionState.of(name, session_book(packed))
    if ruled or paused:
        return SessionState.of(name, idle_book(ruled, paused=paused))
    return None


def _circuits(packed: Mapping[str, Any], parked: Mapping[str, int], now: int) -> dict[str, list[CircuitState]]:
    """Return the circuits that are open or count failures, or have runs parked, by task."""
    found: dict[str, list[CircuitState]] = {}
    for key in sorted({*packed, *parked}):
        circuit = circuit_of(packed.get(key, (0, False, False, False)))
        found.setdefault(named(key)[0], []).append(CircuitState.of(key, circuit, now, parked.get(key, 0)))
    return found


class _Users:
    """Who has runs in which lane, or of whom something is set; keys are user and lane."""

    def __init__(self, rows: Sequence[Any], caps: Sequence[str], paused: Sequence[str]) -> None:
        self._active: dict[tuple[str, str], int] = {}
        self._waiting: dict[tuple[str, str], int] = {}
        for lane, seats in rows:
            for user, packed in pairs(seats):
                self._active[user, lane] = seat_of(packed).active
                self._waiting[user, lane] = sum(turn.waiting for _, turn in turns_of(packed))
        self._paused = set(paused)
        self._caps: dict[tuple[str, str], int] = {}
        for field, cap in pairs(caps):
            lane, _, user = field.partition("\n")
            self._caps[user, lane] = int(cap)

    def known(self) -> set[tuple[str, str]]:
        """Return whom there is something to say of."""
        found = {*self._active, *self._waiting, *self._caps}
        return found | {(user, "") for user in self._paused - {user for user, _ in found}}

    def state(self, user: str, lane: str) -> UserState:
        """Return how a user stands in a lane."""
        key = user, lane
        return UserState(
            user=user,
            lane=lane,
            active=self._active.get(key, 0),
            waiting=self._waiting.get(key, 0),
            cap=self._caps.get(key),
            paused=user in self._paused,
        )


def _waiting(
    found: Any,
    record: Any,
    packed: Any,
    running: Any,
    session: Any,
    breakers: Any,
    workers: Any,
    beat: Any,
    rules: Any,
    moving: Any,
) -> Waiting:
    number, shelf, now, ahead = found
    state, kind = record[2:4]
    task, lane, user, name = record[15:19]
    cap, user_paused, session_paused, task_paused = rules
    book = lane_book(lane, packed)
    most = book.lane.worker_limit
    knowing = [worker for worker in alive(workers, beat, now) if task in worker.info.incarnation.tasks]
    open_to = [worker for worker in knowing if most is None or worker.spare(lane, most) > 0]
    state, due_at, active, risks = RunState(state), record[22], *map(sorted, running)
    came = state is RunState.PENDING and shelf != Shelf.DUE
    facts = Waiting(
        state=state,
        now=now,
        due_at=min(due_at, now) if came else due_at,
        task=task,
        lane=book.lane,
        user=some(user),
        session=some(name),
        lane_active=[id_ for _, id_, _ in active],
        lane_paused=book.paused,
        user_active=[id_ for _, id_, other in active if other == user],
        user_cap=None if user is False else int(cap) if cap else book.lane.per_user,
        user_paused=user_paused,
        session_paused=session_paused,
        before=_before(int(number), session, again=bool(kind & AGAIN)),
        task_paused=task_paused,
        breakers=[Holding(key, until_of(until), some(probe)) for key, until, probe in breakers],
        known=len(knowing),
        open_to=len(open_to),
        ahead=ahead if state is RunState.PENDING else 0,
        wait=wait_of(record[14]["wait"]) if state is RunState.WAITING else None,
        moving=standing_of(moving),
    )
    fit = [worker.info.incarnation.id for worker in open_to if not worker.info.short]
    facts.add_fit([[id_ for _, id_, holder in risks if holder == worker] for worker in fit])
    return facts


def _before(number: int, session: Any, *, again: bool) -> list[str]:
    """Return the ids of the runs of its session that it waits for."""
    if not session:
        return []
    packed, held, *known = session
    ids = {other: id_ for some_of_them in known for other, id_ in some_of_them}
    return [ids[other] for other in session_book(packed).before(number, held, again=again)]
