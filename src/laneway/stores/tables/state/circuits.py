"""The circuits of tasks' breakers, in a table: loaded when a rule first needs them, written back at the end.

Most stores have none; then nothing is read.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from laneway.core.lifecycle.why import Holding
from laneway.core.queue import circuits as core
from laneway.core.queue.circuits import NOBODY, Lease, key_of, named
from laneway.core.records.breakers import CLOSED, Circuit
from laneway.ports.gates import CircuitState
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names

_SQL = sql_names("circuits")


class Circuits(core.Circuits):
    """The circuits that a transaction uses. `any_`: there are circuits; `parked`: runs are parked behind some.

    `rescheduled`: the time of the next try has to be read again.
    """

    def __init__(self, db: Database, *, any_: bool, parked: bool) -> None:
        super().__init__()
        self._db, self._any, self.rescheduled = db, any_, parked
        self._tasks: Set[str] | None = None if any_ else NOBODY
        self._changed: set[str] = set()

    @property
    def tasks(self) -> Set[str]:
        """The tasks with a circuit that is not closed, or was not when the transaction began."""
        if self._tasks is None:
            self._tasks = {task for (task,) in self._db.execute(_SQL["tasks"])}
        return self._tasks

    def get(self, key: str) -> Circuit:
        """Return a circuit."""
        if key not in self._kept:
            self.fetch((key,))
        return self._kept[key]

    def fetch(self, keys: Collection[str]) -> None:
        """Load these circuits, in one query."""
        wanted = [key for key in keys if key not in self._kept]
        self._kept |= dict.fromkeys(wanted, CLOSED)
        if wanted and self._any:
            self._kept |= {
                key: _circuit(*facts) for key, *facts in self._db.execute(_SQL["circuits"], (as_json(wanted),))
            }

    def expect(self, runs: Collection[Lease]) -> None:
        """Load the circuits of these runs, in one query."""
        self.fetch({key for run in runs for key in (run.task, key_of(run.task, run.user or ""))})

    def put(self, key: str, circuit: Circuit) -> None:
        """Set a circuit."""
        self._kept[key] = circuit
        self._changed.add(key)
        if circuit.until is not None:
            self._tasks = {*self.tasks, named(key)[0]}
            self.rescheduled = True

    def write(self) -> None:
        """Write back what changed."""
        if self._changed:
            changed = [(key, self._kept[key]) for key in sorted(self._changed)]
            self._db.insert(_SQL["put"], [_row(key, circuit) for key, circuit in changed if circuit != CLOSED])
            self._db.each(_SQL["drop"], [(key,) for key, circuit in changed if circuit == CLOSED])
            self._changed, self._any = set(), True


def close(db: Database, task: str, user: str | None = None) -> None:
    """Close a circuit."""
    db.execute(_SQL["drop"], (key_of(task, user),))


def states(db: Database, now: int) -> dict[str, list[CircuitState]]:
    """Return the states of all circuits, by task."""
    found: dict[str, list[CircuitState]] = {}
    for key, *facts, parked in db.execute(_SQL["all"]):
        found.setdefault(named(key)[0], []).append(CircuitState.of(key, _circuit(*facts), now, parked))
    return found


def holding(db: Database, task: str, user: str | None, now: int) -> list[Holding]:
    """Return the circuits that keep a run of this task and user from starting."""
    rows = db.execute(_SQL["holding"], (as_json([task, key_of(task, user or "")]),)).fetchall()
    found = [(key, _circuit(*facts), probe) for key, *facts, probe in rows]
    return [Holding(key, circuit.until, probe) for key, circuit, probe in found if not circuit.lets_start(now)]


def _circuit(failures: int, until: int | None, probe: int | None, fence: int | None) -> Circuit:
    return Circuit(failures=failures, until=until, probe=None if probe is None or fence is None else (probe, fence))


def _row(key: str, circuit: Circuit) -> Row:
    return key, named(key)[0], circuit.failures, circuit.until, *(circuit.probe or (None, None))
