"""How lanes, users, sessions, tasks and workers stand, and why a run does not start.

Each reply is a snapshot that one script has taken; the core decides what it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laneway.core.lifecycle.why import reasons
from laneway.core.queue.circuits import named
from laneway.core.queue.shelves import BREAKER, TASK
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.run import Reason
from laneway.core.records.states import RunState
from laneway.ports.gates import CircuitState, Depths, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.users import UserState
from laneway.stores.redis.codec.decode_counts import (
    WorkerLoad,
    alive,
    circuit_of,
    idle_book,
    lane_book,
    lane_of,
    pairs,
    seat_of,
    session_book,
    turns_of,
)
from laneway.stores.redis.codec.decode_why import waiting_of
from laneway.stores.redis.verbs.script_caller import ScriptCaller


class OverviewVerbs:
    """Reads the store as a whole, and changes nothing."""

    def __init__(self, scripts: ScriptCaller) -> None:
        self._scripts = scripts

    async def lanes(self) -> list[LaneState]:
        """Return all lanes, by name."""
        packed, ruled, declared, counts = await self._scripts.call("overviews/lanes")
        by_code, counted = dict(pairs(declared)), dict(pairs(counts))
        books = sorted((name, lane_book(name, book)) for name, book in pairs(packed))
        return [
            LaneState(
                book.lane,
                book.active,
                book.ready(),
                book.pending,
                book.paused,
                name in ruled,
                lane_of(name, by_code[name]) if name in by_code else None,
                {what: int(count) for what, count in sorted(pairs(counted[name]))},
            )
            for name, book in books
        ]

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        """Return users in lanes, by user and lane."""
        rows, caps, paused = await self._scripts.call("overviews/users", user)
        found = _Users(rows, caps, paused)
        keys = sorted(key for key in found.known() if key > after and user in (None, key[0]))
        return [found.state(*key) for key in keys[: max(0, limit)]]

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        """Return sessions, by name."""
        if named is not None:
            return await self._sessions([named])
        names = sorted({name for name in await self._scripts.call("overviews/session_names", prefix) if name > after})
        found: list[SessionState] = []
        while names and len(found) < limit:
            # Race: some may be idle by now; then the page goes on with others.
            page, names = names[: limit - len(found)], names[limit - len(found) :]
            found += await self._sessions(page)
        return found

    async def _sessions(self, names: Sequence[str]) -> list[SessionState]:
        """Return those of these sessions that are not idle or have settings."""
        packed = await self._scripts.call("overviews/sessions", names)
        states = (_session(name, *one) for name, one in zip(names, packed, strict=True))
        return [state for state in states if state is not None]

    async def tasks(self) -> list[TaskState]:
        """Return the tasks, by name."""
        now, workers, beat, paused, disabled, parked, circuits = await self._scripts.call("overviews/tasks")
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
        """Return the gates that are closed for the run."""
        return reasons(waiting_of(*await self._scripts.call("overviews/why", run_id, about=run_id)))

    async def depths(self) -> Depths:
        """Return how many runs there are, by state, and of the pending ones by where they wait."""
        states, (ready, parked, due) = await self._scripts.call("overviews/depths")
        runs = {state: int(count) for state, count in pairs(states)}
        held = runs.get(RunState.PENDING.value, 0) - ready - parked - due
        return Depths(runs=runs, ready=ready, parked=parked, held=held, due=due)

    async def workers(self) -> list[WorkerInfo]:
        """Return the incarnations."""
        return [WorkerLoad.of(packed).info for packed in await self._scripts.call("overviews/workers")]


def _session(name: str, packed: Any, ruled: Any, paused: bool) -> SessionState | None:
    if packed:
        return SessionState.of(name, session_book(packed))
    if ruled or paused:
        return SessionState.of(name, idle_book(ruled, paused=paused))
    return None


def _circuits(packed: Mapping[str, Any], parked: Mapping[str, int], now: int) -> dict[str, list[CircuitState]]:
    """Return the circuits that are open, count failures or have runs parked behind them, by task."""
    found: dict[str, list[CircuitState]] = {}
    for key in sorted({*packed, *parked}):
        circuit = circuit_of(packed.get(key, (0, False, False, False)))
        found.setdefault(named(key)[0], []).append(CircuitState.of(key, circuit, now, parked.get(key, 0)))
    return found


class _Users:
    """Users that have runs in a lane, or settings; keys are user and lane."""

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
        """Return the users with runs or settings; a paused user without either has an empty lane."""
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
