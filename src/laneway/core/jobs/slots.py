"""Which nominal times of a job are due. After an outage there may be very many."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from itertools import islice

import msgspec

from laneway.core.common.instants import MICRO, SECOND, instant, micros
from laneway.core.jobs.plan import next_of, spread
from laneway.core.jobs.record import JobRecord
from laneway.core.schedules import Every, Schedule

CAUGHT_UP = 100  # missed fires that get runs with `all`
KEPT = CAUGHT_UP + 2  # of the newest slots: one may wait for its jitter, and a record ends before the others
COUNTED = 10_000  # slots that are counted one by one


class Slots(msgspec.Struct, frozen=True, gc=False):
    """Nominal times that are due: the newest, more than get runs, and how many there are from `first` on.

    `following` is the first that is not due. It is None if there is none, or if it depends on the end of a run.
    """

    first: int
    newest: tuple[int, ...]
    count: int
    following: int | None
    more: bool = False  # there are more than were counted


def slots_due(record: JobRecord, now: int, zone: str) -> Slots:
    """Return the job's nominal times from its next one up to now whose jitter is over."""
    rule, first = record.spec.rule, record.state.next_at
    assert first is not None
    slots = _by_period(rule, first, now) if isinstance(rule, Every) else _one_by_one(rule, first, now, zone)
    if slots.count > 1 and spread(record, slots.newest[-1]) > now:
        newest, last = slots.newest[:-1], slots.newest[-1]
        return msgspec.structs.replace(slots, newest=newest, count=slots.count - 1, following=last)
    return slots


def _by_period(rule: Every, first: int, now: int) -> Slots:
    following = None if rule.after == "end" else rule.following(first)
    if following is None or following > now:
        return Slots(first, (first,), 1, following)
    assert isinstance(rule.period, timedelta)
    period = rule.period // MICRO
    # The first may not be on the anchor's grid: a job can fire when it is created, too.
    more = (now - following) // period + 1
    later = (following + period * nth for nth in range(max(0, more - KEPT), more))
    newest = (first, *later)[-KEPT:]
    return Slots(first, newest, more + 1, rule.following(newest[-1]))


def _one_by_one(rule: Schedule, first: int, now: int, zone: str) -> Slots:
    end, newest, count = instant(now), deque([first], maxlen=KEPT), 1
    for fire in islice(rule.fires(instant(first), zone), COUNTED):
        if fire > end:
            return Slots(first, tuple(newest), count, micros(fire))
        newest.append(micros(fire))
        count += 1
    following = next_of(rule, newest[-1], zone)
    if following is None or following > now:
        return Slots(first, tuple(newest), count, following)
    last = _last_before(rule, now, zone)
    return Slots(first, last, count, next_of(rule, last[-1], zone), more=True)


def _last_before(rule: Schedule, now: int, zone: str) -> tuple[int, ...]:
    """Return the newest slots up to now of a rule that has very many, without computing them all."""
    found: deque[int] = deque(maxlen=KEPT)
    back = 60 * SECOND
    while len(found) < KEPT:
        found.clear()
        for fire in rule.fires(instant(now - back), zone):
            if micros(fire) > now:
                break
            found.append(micros(fire))
        back *= 4
    return tuple(found)
