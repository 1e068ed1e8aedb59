"""What must hold between runs: the order of sessions, and the limits of lanes, users, workers and sessions.

A handler starts after its claim and ends before its settlement, so what the journal shows at once the store held at
once: a limit that is broken in the journal was broken in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from laneway import Lane, Run
from laneway.core.records.events import STARTED
from tests.system.oracle.grouped import grouped
from tests.system.oracle.journal import Attempt
from tests.system.oracle.record import Record

# Order


def out_of_order(record: Record) -> Iterator[str]:
    """Yield runs of a session that started before one that had become due earlier."""
    for session, runs in record.sessions().items():
        alone = record.asked.shape_of(session).single_file
        # The time of the claim, by the store's clock: a handler may begin a little later than the one claimed after it.
        claimed = {
            run.id: next(event.at for event in record.logs[run.id] if event.kind == STARTED)
            for run in runs
            if STARTED in record.kinds(run.id) and (alone or not _was_debounced(record, run))
        }
        in_turn = sorted((run for run in runs if run.id in claimed), key=lambda run: _became_due(record, run))
        for ahead, behind in pairwise(in_turn):
            if claimed[ahead.id] > claimed[behind.id]:
                yield f"session {session}: run {behind.number} started before run {ahead.number}"


def _became_due(record: Record, run: Run) -> tuple[datetime, int]:
    # Not `due_at`, which a retry moves; the submission's delay is an argument of the handler. A message that was left
    # unread and became a run joined at once, whatever its delay.
    delay = 0.0 if run.id in record.moved else run.args.get("delay", 0)
    return run.accepted_at + timedelta(seconds=delay), run.number


def _was_debounced(record: Record, run: Run) -> bool:
    return run.args.get("debounce", 0) > 0 and run.id not in record.moved


def interleaved(record: Record) -> Iterator[str]:
    """Yield runs of a serial session that began again after another one had begun."""
    for session, runs in record.sessions().items():
        shape = record.asked.shape_of(session)
        if shape.max_concurrent > 1 or shape.pass_on_retry:
            continue
        members = {run.id for run in runs}
        begun = [one.run for one in record.attempts if one.run in members]
        turns = begun[:1] + [second for first, second in pairwise(begun) if first != second]
        for run, count in Counter(turns).items():
            if count > 1:
                yield f"session {session}: run {run} began, then another, then {run} again"


# Limits


def over_a_limit(record: Record) -> Iterator[str]:
    """Yield lanes, users, workers and sessions that were over their limit at some instant."""
    runs = record.runs
    for lane in record.asked.lanes:
        attempts = [one for one in record.attempts if runs[one.run].lane == lane.name]
        yield from _over_a_limit_of(lane, attempts, record)
    for session, of_session in grouped(record.attempts, lambda one: record.session_of(runs[one.run])).items():
        if session is not None and most_at_once(of_session) > record.asked.shape_of(session).max_concurrent:
            yield f"session {session}: {most_at_once(of_session)} at once"


def _over_a_limit_of(lane: Lane, attempts: Sequence[Attempt], record: Record) -> Iterator[str]:
    if most_at_once(attempts) > lane.limit:
        yield f"lane {lane.name}: {most_at_once(attempts)} at once, the limit is {lane.limit}"
    for user, of_user in grouped(attempts, lambda one: record.runs[one.run].user).items():
        if user is not None and lane.per_user is not None and most_at_once(of_user) > lane.per_user:
            yield f"lane {lane.name}, user {user}: {most_at_once(of_user)} at once, the limit is {lane.per_user}"
    for process, of_one in grouped(attempts, lambda one: one.process).items():
        if lane.worker_limit is not None and most_at_once(of_one) > lane.worker_limit:
            yield f"lane {lane.name}: {most_at_once(of_one)} at once in {process}, the limit is {lane.worker_limit}"


def most_at_once(attempts: Iterable[Attempt]) -> int:
    """Return how many attempts went on at one instant, at most."""
    changes = [(one.began, 1) for one in attempts] + [(one.ended, -1) for one in attempts if one.ended is not None]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def over_a_cap(record: Record) -> Iterator[str]:
    """Yield sessions in which more runs were queued than their cap allows."""
    for session, runs in record.sessions().items():
        shape = record.asked.shape_of(session)
        if shape.plain:
            # A message that was left unread joined outside the cap.
            queued = _most_queued(record, [run for run in runs if run.id not in record.moved])
            if queued > shape.cap:
                yield f"session {session}: {queued} were queued, the cap is {shape.cap}"


def _most_queued(record: Record, runs: Sequence[Run]) -> int:
    changes = []
    for run in runs:
        until = next((event.at for event in record.logs[run.id] if event.kind == STARTED), run.ended_at)
        changes += [(run.accepted_at, 1)] if until is None else [(run.accepted_at, 1), (until, -1)]
    now = most = 0
    # A run that displaces another comes at the very instant at which that one goes, and after it.
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


RULES: Sequence[Callable[[Record], Iterator[str]]] = (out_of_order, interleaved, over_a_limit, over_a_cap)
