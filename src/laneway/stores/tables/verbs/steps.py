"""Stepping: settle what finished, make due runs startable, claim what fits, rest if nothing came. One transaction.

**Repeating.** A step carries its call number. The answer to the newest one can be built again: the claims are the
leases of that call, the rest stands in the worker's row. A worker takes no new number before it has its answer, so one
is enough to remember. Only a step that was lent is done before the worker has asked for it, and maybe before it has
heard the answer to the one before: that was nothing, or it would not have been lent.

**Resting.** Whether there is anything to claim, and the mark that the worker rests, are one transaction; whoever makes
a run startable later sees the mark and sends a wake-up. *Race*: none, one of the two commits first.

**Losing.** A server that failed may come back, or be replaced by another, without its last moments. What a worker was
given then it executes, and what it settled is its own again, and nobody would ever settle that. So a worker says which
step its store must know (`Step.last`), and is told if it does not. A step in which nothing was said or given may be
lost: only who rests is wrong then, until its next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from laneway.core.lifecycle.step import Step, StepReply, has_lent, named_in
from laneway.core.queue.claim import MOST_MOVES
from laneway.core.queue.turns import LaneBook
from laneway.core.records.run import Claimed, handed
from laneway.core.transfer.move_state import MovePhase, Moving
from laneway.errors import LeaseLost
from laneway.ports.gates import Held
from laneway.stores.tables.rows import jobs
from laneway.stores.tables.rows.leased_run import leased
from laneway.stores.tables.rows.leases import as_claimed, requests
from laneway.stores.tables.rows.settings import paused
from laneway.stores.tables.rows.shelf import FRONT
from laneway.stores.tables.rules.inboxes import Inboxes
from laneway.stores.tables.rules.late_questions import begin
from laneway.stores.tables.rules.settlements import Settlements, named
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.commit_options import Prefetch
from laneway.stores.tables.runtime.move_state import standing
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.runtime.wakeups import tasks, wake_for_work
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.due_runs import FIRST
from laneway.stores.tables.state.lane_counts import lane_queries
from laneway.stores.tables.state.transaction import Transaction, header_queries

_SQL = sql_names("steps")
_LEASED = sql_names("settlements")["leased"]
_READY_LANES, _READY = sql_names("counts")["ready_lanes"], sql_names("shelves")["ready"]

_FEW = 16  # lanes: of more it is not asked ahead what is ready
_LEAST = 8  # ready runs to read of a lane: some may have to be parked

_pairs = msgspec.json.Decoder(list[tuple[int, int]]).decode


def prefetch(step: Step, *, is_ahead: bool = False) -> Prefetch:
    """Return what the step will read first. One that `is_ahead` is made for what was just submitted."""

    def questions(cache: StepCache) -> Iterator[Query]:
        if is_ahead or _follows(step, cache) is None:
            yield Query(_SQL["worker"], (step.incarnation,))
        yield from header_queries(step.incarnation)
        if not cache.leases and (numbers := named(step)):
            yield Query(_LEASED, (as_json(numbers), step.incarnation))
        if step.room > 0:
            if not (is_ahead or step.results):
                yield FIRST  # a step without results is made because something is due, or was submitted
            if cache.unopened is None:
                yield Query(_READY_LANES)
            known = {lane: book for lane, (book, _) in cache.lanes.items()}
            # Where nothing is ready, something may be due, or just submitted.
            busy = [lane for lane, book in known.items() if book.ready()] or cache.recent_lanes
            for lane in busy if len(busy) <= _FEW else ():
                book = known.get(lane)
                if book is None:
                    yield from lane_queries(lane)
                if book is None or book.ready():  # else nothing is, unless others have written
                    yield Query(_READY, (lane, *FRONT), _ready_ahead(step, len(busy), book))

    return questions


def _ready_ahead(step: Step, lanes: int, book: LaneBook | None) -> int:
    most = _page(step, lanes)
    return most if book is None else min(most, max(_LEAST, book.room() + len(step.results)))


def take_step(
    db: Database, after_commit: AfterCommit, step: Step, now: int, cache: StepCache | None = None
) -> StepReply:
    """Do the step; see `WorkerStore.step`. The next one finds in `cache` what it needs."""
    cache = cache or StepCache()
    known = _follows(step, cache)
    if known is not None:
        return _taken(db, after_commit, step, now, known, step.call - 1, cache)
    row = db.execute(_SQL["worker"], (step.incarnation,)).fetchone()
    if row is None or row[1]:
        raise LeaseLost(f"incarnation {step.incarnation} is not alive in this store")
    incarnation, _, call, moves, is_ahead, *answer = row
    if step.last > call:
        raise LeaseLost(f"this store has lost what incarnation {step.incarnation} did last")
    leaving = _leaving(db) if moves else None
    # Race: a copy of an older step may arrive after its successor; nobody waits for its answer.
    if step.call <= call:
        same = _same_answer(db, step.incarnation, call, *answer)
        if is_ahead and step.call < call:  # the one before had found nothing, or the newest were not made ahead
            same = msgspec.structs.replace(same, claimed=[], more=False)
        return _to(same, leaving)
    if leaving is not None:
        if leaving.phase is MovePhase.FROZEN:
            return StepReply(refused=named_in(step), now=now, moved=leaving.place)
        step = msgspec.structs.replace(step, room=0, park=False)
    reply = _taken(db, after_commit, step, now, incarnation, call, cache)
    if leaving is not None:
        cache.clear()  # the next step is to be told, too
    return _to(reply, leaving)


def take_step_ahead(
    db: Database, after_commit: AfterCommit, step: Step, now: int, cache: StepCache
) -> StepReply | None:
    """Do the next step of an idle worker for it; None, and nothing is done, if this is not its next step any more."""
    db.expect(*prefetch(step, is_ahead=True)(cache))
    row = db.execute(_SQL["worker"], (step.incarnation,)).fetchone()
    if row is None:
        return None
    incarnation, left, call, moves, *_ = row
    if left or moves or call != step.call - 1:
        return None
    return _taken(db, after_commit, step, now, incarnation, call, cache, is_ahead=True)


def _taken(
    db: Database,
    after_commit: AfterCommit,
    step: Step,
    now: int,
    incarnation: str,
    call: int,
    cache: StepCache,
    *,
    is_ahead: bool = False,
) -> StepReply:
    transaction = begin(db, after_commit, now, step.incarnation, cache)
    # First what is due: what a result lets join its session comes behind it.
    behind = transaction.make_due()
    settlements = Settlements(transaction, after_commit, step, behind=behind)
    settlements.settle()
    settlements.write()
    claimed, more = _claim(transaction, step, tasks(incarnation), call)
    transaction.write()
    reply = _answer(transaction, step, claimed, settlements.refused, more=more, is_ahead=is_ahead)
    # The one who asks has just looked for itself: if it alone rests, there is nobody to wake, unless what it claimed
    # let its session go on in a lane that the claim did not look at.
    if transaction.header.resting or (len(claimed) < step.room and transaction.counts.lanes.startable()):
        wake_for_work(db, after_commit, now)
    after_commit.events = after_commit.events or bool(claimed or step.results or step.emitted)
    cache.workers[step.incarnation] = incarnation, step.call
    # What becomes of messages is written by itself, and may be about any run.
    if transaction.inboxes or transaction.forgot or cache.is_full:
        cache.clear()
    return reply


def _follows(step: Step, cache: StepCache) -> str | None:
    """Return the incarnation as it is stored if this step follows one in the cache: nothing else need be known.

    Whatever lets it leave, or gives the store a part in a move, clears the cache.
    """
    incarnation, call = cache.workers.get(step.incarnation, ("", 0))
    return incarnation if incarnation and step.last <= call == step.call - 1 else None


def _leaving(db: Database) -> Moving | None:
    """Return how the store stands if it is the source of a move."""
    moving = standing(db)
    return moving if moving is not None and moving.leaves else None


def _to(reply: StepReply, leaving: Moving | None) -> StepReply:
    return reply if leaving is None else msgspec.structs.replace(reply, moved=leaving.place)


def _same_answer(
    db: Database, incarnation: str, call: int, refused: str, due_in: int | None, more: int, now: int
) -> StepReply:
    claimed = [as_claimed(row) for row in db.execute(_SQL["claimed"], (incarnation, call))]
    fires_in = _until(jobs.soonest(db), now)
    return StepReply(claimed, _pairs(refused), due_in, bool(more), now, requests(db, incarnation), fires_in)


def _answer(
    transaction: Transaction,
    step: Step,
    claimed: list[Claimed],
    refused: list[tuple[int, int]],
    *,
    more: bool,
    is_ahead: bool,
) -> StepReply:
    soonest, now = transaction.next_due(), transaction.now
    due_in = _until(soonest, now)
    idle = step.park and not more and len(claimed) < step.room
    told = transaction.requested or transaction.inboxes
    asked = requests(transaction.db, step.incarnation) if told else []
    reply = StepReply(claimed, refused, due_in, more, now, asked, _until(transaction.next_fire(), now))
    room = step.room if idle and has_lent(step, reply) else None
    refusals = msgspec.json.encode(refused).decode()
    kept = (step.call, refusals, due_in, more, now, soonest, idle, step.short, room, is_ahead)
    transaction.db.execute(_SQL["answer"], (*kept, step.incarnation))
    return reply


def _until(at: int | None, now: int) -> int | None:
    return None if at is None else max(0, at - now)


def _spare(transaction: Transaction, step: Step, lanes: list[str]) -> Mapping[str, int]:
    """Return how many more runs the worker may take of those lanes that have a limit per worker."""
    books = transaction.counts.lanes
    limits = {name: most for name in lanes if (most := books[name].lane.worker_limit) is not None}
    if limits:
        for lane, runs in transaction.db.execute(_SQL["executed"], (step.incarnation, as_json(limits))):
            limits[lane] -= runs
    return limits


def _page(step: Step, lanes: int) -> int:
    """Return how many ready runs to read at once of each of so many lanes."""
    return max(_LEAST, min(MOST_MOVES, -(-step.room // max(1, lanes))))


def _claim(transaction: Transaction, step: Step, known: frozenset[str], turn: int) -> tuple[list[Claimed], bool]:
    if step.room <= 0:
        return [], False
    if transaction.header.paused:
        known -= paused(transaction.db, Held.TASK)
    lanes = transaction.flow.with_broken(transaction.shelves.lanes_with_work(known), known, transaction.now)
    transaction.shelves.prefetch.page = _page(step, len(lanes))
    spare = _spare(transaction, step, lanes)
    started, more = transaction.flow.claim(lanes, step.room, known, turn, spare, transaction.now)
    transaction.shelves.bodies(started)
    taken = Inboxes(transaction).counts(started)
    leases, cache = list[Row](), transaction.cache
    worker, call, now = step.incarnation, step.call, transaction.now
    for nth, run in enumerate(started):
        number = run.number
        run.fence += 1
        if taken:
            run.messages = taken.get(number, 0)
        leases.append((number, run.fence, run.attempt, worker, call, nth, now, run.events))
        if not run.kept:
            cache.leases[number] = leased(run, worker, now)
    cache.rows += len(started)
    transaction.db.insert(_SQL["lease"], leases)
    kept = [(run.messages, run.kept, run.number) for run in started if run.kept or run.messages]
    transaction.db.each(_SQL["lease_kept"], kept)
    return handed(started, worker), more
