"""A worker's step: settle finished runs, make due runs startable, claim runs, mark the worker as idle if none fits.

All of this is one transaction.

**Repeats.** A step has a call number. The reply to the newest step can be built again: the claims are the leases of
that call, the other fields are in the worker's row. A worker uses no new number before it has the reply, so one reply
is enough. Only a step that is made ahead, for an idle worker, comes before the worker sends it, perhaps even before the
worker has the reply to the step before. That reply is empty then, or no step would have been made ahead.

**Idle workers.** The claim and the mark that the worker is idle are in one transaction. A later transaction that makes
a run startable reads the mark and sends a wake-up. *Race*: none, one of the two commits first.

**Lost commits.** A server may fail and come back, or be replaced, without its last transactions. Then a worker executes
runs that it holds no lease of, and settled runs are leased to it again, for ever. So a worker sends the number of the
step that its store must know (`Step.last`), and gets an error if the store does not. A lost step without results and
claims is harmless: only the idle marks are wrong, until the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from laneway.core.lifecycle.step import Step, StepReply, named_in, offers_next_step
from laneway.core.queue.claim import MOST_MOVES
from laneway.core.records.run import Claimed, handed
from laneway.core.transfer.move_state import MovePhase, Moving
from laneway.errors import LeaseLost
from laneway.ports.gates import Held
from laneway.stores.tables.rows import jobs
from laneway.stores.tables.rows.leases import as_claimed, requests
from laneway.stores.tables.rows.settings import paused
from laneway.stores.tables.rows.shelf import FRONT
from laneway.stores.tables.rules.inboxes import Inboxes
from laneway.stores.tables.rules.late_questions import begin
from laneway.stores.tables.rules.settlements import Settlements, named
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.commit_options import Prefetch
from laneway.stores.tables.runtime.move_state import standing
from laneway.stores.tables.runtime.wakeups import tasks, wake_for_work
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state.due_runs import FIRST
from laneway.stores.tables.state.lane_counts import lane_query
from laneway.stores.tables.state.transaction import Transaction, header_queries
from laneway.stores.tables.state.user_counts import turn_query

_SQL = sql_names("steps")
_LEASED = sql_names("settlements")["leased"]
_READY_LANES, _READY = sql_names("counts")["ready_lanes"], sql_names("shelves")["ready"]

_LEAST = 8  # ready runs to read of a lane: some of them may have to be parked

_pairs = msgspec.json.Decoder(list[tuple[int, int]]).decode


def prefetch(step: Step, recent_lanes: Sequence[str], *, is_ahead: bool = False) -> Prefetch:
    """Return the first queries of the step. One that `is_ahead` is made for runs that were just submitted.

    `recent_lanes` are those of the runs that were claimed last: the next ones are mostly of the same lanes.
    """

    def queries() -> Iterator[Query]:
        yield Query(_SQL["worker"], (step.incarnation,))
        yield from header_queries(step.incarnation)
        if numbers := named(step):
            yield Query(_LEASED, (as_json(numbers), step.incarnation))
        if step.room > 0:
            if not (is_ahead or step.results):
                yield FIRST  # a step without results is made because something is due, or was submitted
            yield Query(_READY_LANES)
            for lane in recent_lanes:
                yield lane_query(lane)
                yield turn_query(lane, {""})  # of runs without a user
                yield Query(_READY, (lane, *FRONT), _ready_ahead(step, len(recent_lanes)))

    return queries


def _ready_ahead(step: Step, lanes: int) -> int:
    # Where a lane is at its limit, as many runs start as have ended.
    most = _page(step, lanes)
    return min(most, max(_LEAST, 2 * len(step.results))) if step.results else most


def take_step(db: Database, after_commit: AfterCommit, step: Step, now: int) -> StepReply:
    """Make the step; see `WorkerStore.step`."""
    row = db.execute(_SQL["worker"], (step.incarnation,)).fetchone()
    if row is None or row[1]:
        raise LeaseLost(f"incarnation {step.incarnation} is not alive in this store")
    incarnation, _, call, moves, is_ahead, *answer = row
    if step.last > call:
        raise LeaseLost(f"this store has lost what incarnation {step.incarnation} did last")
    leaving = _leaving(db) if moves else None
    # Race: a copy of an older step may arrive after its successor; nobody waits for its reply.
    if step.call <= call:
        same = _same_answer(db, step.incarnation, call, *answer)
        if is_ahead and step.call < call:  # the one before had found nothing, or the newest were not made ahead
            same = msgspec.structs.replace(same, claimed=[], more=False)
        return _to(same, leaving)
    if leaving is not None:
        if leaving.phase is MovePhase.FROZEN:
            return StepReply(refused=named_in(step), now=now, moved=leaving.place)
        step = msgspec.structs.replace(step, room=0, park=False)
    return _to(_taken(db, after_commit, step, now, incarnation, call), leaving)


def take_step_ahead(
    db: Database, after_commit: AfterCommit, step: Step, now: int, recent_lanes: Sequence[str]
) -> StepReply | None:
    """Make the next step of an idle worker; None, with nothing done, if this is not its next step any more."""
    db.expect(*prefetch(step, recent_lanes, is_ahead=True)())
    row = db.execute(_SQL["worker"], (step.incarnation,)).fetchone()
    if row is None:
        return None
    incarnation, left, call, moves, *_ = row
    if left or moves or call != step.call - 1:
        return None
    return _taken(db, after_commit, step, now, incarnation, call, is_ahead=True)


def _taken(
    db: Database,
    after_commit: AfterCommit,
    step: Step,
    now: int,
    incarnation: str,
    call: int,
    *,
    is_ahead: bool = False,
) -> StepReply:
    transaction = begin(db, after_commit, now, step.incarnation)
    # Due runs first: a run that joins its session because of a result comes after them.
    behind = transaction.make_due()
    settlements = Settlements(transaction, after_commit, step, behind=behind)
    settlements.settle()
    settlements.write()
    claimed, more = _claim(transaction, step, tasks(incarnation), call)
    transaction.write()
    reply = _answer(transaction, step, claimed, settlements.refused, more=more, is_ahead=is_ahead)
    # The worker of this step has just looked itself: if no other is idle, there is nobody to wake up. Exception: a
    # claim started a session's next run in a lane that the claim did not look at.
    if transaction.header.resting or (len(claimed) < step.room and transaction.counts.lanes.startable()):
        wake_for_work(db, after_commit, now)
    after_commit.events = after_commit.events or bool(claimed or step.results or step.emitted)
    return reply


def _leaving(db: Database) -> Moving | None:
    """Return the state of the move if the store is its source."""
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
    room = step.room if idle and offers_next_step(step, reply) else None
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
    leases = list[Row]()
    worker, call, now = step.incarnation, step.call, transaction.now
    for nth, run in enumerate(started):
        number = run.number
        run.fence += 1
        if taken:
            run.messages = taken.get(number, 0)
        leases.append((number, run.fence, run.attempt, worker, call, nth, now, run.events))
    transaction.db.insert(_SQL["lease"], leases)
    kept = [(run.messages, run.kept, run.number) for run in started if run.kept or run.messages]
    transaction.db.each(_SQL["lease_kept"], kept)
    return handed(started, worker), more
