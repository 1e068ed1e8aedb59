"""The straight way in: a batch of runs that differ only in their ids and arguments and go to the end of one lane.

Most batches are such. Nothing of them is decided one by one, so they need no flow, no shelves and no ledgers: one look
at the lane, one place for all of them by the core's own rule, a handful of statements. Whatever is not as simple as
that (a session, a key, ties, a delay, a bound, a disabled task, parked runs, runs that are due first, a question whose
time is over, an id that was seen before) is left, with nothing written, to `submitting`, which does the same and much
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

from laneway.core.run import Alike, NewRun, Receipt, ReceiptOutcome
from laneway.core.turns import LaneBook, Ledger, Pace, Seat, Turn
from laneway.stores.tables.database import Database, DuplicateError, Question
from laneway.stores.tables.effects import Effects
from laneway.stores.tables.lanebooks import lane_of
from laneway.stores.tables.starting import start, taker
from laneway.stores.tables.statements import Row, sql_names
from laneway.stores.tables.waking import wake_for_work

_SQL = sql_names("plain")
_INSERT, _UNDO = sql_names("submitting")["insert_alike"], sql_names("submitting")["undo"]
_LEDGERS = sql_names("ledgers")
_SET_RUNS, _SET_PACE, _SET_TURN = _LEDGERS["set_runs"], _LEDGERS["set_pace"], _LEDGERS["set_turn"]

_ACCEPTED = ReceiptOutcome.ACCEPTED
_kind = attrgetter("task", "lane", "user", "priority", "session", "delay", "due_at", "key", "retry_of", "ties")
_id, _args = attrgetter("id"), attrgetter("args")
_PLAIN = [None, 0, None, None, None, None]  # the last six of these, of a run that simply goes to a lane


def look_for(new: NewRun) -> Question | None:
    """Return what is asked about runs like this one, if they may be plain."""
    task, lane, user, priority, *special = _kind(new)
    return Question(_SQL["look"], (lane, user or "", priority, task)) if special == _PLAIN else None


def is_alone(batch: Sequence[NewRun]) -> bool:
    """Tell whether this is one run without a user: if it is plain, it may be started at once."""
    return len(batch) == 1 and batch[0].user is None


def submit_plain(db: Database, effects: Effects, batch: Sequence[NewRun], now: int) -> list[Receipt] | None:
    """Accept the batch; None, and nothing is written, if that takes more than this."""
    look = look_for(one := batch[0]) if batch and _are_alike(batch) else None
    if look is None:
        return None
    lane, user, priority, task = one.lane, one.user, one.priority, one.task
    rows = db.execute(look.name, look.values).fetchall()
    if not rows:
        return None
    accepted, due_at, until, resting, limit, active, pending, last, waiting, *_ = rows[0]
    if (due_at is not None and due_at <= now) or (until is not None and until <= now):
        return None
    turn = Turn() if last is None else Turn(last, waiting)
    paces = {row[-3]: Pace(*row[-2:]) for row in rows if row[-3] is not None}
    turns: Ledger[tuple[str | None, int], Turn] = Ledger(Turn)
    turns[user, priority] = turn
    count, first = len(batch), accepted + 1
    taken_by = taker(db, effects, lane, task, now) if is_alone(batch) and resting and not turn.waiting else None
    book = LaneBook(lane_of(lane, limit), paces, turns, Ledger(Seat), active, pending)
    rank = book.enter_fresh(user, priority, count)
    book.pending += count
    ids, args = _columns(batch)
    shared = (task, lane, user, priority, now)
    if not _written(db, first, rank, shared, ids, args):
        return None
    if taken_by is not None:
        start(db, effects, taken_by, one, first, rank, book, _earlier(due_at, until), now)
    else:
        db.execute(_SQL["put_ready"], (first,))
        db.execute(_SET_TURN, (lane, user or "", priority, turn.last, turn.waiting))
    db.execute(_SET_RUNS, (book.active, book.pending, lane))
    pace = paces[priority]
    db.execute(_SET_PACE, (lane, priority, pace.v, pace.ready))
    if resting and taken_by is None:
        wake_for_work(db, effects, now)
    before = chain([pending or None], range(pending + 1, pending + count))
    return list(map(Receipt, repeat(_ACCEPTED), ids, repeat(None), before))


def _are_alike(batch: Sequence[NewRun]) -> bool:
    if isinstance(batch, Alike):
        return True
    kinds: list[tuple[Any, ...]] = list(map(_kind, batch))
    return kinds.count(kinds[0]) == len(kinds)


def _columns(batch: Sequence[NewRun]) -> tuple[Sequence[str], Sequence[str]]:
    """Return ids and arguments."""
    if isinstance(batch, Alike):
        return batch.ids, batch.args
    return list(map(_id, batch)), list(map(_args, batch))


def _written(db: Database, first: int, rank: int, shared: Row, ids: Sequence[str], args: Sequence[str]) -> bool:
    """Write the runs, and tell whether their ids are new; if not, nothing is written."""
    try:
        db.insert_alike(_INSERT, len(ids), first, rank, shared, list(chain.from_iterable(zip(ids, args, strict=True))))
    except DuplicateError:
        # Invariant: the runs are written before anything else, so they are all there is to undo.
        db.execute(_UNDO, (first,))
        return False
    return True


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((at for at in (one, other) if at is not None), default=None)
