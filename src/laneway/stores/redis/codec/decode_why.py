"""Decoding the facts about why a run does not start."""

from __future__ import annotations

from typing import Any

from laneway.core.lifecycle.why import Holding, Waiting
from laneway.core.queue.shelves import Shelf
from laneway.core.queue.turns import AGAIN
from laneway.core.records.states import RunState
from laneway.stores.redis.codec.decode import standing_of, wait_of
from laneway.stores.redis.codec.decode_counts import alive, lane_book, session_book, some, until_of


def waiting_of(
    found: Any,
    record: Any,
    packed: Any,
    running: Any,
    session: Any,
    breakers: Any,
    workers: Any,
    beat: Any,
    rules: Any,
    moving: Any,
) -> Waiting:
    """Return what keeps a run from starting, from the reply of lua/verbs/overviews/why.lua."""
    number, shelf, now, ahead = found
    state, kind = record[2:4]
    task, lane, user, name = record[15:19]
    cap, user_paused, session_paused, task_paused = rules
    book = lane_book(lane, packed)
    most = book.lane.worker_limit
    knowing = [worker for worker in alive(workers, beat, now) if task in worker.info.incarnation.tasks]
    open_to = [worker for worker in knowing if most is None or worker.spare(lane, most) > 0]
    state, due_at, active, risks = RunState(state), record[22], *map(sorted, running)
    came = state is RunState.PENDING and shelf != Shelf.DUE
    facts = Waiting(
        state=state,
        now=now,
        due_at=min(due_at, now) if came else due_at,
        task=task,
        lane=book.lane,
        user=some(user),
        session=some(name),
        lane_active=[id_ for _, id_, _ in active],
        lane_paused=book.paused,
        user_active=[id_ for _, id_, other in active if other == user],
        user_cap=None if user is False else int(cap) if cap else book.lane.per_user,
        user_paused=user_paused,
        session_paused=session_paused,
        before=_before(int(number), session, again=bool(kind & AGAIN)),
        task_paused=task_paused,
        breakers=[Holding(key, until_of(until), some(probe)) for key, until, probe in breakers],
        known=len(knowing),
        open_to=len(open_to),
        ahead=ahead if state is RunState.PENDING else 0,
        wait=wait_of(record[14]["wait"]) if state is RunState.WAITING else None,
        moving=standing_of(moving),
    )
    fit = [worker.info.incarnation.id for worker in open_to if not worker.info.short]
    facts.add_fit([[id_ for _, id_, holder in risks if holder == worker] for worker in fit])
    return facts


def _before(number: int, session: Any, *, again: bool) -> list[str]:
    """Return the ids of the runs of its session that come before it."""
    if not session:
        return []
    packed, held, *known = session
    ids = {other: id_ for some_of_them in known for other, id_ in some_of_them}
    return [ids[other] for other in session_book(packed).before(number, held, again=again)]
