"""Starting at once: a plain run that comes alone to an idle store goes to an idle worker without ever waiting.

Such a run would be put into its lane's order, found there by the step that is done for the worker (`lending`), and
taken out again. If nothing else waits anywhere, and nothing could keep it from starting, all of that leaves nothing
behind but a lease, an answer and the counts. So that is what is written, by the core's own book-keeping. Whatever is
not as simple is left to `lending`, with nothing written.
"""

from __future__ import annotations

from typing import NamedTuple

from laneway.core.run import Claimed, NewRun
from laneway.core.step import LentReply, StepReply
from laneway.core.turns import FRESH, LaneBook
from laneway.stores.tables.database import Database, Question
from laneway.stores.tables.effects import Effects, Lender, Woken
from laneway.stores.tables.statements import sql_names
from laneway.stores.tables.waking import tasks

_LENDER = sql_names("plain")["lender"]
_LEASE, _ANSWER = sql_names("stepping")["lease"], sql_names("stepping")["answer"]


class Taker(NamedTuple):
    """Who starts the run, and when the first job is due."""

    lender: Lender
    fire_at: int | None


class _Fresh:
    """A run as the order knows it."""

    __slots__ = ("kind", "priority", "rank", "user")

    def __init__(self, new: NewRun, rank: int) -> None:
        self.user, self.priority, self.kind, self.rank = new.user, new.priority, FRESH, rank


def who_takes(lane: str) -> Question:
    """Return what `taker` asks."""
    return Question(_LENDER, (lane,))


def taker(db: Database, effects: Effects, lane: str, task: str, now: int) -> Taker | None:
    """Return who starts a run of this task that comes to this lane, if it can only be started.

    One with room for more: who still rests knows the next due time, so that nobody else need be told.
    """
    asked = who_takes(lane)
    row = db.execute(asked.name, asked.values).fetchone()
    if row is None:
        return None
    number, name, socket, call, room, heard, incarnation, renewed_at, lease, fire_at = row
    lender = Lender(number, name, socket, call, room, bool(heard))
    in_time = abs(now - renewed_at) <= lease
    takes = room > 1 and in_time and task in tasks(incarnation) and effects.is_there(lender)
    return Taker(lender, fire_at) if takes else None


def start(
    db: Database,
    effects: Effects,
    taker: Taker,
    new: NewRun,
    number: int,
    rank: int,
    book: LaneBook,
    due_at: int | None,
    now: int,
) -> None:
    """Lease the run, which is in the order of `book` and nowhere else, and tell the worker."""
    lender, fire_at = taker
    book.start(_Fresh(new, rank))
    book.begin(1)
    call = lender.call + 1
    db.insert(_LEASE, [(number, 1, 1, lender.incarnation, call, 0, now, 0)])
    due_in = _until(due_at, now)
    db.execute(_ANSWER, (call, "[]", due_in, False, now, due_at, True, False, None, True, lender.incarnation))
    facts = (number, new.id, new.task, new.args, 1, 1, 0, new.lane, new.user, None, new.priority, lender.incarnation)
    reply = StepReply([Claimed(*facts)], [], due_in, now=now, fires_in=_until(fire_at, now))
    effects.wake.append(Woken(lender.incarnation, lender.socket, LentReply(call, reply)))
    effects.events = True


def _until(at: int | None, now: int) -> int | None:
    return None if at is None else max(0, at - now)
