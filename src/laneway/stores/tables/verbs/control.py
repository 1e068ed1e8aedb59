"""Control: cancel, pause and resume runs, stop sessions. A repeat is safe: each run keeps which call changed it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from laneway.core.lifecycle import arrivals, control
from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.records.run import Run, RunFilter
from laneway.core.records.states import Move, RunState
from laneway.errors import NotWaiting, UnknownRun, WrongState
from laneway.ports.control import Answer, Cancel, Pause, Resume, RunChange, Swept
from laneway.ports.sessions import Extent
from laneway.stores.tables.reads import runs
from laneway.stores.tables.rows import controlled_run
from laneway.stores.tables.rows.controlled_run import ControlledRun
from laneway.stores.tables.rules.late_questions import begin
from laneway.stores.tables.rules.run_control import RunControl
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.wakeups import wake_for_work
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state.transaction import Transaction

_SQL = sql_names("control")
_LAST = 2**62  # greater than every acceptance number


def change(
    db: Database, after_commit: AfterCommit, call: str, run_id: str, change: RunChange, now: int
) -> Run | WrongState | NotWaiting:
    """Change the run; see `ControlStore.change_run`. An error is returned if writes before it must stay."""
    match change:
        case Cancel(abandon):
            return _steer(
                db, after_commit, call, run_id, now, lambda run_control, run: run_control.cancel(run, abandon=abandon)
            )
        case Pause():
            return _steer(db, after_commit, call, run_id, now, _pause)
        case Resume():
            return _resumed(db, after_commit, call, run_id, now)
        case Answer(text, name):
            return _answered(db, after_commit, call, run_id, text, name, now)


def _pause(run_control: RunControl, run: ControlledRun) -> None:
    paused = control.pause(run.stands, run.requested)
    if paused is not None:
        run_control.apply(run, paused)


def _resumed(db: Database, after_commit: AfterCommit, call: str, run_id: str, now: int) -> Run | WrongState:
    [run] = controlled_run.read(db, [_number(db, run_id)])
    if run.call == call:
        return runs.get(db, run_id)
    if run.stands is not RunState.PAUSED:
        return _steer(db, after_commit, call, run_id, now, _resume)
    # Runs of its session that are due by now come before it.
    transaction = begin(db, after_commit, now)
    transaction.make_due()
    transaction.write_shelves()
    run_control = RunControl(transaction, after_commit, call)
    [run] = run_control.read([run.number])
    gone = run.ended_at is not None
    if not gone:
        _resume(run_control, run)
    _write(transaction, after_commit)
    return WrongState(run.state, Move.RESUME) if gone else runs.get(db, run_id)


def _answered(
    db: Database, after_commit: AfterCommit, call: str, run_id: str, text: str, name: str | None, now: int
) -> Run | NotWaiting:
    late = []

    def steer(run_control: RunControl, run: ControlledRun) -> None:
        wait = run.wait
        question = control.question_for(run_id, run.stands, wait, name)
        if wait is not None and (wait.until or 0) <= now:
            late.append(run)
            run_control.expire(run)
        else:
            run_control.answer(run, text, question)

    found = _steer(db, after_commit, call, run_id, now, steer)
    return NotWaiting(run_id, found.state.value) if late else found


def cancel_where(
    db: Database,
    after_commit: AfterCommit,
    call: str,
    wanted: RunFilter,
    after: int,
    until: int | None,
    limit: int,
    now: int,
) -> Swept:
    """Cancel the runs that match; see `ControlStore.cancel_where`."""
    until = _LAST if until is None else until
    [[changed, last]] = db.execute(_SQL["changed"], (call, after, until)).fetchall()
    if not changed:
        transaction = Transaction(db, now)
        run_control = RunControl(transaction, after_commit, call)
        while changed < limit and (found := _unended(db, wanted, after, until, limit - changed)):
            after = found[-1]
            for run in map(run_control.fresh, run_control.read(found)):
                # The calls of a cancelled run have ended with it; they are not counted.
                fits = run.ended_at is None and wanted.state in (None, run.stands)
                if changed < limit and fits and run_control.cancel(run):
                    changed, last = changed + 1, run.number
        _write(transaction, after_commit)
    return Swept(changed, last if changed and changed == limit else None)


def _unended(db: Database, wanted: RunFilter, after: int, until: int, limit: int) -> list[int]:
    asked = msgspec.structs.asdict(wanted) | {"after": after, "until": until, "limit": limit}
    return [number for (number,) in db.execute(_SQL["unended"], asked)]


def stop(db: Database, after_commit: AfterCommit, call: str, name: str, extent: Extent, now: int) -> Stopped:
    """Cancel runs of the session; see `SessionStore.stop`."""
    if extent is Extent.OLDEST:
        return _stop(db, after_commit, call, now, lambda run_control: (arrivals.stop(run_control, name), []))
    abandon = extent is Extent.ABANDON
    return _stop(db, after_commit, call, now, lambda run_control: arrivals.stop_all(run_control, name, abandon=abandon))


def _steer(
    db: Database,
    after_commit: AfterCommit,
    call: str,
    run_id: str,
    now: int,
    steer: Callable[[RunControl, ControlledRun], object],
) -> Run:
    number = _number(db, run_id)
    transaction = Transaction(db, now)
    run_control = RunControl(transaction, after_commit, call)
    [run] = run_control.read([number])
    if run.call != call:
        steer(run_control, run)
        _write(transaction, after_commit)
    return runs.get(db, run_id)


def _resume(run_control: RunControl, run: ControlledRun) -> None:
    run_control.apply(run, control.resume(run.stands, run.requested))


def _number(db: Database, run_id: str) -> int:
    row = db.execute(_SQL["number"], (run_id,)).fetchone()
    if row is None:
        raise UnknownRun(run_id)
    return int(row[0])


def _stop(
    db: Database,
    after_commit: AfterCommit,
    call: str,
    now: int,
    stop: Callable[[RunControl], tuple[list[ControlledRun], list[ControlledRun]]],
) -> Stopped:
    before = db.execute(_SQL["changed_runs"], (call,)).fetchall()
    if before:
        dropped = {run_id for run_id, state in before if state == RunState.DROPPED.value}
        cancelled = tuple(run_id for run_id, _ in before if run_id not in dropped)
        return Stopped(cancelled, tuple(run_id for run_id, _ in before if run_id in dropped))
    transaction = Transaction(db, now)
    cancels, drops = stop(RunControl(transaction, after_commit, call))
    _write(transaction, after_commit)
    return Stopped(_ids(cancels), _ids(drops))


def _ids(runs: list[ControlledRun]) -> tuple[str, ...]:
    return tuple(run.id for run in sorted(runs, key=lambda run: run.number))


def _write(transaction: Transaction, after_commit: AfterCommit) -> None:
    """Write the counts, and wake up workers for the runs that can start now."""
    transaction.write()
    if transaction.header.resting:
        wake_for_work(transaction.db, after_commit, transaction.now)
