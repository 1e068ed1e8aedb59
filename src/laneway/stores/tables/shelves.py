"""The core's shelves over tables: what `Flow` puts and takes within one transaction, written back at its end.

**The model.** A transaction reads only the front of the shelves it takes from, keeps what it moves in memory, and
writes the *net* effect: a run that came back from a session and was claimed at once was never in the ready table. What
was taken from a shelf is its front, so it is deleted as one range, before what was put there is inserted.

**Races**: none. The transaction holds the write lock from before its first read to its commit.
**Crash**: before the commit nothing happened; after it everything did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from operator import attrgetter

from laneway.core import shelves as core
from laneway.core.turns import AGAIN, ASIDE, BACK
from laneway.stores.tables.brokensets import BrokenSets
from laneway.stores.tables.database import Database, Question
from laneway.stores.tables.futures import Futures
from laneway.stores.tables.ledgers import Books
from laneway.stores.tables.lines import Key, Line, Shelf
from laneway.stores.tables.remembering import Memory
from laneway.stores.tables.statements import Row, as_json, sql_names

_SQL = sql_names("shelves")
_DEEPEST = 16  # runs to read ahead of one parked set
_TOGETHER = 16  # rows of held runs that are deleted at once
# What stands before rank and number in the key of a shelf's table.
_SPOTS: dict[core.Shelf, Callable[[Line, str], Row]] = {
    core.Shelf.READY: lambda run, _: (run.lane,),
    core.Shelf.PARKED: lambda run, gate: (run.lane, gate),
    core.Shelf.HELD: lambda run, _: (run.session,),
    core.Shelf.DUE: lambda _, __: (),
}


class Shelves:
    """Fulfils `core.shelves.Shelves`. `page` is how many ready runs to read at once.

    The fronts of parked sets and of what sessions hold back are looked for in `memory` first, and left there.
    `counted`: the counts that were read are those of the tables.
    """

    def __init__(
        self,
        db: Database,
        books: Books,
        memory: Memory | None,
        sets: BrokenSets,
        *,
        aside: bool,
        resumed: bool,
        counted: bool,
    ) -> None:
        self._db, self._books, self._memory, self._resumed = db, books, memory or Memory(), resumed
        self._counted = counted
        self._sets = sets
        self.page = 8
        self._ready: dict[str, Shelf] = {}
        self._parked: dict[tuple[str, str], Shelf] = {}
        self._held: dict[str, Shelf] = {}
        self.future = Futures(db)
        # Per lane and task: how many are set aside. Read when first asked for, if there are any.
        self._asides: dict[str, dict[str, int]] | None = None if aside else {}
        self._aside_changed: set[tuple[str, str]] = set()

    @property
    def broken(self) -> Mapping[str, Collection[str]]:
        """The keys of circuits behind which runs are parked that may start, by lane."""
        return self._sets.open

    def put_ready(self, run: Line) -> None:
        """Put the run into its lane's ready order."""
        (self._ready.get(run.lane) or self._ready_shelf(run.lane)).put(run)

    def taking(self, lane: str, tasks: Set[str], gates: Set[str] = core.NO_GATES) -> Callable[[], Line | None]:
        """Return what takes the first of the lane's ready order and of the sets aside for these tasks and gates."""
        shelf = self._ready.get(lane) or self._ready_shelf(lane)
        asides = self._aside().get(lane)
        return partial(self._take_merged, lane, shelf, asides or {}, tasks, gates) if asides or gates else shelf.take

    def _take_merged(
        self, lane: str, shelf: Shelf, asides: dict[str, int], tasks: Set[str], gates: Set[str]
    ) -> Line | None:
        names = [*(core.TASK + task for task, runs in asides.items() if runs and task in tasks), *gates]
        sets = {gate: self._parked_shelf(lane, gate) for gate in names}
        firsts = [(key, gate) for gate, aside in sets.items() if (key := aside.first()) is not None]
        front = shelf.first()
        if not firsts or (front is not None and front < min(firsts)[0]):
            return shelf.take()
        gate = min(firsts)[1]
        self._count(lane, gate, -1)
        return sets[gate].take()

    def put_parked(self, run: Line, gate: str) -> None:
        """Put the run into a parked set of its lane."""
        (self._parked.get((run.lane, gate)) or self._parked_shelf(run.lane, gate)).put(run)
        if run.kind & ASIDE:
            self._count(run.lane, gate, 1)

    def take_parked(self, lane: str, gate: str) -> Line:
        """Take the first of a parked set."""
        run = (self._parked.get((lane, gate)) or self._parked_shelf(lane, gate)).take()
        assert run is not None, f"the counts say that {gate} of {lane} has parked runs"
        return run

    def put_held(self, run: Line, place: int) -> None:
        """Put the run behind its session."""
        assert run.session is not None
        run.rank = place
        self._held_shelf(run.session).put(run)

    def take_held(self, session: str) -> Line:
        """Take the first of the session's held runs."""
        run = (self._held.get(session) or self._held_shelf(session)).take()
        assert run is not None, f"the counts say that session {session} holds runs back"
        return run

    def put_due(self, run: Line, due_at: int) -> None:
        """Keep the run until its due time."""
        self.future.put(run, due_at)

    def remove(self, run: Line, hint: int, due_at: int) -> core.Shelf:
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

    def held(self, run: Line) -> int | None:
        """Return at which place its session holds the run, if it does, as the tables say."""
        row = self._db.execute(_SQL["held_run"], (run.session, run.number)).fetchone()
        return None if row is None else int(row[0])

    def pause_held(self, run: Line, place: int, *, paused: bool) -> None:
        """Mark a run as paused where it is held, or not any more."""
        self._db.execute(_SQL["pause_held"], (paused, run.session, place, run.number))

    def remove_held(self, run: Line, place: int) -> None:
        """Take a run out that is paused where it is held."""
        self._db.execute(_SQL["remove_held"], (run.session, place, run.number))

    def take_due(self, now: int, limit: int) -> tuple[list[Line], bool]:
        """Take up to `limit` runs that are due; return them, and whether there are more."""
        runs, more = self.future.take(now, limit)
        self._memory.count(runs)
        self._books.fetch(self._complete(runs))
        return runs, more

    def lanes_with_work(self, tasks: Set[str]) -> list[str]:
        """Return the lanes that have something for a worker that knows these tasks."""
        lanes = self._books.lanes.with_ready()
        for lane, asides in self._aside().items():
            if any(runs and task in tasks for task, runs in asides.items()):
                lanes.add(lane)
        return sorted(lanes)

    def expect(self, runs: Collection[Line], read: Collection[Line]) -> None:
        """Load, in one query each, what will follow when these runs free their slots and session places.

        `read` are those of them that were read now; the others are remembered, and so is what is counted of them.
        """
        self._books.fetch(read)
        users: dict[tuple[str, str], int] = {}
        sessions: dict[str, int] = {}
        for run in runs:
            if run.user is not None:
                seat = run.lane, run.user
                users[seat] = users.get(seat, 0) + 1
            if run.session is not None:
                sessions[run.session] = sessions.get(run.session, 0) + 1
        if users:
            self._expect_parked(users)
        if sessions:
            self._expect_held(sessions)
        if self._db.ahead:
            self._expect_more(users, sessions)

    def bodies(self, runs: Iterable[Line]) -> None:
        """Read what those came without that are handed to a worker."""
        bare = {run.number: run for run in runs if run.args is None}
        if bare:
            for number, *body in self._db.execute(_SQL["bodies"], (as_json(bare),)):
                run = bare[number]
                run.id, run.args, run.checkpoint, run.prepared, run.kept = body

    # Writing back

    def write(self, *, last: bool) -> None:
        """Write the net effect; first what was taken, then what was put.

        What sessions held is not always deleted at once when it is taken, if this is the `last` that is written before
        their books are: see `_drop_held`.
        """
        self._delete_taken(last=last)
        db = self._db
        ready = [run for shelf in self._ready.values() for run in shelf.left()]
        db.insert(_SQL["put_ready"], [(run.lane, run.rank, run.number, run.kind) for run in ready])
        parked = [(gate, run) for (_, gate), shelf in self._parked.items() if shelf.is_changed for run in shelf.left()]
        db.insert(_SQL["put_parked"], [(run.lane, gate, run.rank, run.number, run.kind) for gate, run in parked])
        held = [run for shelf in self._held.values() if shelf.is_changed for run in shelf.left()]
        db.insert(_SQL["put_held"], [(run.session, run.rank, run.number, run.kind, run.paused) for run in held])
        self.future.write()
        self._write_asides()
        self._sets.write()
        for shelf in chain(self._parked.values(), self._held.values()):
            if shelf.is_changed or shelf.taken:
                shelf.written()
        self._memory.parked |= self._parked
        self._memory.held |= self._held

    def _delete_taken(self, *, last: bool) -> None:
        db = self._db
        db.each(_SQL["drop_ready"], [(lane, *s.taken_to) for lane, s in self._ready.items() if s.taken_to])
        self._drop_parked()
        self._drop_held(last=last)

    def _drop_held(self, *, last: bool) -> None:
        """Delete what sessions have let in, or leave it where it is: their books tell how far they have come.

        Such rows lie far apart, so one by one they cost a page each. They are deleted once a place is passed that can
        be divided by sixteen, or nothing is held any more.
        """
        sessions, gone = self._books.sessions, list[Row]()
        for name, shelf in self._held.items():
            if shelf.taken_to is not None:
                first, place = shelf.taken_from, shelf.taken_to[0]
                # Where something was put, too, the session may have begun anew.
                may = last and not shelf.is_changed and first >= 1 and sessions[name].held
                if may and (sessions.passed(name) or first - 1) // _TOGETHER == place // _TOGETHER:
                    sessions.passing[name] = place
                    continue
                gone.append((name, *shelf.taken_to))
                if place >= sessions.passed(name):  # what came back to the front is deleted alone
                    sessions.passing[name] = 0
        self._db.each(_SQL["drop_held"], gone)

    def _drop_parked(self) -> None:
        """Delete what was taken: mostly one run, which is found sooner by its key than as a range.

        Where each statement is sent to a server, one for all is better.
        """
        one: list[Row] = []
        more: list[Row] = []
        fewest = 1 if self._db.ahead else 2
        for shelf in self._parked.values():
            if shelf.taken_to is not None:
                (one if shelf.taken < fewest else more).append((*shelf.key, *shelf.taken_to))
        self._db.each(_SQL["remove_parked"], one)
        self._db.each(_SQL["drop_parked"], more)

    def _write_asides(self) -> None:
        if self._aside_changed:
            counts = [(lane, task, self._aside()[lane][task]) for lane, task in self._aside_changed]
            self._db.insert(_SQL["set_aside"], [row for row in counts if row[2]])
            self._db.each(_SQL["drop_aside"], [row[:2] for row in counts if not row[2]])

    # Reading

    def _expect_parked(self, freed: Mapping[tuple[str, str], int]) -> None:
        """Load the fronts of users' parked sets; `freed` is how many slots of each user, by lane, will be free."""
        lanes, known = self._books.lanes, self._memory.parked
        gates = [
            gate
            for lane, user in freed
            if (seat := lanes[lane].seats[user]).parked
            and (gate := (lane, seat.gate or f"user:{user}")) not in known
            and self._parked_shelf(*gate).is_new
        ]
        if gates:
            # As many as slots are freed may come back; one more is looked at by whoever starts the last of them.
            depth = min(max(freed.values()) + 1, _DEEPEST)
            firsts: dict[Shelf, list[Line]] = {}
            for *facts, gate in self._db.execute(_SQL["first_parked"], (as_json(gates), depth)).fetchall():
                run = Line(*facts)
                firsts.setdefault(self._parked_shelf(run.lane, gate), []).append(run)
            self._prime(firsts)

    def _expect_held(self, wanted: Collection[str]) -> None:
        sessions, known = self._books.sessions, self._memory.held
        unknown = [name for name in wanted if name not in known]
        names = {name for name in unknown if sessions[name].held and self._held_shelf(name).is_new}
        if names:
            firsts: dict[Shelf, list[Line]] = {}
            for row in self._db.execute(_SQL["first_held"], (as_json(names),)).fetchall():
                run = Line(*row)
                firsts.setdefault(self._held_shelf(str(run.session)), []).append(run)
            self._prime(firsts)

    def _expect_more(self, users: Mapping[tuple[str, str], int], names: Mapping[str, int]) -> None:
        """Expect what comes next on the shelves that will run out: for each run one to come back, and one to follow."""
        lanes, sessions = self._books.lanes, self._books.sessions
        parked = [
            (self._parked_shelf(lane, seat.gate or f"user:{user}"), count)
            for (lane, user), count in users.items()
            if (seat := lanes[lane].seats[user]).parked
        ]
        for shelf, count in parked:
            after = shelf.runs_out(2 * count + 1)
            if after is not None:
                self._db.expect(Question(_SQL["parked"], (*shelf.key, *after), self._count_of(shelf.pages)))
        for name, count in names.items():
            if sessions[name].held and (shelf := self._held_shelf(name)).coming is None:
                # Mostly what is left will do for this step, and what is asked for now comes with its COMMIT.
                after = shelf.runs_out(count + 1)
                if after is not None:
                    place = (*shelf.key, *after, sessions.passed(name))
                    shelf.coming = self._db.page_later(_SQL["held"], place, self._count_of(shelf.pages))

    def _prime(self, firsts: Mapping[Shelf, list[Line]]) -> None:
        """Hand each shelf its first runs."""
        runs = self._complete([run for found in firsts.values() for run in found])
        self._memory.count(runs)
        self._books.fetch(runs)
        for shelf, found in firsts.items():
            found.sort(key=attrgetter("rank", "number"))
            shelf.prime(found)

    def _ready_shelf(self, lane: str) -> Shelf:
        def read(_: Shelf, after: Key, page: int) -> tuple[Sequence[Line], bool]:
            # No more than the lane has room for (and a few that may have to be parked) can be of use.
            count = min(self.page, max(8, self._books.lanes[lane].room()))
            rows, more = self._db.page(_SQL["ready"], (lane, *after), count)
            runs = self._complete([Line(*row) for row in rows])
            self._books.fetch(runs)
            # One that came back brings its user's next one back when it is started.
            self._expect_parked(
                Counter((run.lane, run.user) for run in runs if run.kind & BACK and run.user is not None)
            )
            self._sets.expect(runs)
            return runs, more

        shelf = self._ready[lane] = Shelf((lane,))
        shelf.read = read
        if self._counted and not self._books.lanes.had_ready(lane):
            shelf.know_empty()
        return shelf

    def _parked_shelf(self, lane: str, gate: str) -> Shelf:
        key = lane, gate
        shelf = self._parked.get(key)
        if shelf is None:
            shelf = self._parked[key] = self._memory.parked.get(key) or Shelf(key)
            shelf.read = self._read_parked
        return shelf

    def _held_shelf(self, session: str) -> Shelf:
        shelf = self._held.get(session)
        if shelf is None:
            shelf = self._held[session] = self._memory.held.get(session) or Shelf((session,))
            shelf.read = self._read_held
        return shelf

    def _read_parked(self, shelf: Shelf, after: Key, page: int) -> tuple[Sequence[Line], bool]:
        runs, more = self._read("parked", shelf, after, page)
        self._books.fetch(runs)
        return runs, more

    def _read_held(self, shelf: Shelf, after: Key, page: int) -> tuple[Sequence[Line], bool]:
        # Of those behind the first, one is admitted now and then, mostly of a user who is known: no need to look ahead.
        return self._read("held", shelf, (*after, self._books.sessions.passed(*shelf.key)), page)

    def _read(self, statement: str, shelf: Shelf, after: Row, page: int) -> tuple[list[Line], bool]:
        if shelf.coming is not None:
            (rows, more), shelf.coming = shelf.coming(), None
        else:
            rows, more = self._db.page(_SQL[statement], (*shelf.key, *after), self._count_of(page))
        runs = self._complete([Line(*row) for row in rows])
        self._memory.count(runs)
        self._sets.expect(runs)
        return runs, more

    def _count_of(self, page: int) -> int:
        # Mostly one run is asked for; who asks for more will ask for many, and so does who has far to go.
        return int(4 ** min(page + max(page > 0, self._db.ahead), 4))

    def _complete(self, runs: list[Line]) -> list[Line]:
        resumed = self._resumed
        again = {run.number: run for run in runs if resumed or run.kind & AGAIN}
        if again:
            for number, *facts in self._db.execute(_SQL["tried"], (as_json(again),)):
                run = again[number]
                run.attempt, run.crashes, run.fence, run.events, run.checkpoint, run.prepared, run.kept = facts
        return runs

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
