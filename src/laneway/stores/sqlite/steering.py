"""Steering: cancel, pause and resume runs, wherever they are. What follows is decided in `core.control`.

**Finding.** A pending run does not know its shelf, because keeping that up would cost every run that is never steered
two more writes. It is looked for by the key it was accepted with, then where it can be (`find` in `shelves.sql`).

**Many at once.** Taking one run out lets others go on, also such as are to be taken out next. So what was moved is
written after each run, and the tables say where the next one is; only the counts wait for the end.

**Race**: none with a worker's step. Whichever commits first wins: a settled run has no lease to write a request to, and
a settlement finds the request.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

import msgspec

from laneway.core import control
from laneway.core.control import Change
from laneway.core.run import Request, Run, RunFilter
from laneway.core.states import TERMINAL, RunState
from laneway.errors import UnknownRun
from laneway.ports.control import Swept
from laneway.stores.sqlite import liveness, reading
from laneway.stores.sqlite.effects import Effects
from laneway.stores.sqlite.logs import Leased, appended, logged
from laneway.stores.sqlite.statements import as_json, load
from laneway.stores.sqlite.transaction import Transaction
from laneway.stores.sqlite.waking import wake_for_work, wake_holder

_SQL = load("steering")
_SETTLE, _APPEND = load("settling")["settle"], load("settling")["append"]
_LAST = 2**62  # behind every acceptance number


class Steered(Leased, gc=False):
    """A run as a control verb finds it, leased or not. `hint` is its key when it was accepted."""

    state: str = RunState.PENDING.value
    holder: str | None = None
    died: str | None = None
    hint: int = 0
    due_at: int = 0
    error: str | None = None
    call: str | None = None

    @property
    def stands(self) -> RunState:
        """The state it is in."""
        return RunState(self.state)


def cancel(db: sqlite3.Connection, effects: Effects, call: str, run_id: str, now: int, *, abandon: bool) -> Run:
    """Cancel the run; see `ControlStore.cancel`."""
    return _steer(db, effects, call, run_id, now, lambda run: _cancelled(db, run, now, abandon=abandon))


def pause(db: sqlite3.Connection, effects: Effects, call: str, run_id: str, now: int) -> Run:
    """Pause the run; see `ControlStore.pause`."""
    return _steer(db, effects, call, run_id, now, lambda run: control.pause(run.stands, run.requested))


def resume(db: sqlite3.Connection, effects: Effects, call: str, run_id: str, now: int) -> Run:
    """Resume the run; see `ControlStore.resume`."""
    return _steer(db, effects, call, run_id, now, lambda run: control.resume(run.stands, run.requested))


def cancel_where(
    db: sqlite3.Connection,
    effects: Effects,
    call: str,
    wanted: RunFilter,
    after: int,
    until: int | None,
    limit: int,
    now: int,
) -> Swept:
    """Cancel the runs that fit; see `ControlStore.cancel_where`."""
    until = _LAST if until is None else until
    [[changed, last]] = db.execute(_SQL["changed"], (call, after, until)).fetchall()
    if not changed:
        asked = msgspec.structs.asdict(wanted) | {"after": after, "until": until, "limit": max(0, limit)}
        runs = _read(db, (number for (number,) in db.execute(_SQL["unended"], asked).fetchall()))
        steering = Steering(db, effects, call, now)
        steering.expect(runs)
        for run in runs:
            change = _cancelled(db, run, now) if changed < limit else None
            if change is not None:
                steering.apply(run, change)
                changed, last = changed + 1, run.number
        steering.write()
    return Swept(changed, last if changed and changed == limit else None)


def _steer(
    db: sqlite3.Connection,
    effects: Effects,
    call: str,
    run_id: str,
    now: int,
    decide: Callable[[Steered], Change | None],
) -> Run:
    row = db.execute(_SQL["number"], (run_id,)).fetchone()
    if row is None:
        raise UnknownRun(run_id)
    [run] = _read(db, row)
    change = None if run.call == call else decide(run)
    if change is not None:
        steering = Steering(db, effects, call, now)
        steering.apply(run, change)
        steering.write()
    return reading.get(db, run_id)


def _read(db: sqlite3.Connection, numbers: Iterable[int]) -> list[Steered]:
    return [Steered(*row) for row in db.execute(_SQL["steered"], (as_json(numbers),))]


def _cancelled(db: sqlite3.Connection, run: Steered, now: int, *, abandon: bool = False) -> Change | None:
    lapsed = run.died is not None or (run.holder is not None and liveness.is_dead(db, run.holder, now))
    return control.cancel(run.stands, run.requested, lapsed=lapsed, abandon=abandon)


class Steering:
    """Changes runs in one transaction."""

    def __init__(self, db: sqlite3.Connection, effects: Effects, call: str, now: int) -> None:
        self._db, self._effects, self._call, self._now = db, effects, call, now
        self._transaction = Transaction(db, now)

    def expect(self, runs: list[Steered]) -> None:
        """Load, in one query each, the counts that these runs are part of."""
        self._transaction.books.fetch(runs)

    def apply(self, run: Steered, change: Change) -> None:
        """Change one run: its place, its log and its record."""
        before, flow = run.stands, self._transaction.flow
        if before is RunState.PENDING:
            flow.withdraw(run, self._transaction.shelves.remove(run, run.hint, run.due_at))
        elif change.state is RunState.PENDING:
            # Those of its session that are due by now are before it.
            self._transaction.make_due()
            self._put_back(run)
        text = logged(run, change.drafts, self._now)
        if change.state in TERMINAL:
            self._end(run, change, text)
        else:
            self._db.execute(_APPEND, appended(run, text))
            if change.state is RunState.RUNNING:
                self._request(run, change.request)
            else:
                self._settle(run, change)
        self._db.execute(_SQL["remember"], (run.number, self._call))
        self._transaction.write_shelves()

    def write(self) -> None:
        """Write the counts, and wake whoever can start what goes on."""
        self._transaction.write()
        if self._transaction.glance.resting:
            wake_for_work(self._db, self._effects)
        self._effects.events = True

    def _request(self, run: Steered, request: Request | None) -> None:
        self._db.execute(_SQL["request"], (request, run.events, run.number))
        # Of a lapsed lease, whoever executed it is not there any more.
        if run.died is None and run.holder is not None:
            wake_holder(self._db, self._effects, run.holder)

    def _end(self, run: Steered, change: Change, text: str) -> None:
        if run.holder is not None:
            self._transaction.flow.free(run)
            liveness.lose(self._db, run.holder, run.number)
        if run.fence:
            self._transaction.flow.end(run)
        self._settle(run, change, self._now, text)

    def _settle(self, run: Steered, change: Change, ended_at: int | None = None, log: str | None = None) -> None:
        # The due time stays what it was.
        counts, times = (run.attempt, run.crashes, run.fence, run.events), (None, run.started_at, ended_at)
        ending = (change.reason, run.error, None, log)
        self._db.execute(_SETTLE, (run.number, change.state.value, *counts, *times, *ending))

    def _put_back(self, run: Steered) -> None:
        if run.due_at > self._now:
            self._transaction.shelves.put_due(run, run.due_at)
        elif run.fence:
            self._transaction.flow.rejoin(run)
        else:
            self._transaction.flow.join(run, run.max_concurrent)
