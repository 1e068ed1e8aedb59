"""The core's shelves over tables: `Flow` puts and takes runs within a transaction, `write` writes them back.

**The model.** A transaction reads only the front of the shelves from which it takes, moves runs in memory, and writes
the *net* effect: a run that came back from a session and was claimed at once never is in the ready table. The runs that
were taken from a shelf were its front, so they are deleted as one range, before the runs that were put are inserted.

**Races**: none. The transaction holds the write lock from before its first read to its commit.
**Crash**: before the commit nothing happened; after it everything did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

from laneway.core.queue import shelves as core
from laneway.core.queue.turns import ASIDE
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import Shelf
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.circuit_sets import CircuitSets
from laneway.stores.tables.state.counts import Counts
from laneway.stores.tables.state.due_runs import DueRuns
from laneway.stores.tables.state.prefetch import ShelfPrefetch

_SQL = sql_names("shelves")
# The columns before rank and number in the key of a shelf's table.
_SPOTS: dict[core.Shelf, Callable[[RunRow, str], Row]] = {
    core.Shelf.READY: lambda run, _: (run.lane,),
    core.Shelf.PARKED: lambda run, gate: (run.lane, gate),
    core.Shelf.HELD: lambda run, _: (run.session,),
    core.Shelf.DUE: lambda _, __: (),
}


class Shelves:
    """Implements `core.queue.shelves.Shelves`. `aside`: runs are set aside; for the others see `ShelfPrefetch`."""

    def __init__(
        self,
        db: Database,
        counts: Counts,
        sets: CircuitSets,
        *,
        aside: bool,
        resumed: bool,
        counted: bool,
    ) -> None:
        self._db, self._counts, self._sets = db, counts, sets
        self.prefetch = ShelfPrefetch(db, counts, sets, resumed=resumed, counted=counted)
        self.future = DueRuns(db)
        # Per lane and task, the number of runs set aside. Read at the first use, if there are any.
        self._asides: dict[str, dict[str, int]] | None = None if aside else {}
        self._aside_changed: set[tuple[str, str]] = set()

    @property
    def broken(self) -> Mapping[str, Collection[str]]:
        """The keys of circuits behind which runs are parked that may start, by lane."""
        return self._sets.open

    def put_ready(self, run: RunRow) -> None:
        """Put the run into its lane's ready order."""
        self.prefetch.ready_of(run.lane).put(run)

    def taking(self, lane: str, tasks: Set[str], gates: Set[str] = core.NO_GATES) -> Callable[[], RunRow | None]:
        """Return a function that takes the lane's first run, ready or set aside for one of these tasks and gates."""
        shelf, asides = self.prefetch.ready_of(lane), self._aside().get(lane)
        if asides or gates:
            return partial(self._take_merged, lane, shelf, asides or {}, tasks, gates)
        return partial(shelf.take, self.prefetch)

    def _take_merged(
        self, lane: str, shelf: Shelf, asides: dict[str, int], tasks: Set[str], gates: Set[str]
    ) -> RunRow | None:
        names = [*(core.TASK + task for task, runs in asides.items() if runs and task in tasks), *gates]
        prefetch = self.prefetch
        sets = {gate: prefetch.parked_of(lane, gate) for gate in names}
        firsts = [(key, gate) for gate, aside in sets.items() if (key := aside.first(prefetch)) is not None]
        front = shelf.first(prefetch)
        if not firsts or (front is not None and front < min(firsts)[0]):
            return shelf.take(prefetch)
        gate = min(firsts)[1]
        self._count(lane, gate, -1)
        return self.take_parked(lane, gate)

    def put_parked(self, run: RunRow, gate: str) -> None:
        """Put the run into a parked set of its lane."""
        self.prefetch.parked_of(run.lane, gate).put(run)
        if run.kind & ASIDE:
            self._count(run.lane, gate, 1)

    def take_parked(self, lane: str, gate: str) -> RunRow:
        """Take the first of a parked set."""
        run = self.prefetch.parked_of(lane, gate).take(self.prefetch)
        assert run is not None, f"the counts say that {gate} of {lane} has parked runs"
        return run

    def put_held(self, run: RunRow, place: int) -> None:
        """Put the run behind its session."""
        assert run.session is not None
        run.rank = place
        self.prefetch.held_of(run.session).put(run)

    def take_held(self, session: str) -> RunRow:
        """Take the first of the session's held runs."""
        run = self.prefetch.held_of(session).take(self.prefetch)
        assert run is not None, f"the counts say that session {session} holds runs back"
        return run

    def put_due(self, run: RunRow, due_at: int) -> None:
        """Keep the run until its due time."""
        self.future.put(run, due_at)

    def remove(self, run: RunRow, hint: int, due_at: int) -> core.Shelf:
        """Remove a run before its turn, set its rank and kind, and return the shelf it was on.

        `hint` is its rank at acceptance. Call this before anything is put or taken.
        """
        wanted = (run.number, run.lane, run.user, run.task, run.session, hint, due_at)
        [[name, gate, run.rank, run.kind]] = self._db.execute(_SQL["find"], wanted).fetchall()
        shelf = core.Shelf(name)
        self.future.removed = self.future.removed or shelf is core.Shelf.DUE
        self._db.execute(_SQL[f"remove_{name}"], (*_SPOTS[shelf](run, gate), run.rank, run.number))
        self._count(run.lane, gate, -1)
        return shelf

    def held(self, run: RunRow) -> int | None:
        """Return the place at which its session holds the run, if it does, according to the tables."""
        row = self._db.execute(_SQL["held_run"], (run.session, run.number)).fetchone()
        return None if row is None else int(row[0])

    def pause_held(self, run: RunRow, place: int, *, paused: bool) -> None:
        """Mark a run as paused where it is held, or not any more."""
        self._db.execute(_SQL["pause_held"], (paused, run.session, place, run.number))

    def remove_held(self, run: RunRow, place: int) -> None:
        """Remove a held run that is paused."""
        self._db.execute(_SQL["remove_held"], (run.session, place, run.number))

    def take_due(self, now: int, limit: int) -> tuple[list[RunRow], bool]:
        """Take up to `limit` runs that are due; return them, and whether there are more."""
        runs, more = self.future.take(now, limit)
        self._counts.fetch(self.prefetch.complete(runs))
        return runs, more

    def lanes_with_work(self, tasks: Set[str]) -> list[str]:
        """Return the lanes that have runs for a worker that knows these tasks."""
        lanes = self._counts.lanes.with_ready()
        for lane, asides in self._aside().items():
            if any(runs and task in tasks for task, runs in asides.items()):
                lanes.add(lane)
        return sorted(lanes)

    def bodies(self, runs: Iterable[RunRow]) -> None:
        """Read the missing columns of runs that a worker gets."""
        bare = {run.number: run for run in runs if run.args is None}
        if bare:
            for number, *body in self._db.execute(_SQL["bodies"], (as_json(bare),)):
                run = bare[number]
                run.id, run.args, run.checkpoint, run.prepared, run.kept = body

    # Writing back

    def write(self) -> None:
        """Write the net effect, once: first delete the runs that were taken, then insert those that were put."""
        db, ready, parked, held = self._db, self.prefetch.ready, self.prefetch.parked, self.prefetch.held
        db.each(_SQL["drop_ready"], [(*shelf.key, *shelf.taken[-1]) for shelf in ready.values() if shelf.taken])
        self._drop_parked([shelf for shelf in parked.values() if shelf.taken])
        db.each(_SQL["drop_held"], [(*shelf.key, *shelf.taken[-1]) for shelf in held.values() if shelf.taken])
        db.insert(_SQL["put_ready"], [(*key, run.rank, run.number, run.kind) for key, run in _put(ready)])
        db.insert(_SQL["put_parked"], [(*key, run.rank, run.number, run.kind) for key, run in _put(parked)])
        db.insert(_SQL["put_held"], [(*key, run.rank, run.number, run.kind, run.paused) for key, run in _put(held)])
        self.future.write()
        self._write_asides()
        self._sets.write()

    def _drop_parked(self, shelves: Sequence[Shelf]) -> None:
        """Delete the runs that were taken: mostly one run, and deleting by its key is faster than a range.

        Over a network one statement for all is faster.
        """
        one: list[Row] = []
        more: list[Row] = []
        fewest = 1 if self._db.ahead else 2
        for shelf in shelves:
            taken = shelf.taken
            (one if len(taken) < fewest else more).append((*shelf.key, *taken[-1]))
        self._db.each(_SQL["remove_parked"], one)
        self._db.each(_SQL["drop_parked"], more)

    def _write_asides(self) -> None:
        if self._aside_changed:
            counts = [(lane, task, self._aside()[lane][task]) for lane, task in self._aside_changed]
            self._db.insert(_SQL["set_aside"], [row for row in counts if row[2]])
            self._db.each(_SQL["drop_aside"], [row[:2] for row in counts if not row[2]])

    def _aside(self) -> dict[str, dict[str, int]]:
        if self._asides is None:
            self._asides = {}
            for lane, task, runs in self._db.execute(_SQL["asides"]):
                self._asides.setdefault(lane, {})[task] = runs
        return self._asides

    def _count(self, lane: str, gate: str, change: int) -> None:
        """Add to the number of runs parked behind a task or a breaker; the rules count parked runs of users."""
        if gate.startswith(core.TASK):
            task, asides = gate.removeprefix(core.TASK), self._aside().setdefault(lane, {})
            asides[task] = asides.get(task, 0) + change
            self._aside_changed.add((lane, task))
        elif gate.startswith(core.BREAKER):
            self._sets.count(lane, gate.removeprefix(core.BREAKER), change)


def _put(shelves: Mapping[Any, Shelf]) -> Iterator[tuple[tuple[str, ...], RunRow]]:
    """Return the runs that were put on these shelves and not taken since, with the keys of the shelves."""
    return ((shelf.key, run) for shelf in shelves.values() for run in shelf.fresh.values())
