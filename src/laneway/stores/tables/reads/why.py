"""Why a run waits: reads the facts in one snapshot; `core.lifecycle.why` draws the conclusions."""

from __future__ import annotations

from collections import defaultdict

from laneway.core.lifecycle.outcome import LAST_CHANCE
from laneway.core.lifecycle.why import Waiting, reasons
from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.shelves import Shelf
from laneway.core.records.run import Reason
from laneway.core.records.states import RunState
from laneway.errors import UnknownRun
from laneway.ports.gates import Held
from laneway.stores.tables.reads.overview import alive
from laneway.stores.tables.rows import waits
from laneway.stores.tables.rows.settings import paused
from laneway.stores.tables.runtime.move_state import standing
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state import circuits
from laneway.stores.tables.state.counts import Counts

_SQL = sql_names("overview")
_FIND = sql_names("shelves")["find"]
_BEHIND_ALL = (2**62, 0)


def why(db: Database, run_id: str, now: int) -> list[Reason]:
    """Return the gates that are closed for the run; see `GateStore.why`."""
    row = db.execute(_SQL["waiting"], (run_id, LAST_CHANCE)).fetchone()
    if row is None:
        raise UnknownRun(run_id)
    number, state, due_at, task, lane, user, session, fence, hint, wait, on_last_chance = row
    counts = Counts(db)
    book = counts.lanes[lane]
    run = Waiting(state=RunState(state), now=now, due_at=due_at, task=task, lane=book.lane, user=user, session=session)
    run.lane_paused, run.task_paused = book.paused, task in paused(db, Held.TASK)
    run.breakers = circuits.holding(db, task, user, now)
    run.wait = None if wait is None else waits.opened(wait)
    run.moving = standing(db)
    _add_active(db, run)
    _add_workers(db, run, on_last_chance=on_last_chance)
    if session is not None:
        kept = counts.sessions[session]
        run.session_paused = kept.paused
        run.before = _before(db, session, kept, number, again=fence > 0)
    if run.state is RunState.PENDING:
        [[shelf, _, rank, _]] = db.execute(_FIND, (number, lane, user, task, session, hint, due_at)).fetchall()
        in_lane = shelf in (Shelf.READY, Shelf.PARKED)
        [[run.ahead]] = db.execute(_SQL["ahead"], (lane, *((rank, number) if in_lane else _BEHIND_ALL))).fetchall()
        if shelf != Shelf.DUE:
            run.due_at = min(due_at, now)
    return reasons(run)


def _add_active(db: Database, run: Waiting) -> None:
    active = db.execute(_SQL["active"], (run.lane.name,)).fetchall()
    run.lane_active = [run_id for run_id, _ in active]
    if run.user is not None:
        run.user_active = [run_id for run_id, user in active if user == run.user]
        [[cap, run.user_paused]] = db.execute(_SQL["user"], (run.user, run.lane.name)).fetchall()
        run.user_cap = run.lane.per_user if cap is None else cap


def _add_workers(db: Database, run: Waiting, *, on_last_chance: bool) -> None:
    knowing = [worker for worker in alive(db, run.now) if run.task in worker.tasks]
    run.known, open_to = len(knowing), knowing
    most = run.lane.worker_limit
    if most is not None:
        executed: dict[str, int] = dict(db.execute(_SQL["executed"], (run.lane.name,)).fetchall())
        open_to = [worker for worker in knowing if executed.get(worker.id, 0) < most]
    risks = defaultdict[str, list[str]](list)
    for holder, run_id in db.execute(_SQL["last_chances"], (LAST_CHANCE,)).fetchall() if on_last_chance else ():
        risks[holder].append(run_id)
    run.open_to = len(open_to)
    run.add_fit([risks[worker.id] for worker in open_to if not worker.short])


def _before(db: Database, session: str, book: SessionBook, number: int, *, again: bool) -> list[str]:
    """Return the ids of the runs in its session that it waits for."""
    held = [held for (held,) in db.execute(_SQL["held"], (session,))]
    numbers = book.before(number, held, again=again)
    return [run_id for (run_id,) in db.execute(_SQL["ids"], (as_json(numbers),))]
