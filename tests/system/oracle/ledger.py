"""The ledger: compares a store that has come to rest with the journal of what really happened.

`check` prints figures, and fails with everything that is wrong:

- nothing lost: every acknowledged run is there, every run has ended;
- one end each: events numbered without gaps, one `done`, the last; every start but the last given back exactly once;
- one holder each: no lease was executed twice, and no two attempts of a run overlap while both processes live;
- the result is the last lease's own, so no late worker's result was ever written;
- a session's runs start in order and within its `max_concurrent`; lanes and users within their limits, always;
- nothing is left behind: no lease, no slot, no place in a session, and the file is whole.

A handler starts after its claim and ends before its settlement, so what the journal shows at once the store held at
once: a limit that is broken in the journal was broken in the store.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from laneway import Event, Lane, Run, Scheduler
from laneway.core.records.events import CALLED, DONE, LAPSED, QUESTION, RELEASED, RETRYING, STARTED
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from tests.support.invariants import all_runs, check_invariants
from tests.support.sessions import session_of
from tests.system.harness.stage import Stage, say
from tests.system.load.app import LANES, MARKS, plod, stroll
from tests.system.load.mixed_load import max_concurrent
from tests.system.oracle.journal import Attempt, How, Journal, Line, What

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
GIVEN_BACK = (LAPSED, RELEASED, RETRYING)
WAITING = (QUESTION, CALLED)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a test prints; the zeros were checked."""

    runs: int
    attempts: int  # handlers that began
    kills: int
    taken_over: int  # leases of the dead
    released: int
    retried: int
    failed: int
    twice: int  # handlers that came to their end although another attempt of the run did
    by_process: Mapping[str, int]  # attempts
    peaks: Mapping[str, int]  # attempts at once, by lane

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.attempts} attempts, {self.kills} kills, {self.taken_over} taken over,"
            f" {self.released} released, {self.retried} retried, {self.failed} failed, {self.twice} finished twice;"
            " lost 0, out of order 0, over a limit 0, held twice 0, left behind 0"
        )


@dataclass(frozen=True)
class Books:
    """The store's view (runs and their events) beside the world's (what was executed)."""

    runs: Mapping[str, Run]
    logs: Mapping[str, Sequence[Event]]
    journal: Journal

    @cached_property
    def attempts(self) -> list[Attempt]:
        """What was executed, in order of starting, while its process had a right to it.

        What was executed and is not in the store, `_lost` reports.
        """
        known = [one for one in self.journal.attempts() if one.run in self.runs]
        return [one for one in map(self._rightful, known) if one is not None]

    def _rightful(self, attempt: Attempt) -> Attempt | None:
        # A frozen worker loses its leases. When it goes on, so do the handlers it had begun, and those begin that it
        # was about to: it had looked at its clock, and was frozen before it came to the handler. Nobody can prevent
        # that. They must come to nothing: see `_wrong_result`. Whatever else it had claimed, or was given meanwhile
        # because it had lent its next step, it must not begin, and that is not excused.
        if attempt.fence not in self.lapsed_fences(attempt.run):
            return attempt
        frozen = [line.at for line in self._freezes if line.process == attempt.process]
        taken = self._taken.get((attempt.run, attempt.fence), attempt.began)
        if any(taken < at <= attempt.began for at in frozen):
            return None
        went_on = [at for at in frozen if at > attempt.began and (attempt.ended is None or at < attempt.ended)]
        return replace(attempt, ended=went_on[0], how=None) if went_on else attempt

    @cached_property
    def _freezes(self) -> list[Line]:
        return self.journal.of(What.FREEZE)

    @cached_property
    def _taken(self) -> dict[tuple[str, int], int]:
        """When the worker of a lease last looked whether it may begin."""
        return {(line.run, line.fence): line.at for line in self.journal.of(What.TAKEN)}

    def lapsed_fences(self, run: str) -> set[int]:
        """Return the fences under which the run was taken over from somebody."""
        kinds = self.kinds(run)
        return {kinds[:index].count(STARTED) for index, kind in enumerate(kinds) if kind == LAPSED}

    def kinds(self, run: str) -> list[str]:
        """Return the kinds of a run's events."""
        return [event.kind for event in self.logs[run]]

    def sessions(self) -> dict[str, list[Run]]:
        """Return the runs of each session."""
        return grouped((run for run in self.runs.values() if run.session), lambda run: run.session or "")

    @classmethod
    async def read_from(cls, store: Store, journal: Journal) -> Books:
        """Read all that the store has."""
        runs = {run.id: run for run in await all_runs(store)}
        return cls(runs, {run: await store.events(run, limit=100_000) for run in runs}, journal)


