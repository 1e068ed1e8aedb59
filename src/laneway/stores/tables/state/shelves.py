"""The core's shelves over tables: what `Flow` puts and takes within one transaction, written back at its end.

**The model.** A transaction reads only the front of the shelves it takes from, keeps what it moves in memory, and
writes the *net* effect: a run that came back from a session and was claimed at once was never in the ready table. What
was taken from a shelf is its front, so it is deleted as one range, before what was put there is inserted.

**Races**: none. The transaction holds the write lock from before its first read to its commit.
**Crash**: before the commit nothing happened; after it everything did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import partial
from itertools import chain

from laneway.core.queue import shelves as core
from laneway.core.queue.turns import ASIDE
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import Shelf
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.circuit_sets import CircuitSets
from laneway.stores.tables.state.counts import Counts
from laneway.stores.tables.state.due_runs import DueRuns
from laneway.stores.tables.state.prefetch import ShelfPrefetch

_SQL = sql_names("shelves")
# What stands before rank and number in the key of a shelf's table.
_SPOTS: dict[core.Shelf, Callable[[RunRow, str], Row]] = {
    core.Shelf.READY: lambda run, _: (run.lane,),
    core.Shelf.PARKED: lambda run, gate: (run.lane, gate),
    core.Shelf.HELD: lambda run, _: (run.session,),
    core.Shelf.DUE: lambda _, __: (),
}


class Shelves:
    """Fulfils `core.shelves.Shelves`. `fronts` reads their tables; `aside`: some runs are set aside."""

    def __init__(
        self,
        db: Database,
        counts: Counts,
        cache: StepCache,
        sets: CircuitSets,
        *,
        aside: bool,
        resumed: bool,
        counted: bool,
    ) -> None:
        self._db, self._counts, self._cache, self._sets = db, counts, cache, sets
        self.prefetch = ShelfPrefetch(db, counts, self._cache, sets, resumed=resumed, counted=counted)
        # Of the shelves that are remembered, those whose tables had what this transaction took, and those it put to.
        self._less_parked: list[Shelf] = []
        self._less_held: list[Shelf] = []
        self._more_parked: list[Shelf] = []
        self._more_held: list[Shelf] = []
        self.future = DueRuns(db)
        # Per lane and task: how many are set aside. Read when first asked for, if there are any.
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
        """Return what takes the first of the lane's ready order and of the sets aside for these tasks and gates."""
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
        shelf = self.prefetch.parked_of(run.lane, gate)
        if not shelf.fresh:
            self._more_parked.append(shelf)
        shelf.put(run)
        if run.kind & ASIDE:
            self._count(run.lane, gate, 1)

    def take_parked(self, lane: str, gate: str) -> RunRow:
        """Take the first of a parked set."""
        run = self._take(self.prefetch.parked_of(lane, gate), self._less_parked)
        assert run is not None, f"the counts say that {gate} of {lane} has parked runs"
        return run

    def put_held(self, run: RunRow, place: int) -> None:
        """Put the run behind its session."""
        assert run.session is not None
        run.rank = place
        shelf = self.prefetch.held_of(run.session)
        if not shelf.fresh:
            self._more_held.append(shelf)
        shelf.put(run)

    def take_held(self, session: str) -> RunRow:
        """Take the first of the session's held runs."""
        run = self._take(self.prefetch.held_of(session), self._less_held)
        assert run is not None, f"the counts say that session {session} holds runs back"
        return run

    def _take(self, shelf: Shelf, less: list[Shelf]) -> RunRow | None:
        """Take the first of a shelf, which is one of those that have less then if its table had it."""
        was = len(shelf.taken)
        run = shelf.take(self.prefetch)
        if not was and shelf.taken:
            less.append(shelf)
        return run

    def put_due(self, run: RunRow, due_at: int) -> None:
        """Keep the run until its due time."""
        self.future.put(run, due_at)

    def remove(self, run: RunRow, hint: int, due_at: int) -> core.Shelf:
        """Take a run out before its turn, and set how and where it stood; return where that was.

        `hint` is the key it had when it was accepted. Call it before anything is put or taken.
        """
        wanted = (run.number, run.lane, run.user, run.task, run.session, hint, due_at)
        [[name, gate, run.rank, run.kind]] = self._db.execute(_SQL["find"], wanted).fetchall()
        shelf = core.Shelf(name)
        self.future.removed = self.future.removed or shelf is core.Shelf.DUE
        self._db.execute(_SQL[f"remove_{name}"], (*_SPOTS[shelf](run, gate), run.rank, run.number))
        self._count(run.lane, gate, -1)
        return shelf

    def held(self, run: RunRow) -> int | None:
        """Return at which place its session holds the run, if it does, as the tables say."""
        row = self._db.execute(_SQL["held_run"], (run.session, run.number)).fetchone()
        return None if row is None else int(row[0])

    def pause_held(self, run: RunRow, place: int, *, paused: bool) -> None:
        """Mark a run as paused where it is held, or not any more."""
        self._db.execute(_SQL["pause_held"], (paused, run.session, place, run.number))

    def remove_held(self, run: RunRow, place: int) -> None:
        """Take a run out that is paused where it is held."""
        self._db.execute(_SQL["remove_held"], (run.session, place, run.number))

    def take_due(self, now: int, limit: int) -> tuple[list[RunRow], bool]:
        """Take up to `limit` runs that are due; return them, and whether there are more."""
        runs, more = self.future.take(now, limit)
        self._cache.count(runs)
        self._counts.fetch(self.prefetch.complete(runs))
        return runs, more

    def lanes_with_work(self, tasks: Set[str]) -> list[str]:
        """Return the lanes that have something for a worker that knows these tasks."""
        lanes = self._counts.lanes.with_ready()
        for lane, asides in self._aside().items():
            if any(runs and task in tasks for task, runs in asides.items()):
                lanes.add(lane)
        return sorted(lanes)

    def bodies(self, runs: Iterable[RunRow]) -> None:
        """Read what those came without that are handed to a worker."""
        bare = {run.number: run for run in runs if run.args is None}
        if bare:
            for number, *body in self._db.execute(_SQL["bodies"], (as_json(bare),)):
                run = bare[number]
                run.id, run.args, run.checkpoint, run.prepared, run.kept = body

    # Writing back

    def write(self) -> None:
        """Write the net effect; first what was taken, then what was put."""
        self._delete_taken()
        db = self._db
        ready = [run for shelf in self.prefetch.ready.values() for run in shelf.fresh.values()]
        db.insert(_SQL["put_ready"], [(run.lane, run.rank, run.number, run.kind) for run in ready])
        if self._more_parked:
            parked = list[Row]()
            for shelf in self._more_parked:
                lane, gate = shelf.key
                parked += [(lane, gate, run.rank, run.number, run.kind) for run in shelf.fresh.values()]
                shelf.written()  # now: it may be named here more than once
            db.insert(_SQL["put_parked"], parked)
        if self._more_held:
            held = list[Row]()
            for shelf in self._more_held:
                [name] = shelf.key
                held += [(name, run.rank, run.number, run.kind, run.paused) for run in shelf.fresh.values()]
                shelf.written()
            db.insert(_SQL["put_held"], held)
        self.future.write()
        self._write_asides()
        self._sets.write()
        for shelf in chain(self._less_parked, self._less_held):
            shelf.taken.clear()

    def _delete_taken(self) -> None:
        db = self._db
        db.each(_SQL["drop_ready"], [(lane, *s.taken[-1]) for lane, s in self.prefetch.ready.items() if s.taken])
        if self._less_parked:
            self._drop_parked()
        if self._less_held:
            db.each(_SQL["drop_held"], [(*shelf.key, *shelf.taken[-1]) for shelf in self._less_held])

    def _drop_parked(self) -> None:
        """Delete what was taken: mostly one run, which is found sooner by its key than as a range.

        Where each statement is sent to a server, one for all is better.
        """
        one: list[Row] = []
        more: list[Row] = []
        fewest = 1 if self._db.ahead else 2
        for shelf in self._less_parked:
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
        """Count so many more as parked behind a task or a breaker; users' parked runs are counted by the rules."""
        if gate.startswith(core.TASK):
            task, asides = gate.removeprefix(core.TASK), self._aside().setdefault(lane, {})
            asides[task] = asides.get(task, 0) + change
            self._aside_changed.add((lane, task))
        elif gate.startswith(core.BREAKER):
            self._sets.count(lane, gate.removeprefix(core.BREAKER), change)
