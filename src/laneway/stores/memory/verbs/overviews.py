"""Overviews of the memory store: why a run waits, and the state of lanes, users, sessions and tasks."""

from __future__ import annotations

from collections.abc import Callable

from laneway.core.lifecycle.outcome import LAST_CHANCE
from laneway.core.lifecycle.why import Holding, Waiting, reasons
from laneway.core.queue.circuits import key_of, named
from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.shelves import Shelf
from laneway.core.queue.turns import AGAIN, LaneBook
from laneway.core.records.run import Reason
from laneway.core.records.states import RunState
from laneway.ports.gates import CircuitState, Depths, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.users import UserState
from laneway.stores.memory.state.records import RunRecord
from laneway.stores.memory.state.state import MemoryState
from laneway.stores.memory.state.workers import WorkerRecord


class Overviews:
    """Reads what is kept; changes nothing."""

    def __init__(self, state: MemoryState, is_dead: Callable[[WorkerRecord], bool]) -> None:
        self._state, self._is_dead = state, is_dead

    def lanes(self) -> list[LaneState]:
        """Return the lanes; see `LaneStore`."""
        state = self._state
        return [
            LaneState(
                book.lane,
                book.active,
                book.ready(),
                book.pending,
                book.paused,
                name in state.ruled_lanes,
                state.declared.get(name),
                {what: count for (lane, what), count in sorted(state.counts.items()) if lane == name},
            )
            for name, book in sorted(state.lanes.items())
        ]

    def users(self, user: str | None, limit: int, after: tuple[str, str]) -> list[UserState]:
        """Return users in lanes; see `UserStore`."""
        state = self._state
        found = {(name, lane) for lane, book in state.lanes.items() for name in [*_seated(book), *_waiting(book)]}
        found |= set(state.caps)
        found |= {(name, "") for name in state.paused_users - {name for name, _ in found}}
        keys = sorted(key for key in found if key > after and user in (None, key[0]))
        return [self._user(*key) for key in keys[:limit]]

    def session(self, name: str) -> SessionState | None:
        """Return a session; see `SessionStore`."""
        state = self._state
        if name not in state.sessions and name not in state.ruled_sessions and name not in state.paused_sessions:
            return None
        idle = name not in state.sessions
        book = state.sessions[name]
        if idle:
            state.sessions.emptied(name)
        return SessionState.of(name, book)

    def sessions(self, prefix: str, limit: int, after: str) -> list[SessionState]:
        """Return sessions by name; see `SessionStore`."""
        state = self._state
        names = sorted({*state.sessions, *state.ruled_sessions, *state.paused_sessions})
        wanted = [name for name in names if name > after and name.startswith(prefix)]
        return [state for name in wanted[:limit] for state in [self.session(name)] if state is not None]

    def tasks(self) -> list[TaskState]:
        """Return the tasks; see `GateStore`."""
        state = self._state
        alive = [worker.incarnation.tasks for worker in state.workers.values() if not self._is_dead(worker)]
        aside = state.heaps.asides()
        circuits = self._circuits()
        names = {*state.paused_tasks, *state.disabled_tasks, *aside, *circuits}.union(*alive)
        return [
            TaskState(
                name=name,
                paused=name in state.paused_tasks,
                disabled=name in state.disabled_tasks,
                workers=sum(name in tasks for tasks in alive),
                aside=aside.get(name, 0),
                circuits=tuple(circuits.get(name, ())),
            )
            for name in sorted(names)
        ]

    def _circuits(self) -> dict[str, list[CircuitState]]:
        """Return the circuits that are open or count failures, or have runs parked, by task."""
        state, now = self._state, self._state.clock.now()
        parked = {key for keys in state.heaps.broken.values() for key in keys}
        found: dict[str, list[CircuitState]] = {}
        for key in sorted({*state.circuits.keys, *parked}):
            stands = CircuitState.of(key, state.circuits.get(key), now, state.heaps.parked_by(key))
            found.setdefault(named(key)[0], []).append(stands)
        return found

    def _breakers(self, run: RunRecord, now: int) -> list[Holding]:
        """Return the circuits that keep the run from starting."""
        found = []
        for key in (run.task, key_of(run.task, run.user or "")):
            circuit = self._state.circuits.get(key)
            if not circuit.lets_start(now):
                probe = None if circuit.probe is None else self._state.numbered(circuit.probe[0]).id
                found.append(Holding(key, circuit.until, probe))
        return found

    def depths(self) -> Depths:
        """Count; see `GateStore`."""
        runs: dict[str, int] = {}
        for record in self._state.records:
            runs[record.state.value] = runs.get(record.state.value, 0) + 1
        shelves = [shelf for shelf, _, run in self._state.heaps.everything() if not run.paused]
        return Depths(runs=runs, **{shelf.value: shelves.count(shelf.value) for shelf in Shelf})

    def why(self, run: RunRecord) -> list[Reason]:
        """Return the gates that are closed for the run; see `GateStore`."""
        state = self._state
        book = state.lanes[run.lane]
        session = None if run.session is None else state.sessions.get(run.session)
        leased = sorted(state.leased(), key=lambda other: other.number)
        knowing = [w for w in state.workers.values() if run.task in w.incarnation.tasks and not self._is_dead(w)]
        most = book.lane.worker_limit
        open_to = [worker for worker in knowing if most is None or worker.spare(run.lane, most) > 0]
        now = state.clock.now()
        came = run.state is RunState.PENDING and run.shelf is not Shelf.DUE
        facts = Waiting(
            state=run.state,
            now=now,
            due_at=min(run.due_at, now) if came else run.due_at,
            task=run.task,
            lane=book.lane,
            user=run.user,
            session=run.session,
            lane_active=[other.id for other in leased if other.lane == run.lane],
            lane_paused=book.paused,
            user_active=[other.id for other in leased if (other.lane, other.user) == (run.lane, run.user)],
            user_cap=None if run.user is None else state.caps.get((run.user, run.lane), book.lane.per_user),
            user_paused=run.user in state.paused_users,
            session_paused=run.session in state.paused_sessions,
            before=[] if session is None else self._before(run, session),
            task_paused=run.task in state.paused_tasks,
            breakers=self._breakers(run, now),
            known=len(knowing),
            open_to=len(open_to),
            ahead=state.heaps.before(run) if run.state is RunState.PENDING else 0,
            wait=run.wait,
            moving=state.moving,
        )
        facts.add_fit([_risks(run, worker) for worker in open_to if not worker.short])
        return reasons(facts)

    def _before(self, run: RunRecord, book: SessionBook) -> list[str]:
        """Return the ids of the runs of its session that it waits for."""
        held = [other.number for other in self._state.heaps.held_by(run.session or "")]
        numbers = book.before(run.number, held, again=bool(run.kind & AGAIN))
        return [self._state.numbered(number).id for number in numbers]

    def _user(self, name: str, lane: str) -> UserState:
        state = self._state
        book = state.lanes.get(lane)
        seat = book.seats.get(name) if book else None
        turns = [turn.waiting for (who, _), turn in book.turns.items() if who == name] if book else []
        return UserState(
            user=name,
            lane=lane,
            active=seat.active if seat else 0,
            waiting=sum(turns),
            cap=state.caps.get((name, lane)),
            paused=name in state.paused_users,
        )


def _waiting(book: LaneBook) -> list[str]:
    """Return the users with runs that wait for their first start there. A turn without such runs may still exist."""
    return [name for (name, _), turn in book.turns.items() if name is not None and turn.waiting]


def _seated(book: LaneBook) -> list[str]:
    """Return the users with seats in use there. The seat of another user may still exist."""
    return [name for name, seat in book.seats.items() if not seat.idle]


def _risks(run: RunRecord, worker: WorkerRecord) -> list[str]:
    """Return the runs on their last chance that the worker executes, if this run is on its last chance, too."""
    if not _on_last_chance(run):
        return []
    return [other.id for _, other in sorted(worker.leases.items()) if _on_last_chance(other) and not other.lapsed]


def _on_last_chance(run: RunRecord) -> bool:
    return run.crashes > 0 and run.reason == LAST_CHANCE  # a checkpoint resets the crashes