async def check(stage: Stage, client: Scheduler) -> Figures:
    """Check a store at rest against its journal; print and return the figures."""
    store = await client.open()
    books = await Books.read_from(store, stage.journal)
    await fail_if(stage, store, books, [line for rule in RULES for line in rule(books)])
    figures = _figures(books)
    say(str(figures))
    return figures


async def fail_if(stage: Stage, store: Store, books: Books, wrong: Sequence[str]) -> None:
    """Fail with what is wrong, and if anything is left behind in a store at rest or its file is damaged."""
    wrong = [*wrong, *await _left_behind(store, books), *(damage(stage.file) if stage.on_sqlite else [])]
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])
    await check_invariants(store, logs=False)


def damage(file: Path) -> list[str]:
    """Return what SQLite finds wrong with a copy of its file and log, as they would be after a power cut.

    A copy, because opening the file and closing it again would move the log, which is for laneway to do.
    """
    with TemporaryDirectory(dir=file.parent) as folder:
        for path in (file, file.with_name(f"{file.name}-wal")):
            if path.exists():
                shutil.copy(path, folder)
        with closing(sqlite3.connect(Path(folder, file.name))) as db:
            return [line for (line,) in db.execute("PRAGMA integrity_check") if line != "ok"]


# Nothing lost


def _lost(books: Books) -> Iterator[str]:
    for line in books.journal.lines():
        if line.run and line.run not in books.runs:
            yield f"run {line.run}: {line.what.value} by {line.process}, and it is not there"
    for run in books.runs.values():
        if not run.ended:
            yield f"run {run.id} is {run.state.value}: it never ended"


# One end each


def _badly_logged(books: Books) -> Iterator[str]:
    for run in books.runs.values():
        kinds = books.kinds(run.id)
        if [event.seq for event in books.logs[run.id]] != list(range(1, len(kinds) + 1)):
            yield f"run {run.id}: its events have a gap"
        if kinds.count(DONE) != 1 or kinds[-1] != DONE:
            yield f"run {run.id}: {kinds.count(DONE)} done events, and the last event is {kinds[-1:]}"
        if kinds.count(STARTED) != run.fence:
            yield f"run {run.id}: {kinds.count(STARTED)} starts under {run.fence} fences"


def _badly_given_back(books: Books) -> Iterator[str]:
    for run in books.runs:
        # Starts and returns take turns, a start first: so no two workers ever both gave one run back. An attempt that
        # timed out before its worker died returns once, and its log tells both.
        kinds = [kind for last, kind in pairwise(["", *books.kinds(run)]) if (last, kind) != (LAPSED, RETRYING)]
        if not take_turns(kinds):
            yield f"run {run} was given back wrongly: {books.kinds(run)}"


def take_turns(kinds: Iterable[str]) -> bool:
    """Tell whether starts and returns take turns, a start first.

    Who waits tells of all that it waits for, and nothing more when it goes on and waits for the rest of it.
    """
    held, has_waited, last = False, False, ""
    for kind in kinds:
        if kind == STARTED:
            if held and not has_waited:
                return False
            held = True
        elif kind in GIVEN_BACK or kind in WAITING:
            if not held and not (kind in WAITING and last in WAITING):
                return False
            held, has_waited = False, has_waited or kind in WAITING
        last = kind
    return True


def _badly_marked(books: Books) -> Iterator[str]:
    for run in books.runs.values():
        marks = [event.data for event in books.logs[run.id] if event.kind == "mark"]
        for fence, of_fence in grouped(marks, lambda data: int(data["fence"])).items():
            numbers = [data["mark"] for data in of_fence]
            if numbers != list(range(len(numbers))):
                yield f"run {run.id}, fence {fence}: its own events are {numbers}"
        of_last = [data for data in marks if data["fence"] == run.fence]
        if run.state is RunState.SUCCEEDED and run.task in (stroll.name, plod.name) and len(of_last) != MARKS:
            yield f"run {run.id} succeeded without all its own events"


# One holder each


def _held_twice(books: Books) -> Iterator[str]:
    for run, attempts in grouped(books.attempts, lambda attempt: attempt.run).items():
        for first, second in pairwise(sorted(attempts, key=lambda attempt: attempt.fence)):
            if first.ended is None or first.ended > second.began:
                yield f"run {run}: {first} went on when {second} began"


def _wrong_result(books: Books) -> Iterator[str]:
    returned = {(one.run, one.fence): one.process for one in books.attempts if one.how is How.RETURNED}
    for run in books.runs.values():
        expected = {"fence": run.fence, "process": returned.get((run.id, run.fence))}
        if run.state is RunState.SUCCEEDED and run.result != expected:
            yield f"run {run.id} has the result {run.result}, and not {expected}"


# Order


def _out_of_order(books: Books) -> Iterator[str]:
    for session, runs in books.sessions().items():
        # The time of the claim, by the store's clock: a handler may begin a little later than the one claimed after it.
        started = [run for run in runs if STARTED in books.kinds(run.id)]
        claimed = {run.id: next(event.at for event in books.logs[run.id] if event.kind == STARTED) for run in started}
        for ahead, behind in pairwise(sorted(started, key=_became_due)):
            if claimed[ahead.id] > claimed[behind.id]:
                yield f"session {session}: run {behind.number} started before run {ahead.number}"


def _became_due(run: Run) -> tuple[datetime, int]:
    # Not `due_at`, which a retry moves; `delay` is what the handler was told of its submission.
    return run.accepted_at + timedelta(seconds=run.args.get("delay", 0)), run.number


def _interleaved(books: Books) -> Iterator[str]:
    for session, runs in books.sessions().items():
        if max_concurrent(session) > 1:
            continue
        members = {run.id for run in runs}
        begun = [one.run for one in books.attempts if one.run in members]
        turns = begun[:1] + [second for first, second in pairwise(begun) if first != second]
        for run, count in Counter(turns).items():
            if count > 1:
                yield f"session {session}: run {run} began, then another, then {run} again"


# Limits


def _over_a_limit(books: Books) -> Iterator[str]:
    return over_a_limit(books, LANES, max_concurrent)


def over_a_limit(books: Books, lanes: Sequence[Lane], max_concurrent: Callable[[str], int]) -> Iterator[str]:
    """Yield each lane, user and session that was over its limit at some instant."""
    runs = books.runs
    for lane in lanes:
        attempts = [one for one in books.attempts if runs[one.run].lane == lane.name]
        if most_at_once(attempts) > lane.limit:
            yield f"lane {lane.name}: {most_at_once(attempts)} at once, the limit is {lane.limit}"
        for user, of_user in grouped(attempts, lambda one: runs[one.run].user).items():
            if user is not None and lane.per_user is not None and most_at_once(of_user) > lane.per_user:
                yield f"lane {lane.name}, user {user}: {most_at_once(of_user)} at once, the limit is {lane.per_user}"
    for session, of_session in grouped(books.attempts, lambda one: runs[one.run].session).items():
        if session is not None and most_at_once(of_session) > max_concurrent(session):
            yield f"session {session}: {most_at_once(of_session)} at once"


def most_at_once(attempts: Iterable[Attempt]) -> int:
    """Return how many attempts went on at one instant, at most."""
    changes = [(one.began, 1) for one in attempts] + [(one.ended, -1) for one in attempts if one.ended is not None]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


# Nothing left behind


async def _left_behind(store: Store, books: Books) -> list[str]:
    wrong = [
        f"lane {one.lane.name}: {one.active} active, {one.pending} pending"
        for one in await store.lanes()
        if one.active or one.ready or one.pending
    ]
    wrong += [f"worker {one.incarnation.id} holds {one.running}" for one in await store.workers() if one.running]
    for session in books.sessions():
        if (state := await session_of(store, session)) is not None:
            wrong.append(f"session {session} is not idle: {state}")
    return wrong


# These hold whatever was asked for, the others of the load that `load` draws.
ALWAYS: Sequence[Callable[[Books], Iterator[str]]] = (
    _lost,
    _badly_logged,
    _badly_given_back,
    _held_twice,
    _wrong_result,
)
IN_ORDER: Sequence[Callable[[Books], Iterator[str]]] = (_out_of_order, _interleaved)
RULES: Sequence[Callable[[Books], Iterator[str]]] = (*ALWAYS, _badly_marked, *IN_ORDER, _over_a_limit)


def _figures(books: Books) -> Figures:
    kinds = Counter(event.kind for log in books.logs.values() for event in log)
    finished = Counter(line.run for line in books.journal.of(What.END) if line.how is How.RETURNED)
    return Figures(
        runs=len(books.runs),
        attempts=len(books.attempts),
        kills=len(books.journal.of(What.DEATH)),
        taken_over=kinds[LAPSED],
        released=kinds[RELEASED],
        retried=kinds[RETRYING],
        failed=sum(run.state is RunState.FAILED for run in books.runs.values()),
        twice=sum(count - 1 for count in finished.values()),
        by_process=Counter(one.process for one in books.attempts),
        peaks={
            lane: most_at_once(attempts)
            for lane, attempts in grouped(books.attempts, lambda one: books.runs[one.run].lane).items()
        },
    )


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by key, in their order."""
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
