"""What a fire makes: runs, records, and the next fire.

**The decision** takes the job's slots that are due, from `next_at` up to now, keeps the newest, and says what happens
to the others. A slot that is at most `LIVE` late is *live*; older ones were missed. The store writes a `Firing` in one
step if the job still has the version that the decision was made on. So of several processes that decide, one wins.

**Held back.** After a failure a job may be held back for a while, longer each time (`backoff`), or until its breaker
lets one fire through. Its slot waits for that. Slots that pass meanwhile are recorded as skipped.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec
from msgspec.structs import replace

from laneway.core.common.instants import SECOND
from laneway.core.jobs.failure_hold import BREAKER_OPEN, held_for
from laneway.core.jobs.plan import awaits_end, changed, next_of, planned, spread, with_next
from laneway.core.jobs.record import FireKind, FireRecord, Halt, JobRecord, JobSpec, JobState, Misfire, Verdict
from laneway.core.jobs.slots import CAUGHT_UP, Slots, slots_due
from laneway.core.records.job_tie import JobTie, Overlap
from laneway.core.records.memos import derived_id
from laneway.core.records.run import NewRun, Receipt, RunLinks

# Module variables: looking up an enum's member costs more than what is done with it.
_SKIPPED, _MISSED = FireKind.SKIPPED, FireKind.MISSED

LIVE = 30 * SECOND  # a fire that is later than this was missed

STALE, SKIPS, COLLAPSED = "stale", "skips_missed", "collapsed"  # why a missed fire gets no run
STEPPED_BACK = "clock_set_back"


class Firing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to write if the job is at this version; None: at any version, for a fire by hand.

    `state` is the job's new state, without what its runs' receipts add; None leaves it as it is. `runs` are in order,
    one for each nominal time.
    """

    job_id: str
    version: int | None = None
    state: JobState | None = None
    runs: tuple[NewRun, ...] = ()
    records: tuple[FireRecord, ...] = ()


class Fired(msgspec.Struct, frozen=True, gc=False):
    """The result of a firing: `won` if it was written; its runs' receipts, None for a fire that was there before."""

    won: bool
    receipts: tuple[Receipt | None, ...] = ()


def decide(record: JobRecord, now: int, zone: str, verdict: Verdict | None = None) -> Firing:
    """Return the decision about a due job. `verdict` is its condition's answer, None for yes."""
    state, rule = record.state, record.spec.rule
    assert state.next_at is not None
    if zone != state.zone and next_of(rule, state.next_at - 1, state.zone) == state.next_at:
        moved = next_of(rule, state.next_at - 1, zone)
        if moved not in (None, state.next_at):
            # The owner's time zone has changed: this is no fire any more. If the new zone has none left, it is the
            # last.
            return Firing(job_id=record.id, version=record.version, state=with_next(record, moved, zone).state)
    slots = slots_due(record, now, zone)
    following = slots.following
    after = replace(
        state,
        next_at=following,
        # Not `with_next`: the job is not held back any more.
        fire_at=None if following is None else spread(record, following),
        zone=zone,
        verdict=verdict,
        held_until=None,
        held_by=None,
    )
    closed = verdict._value_ if verdict is not None else BREAKER_OPEN if state.probe is not None else None
    if closed is not None:
        return _firing(record, after, (), (_stretch(_SKIPPED, slots, slots.count, closed),), now)
    late = now - max(spread(record, slots.newest[-1]), state.held_until or 0)
    taken, reason = _made_up_for(record.spec, slots, late)
    taken = _waited(taken, state)
    records: tuple[FireRecord, ...] = ()
    if left := slots.count - len(taken):
        held = state.held_by if taken else None
        kind, why = (_MISSED, reason) if held is None else (_SKIPPED, held)
        records = (_stretch(kind, slots, left, why),)
    # If missed fires get runs too, the newest is not live: its overlap rule would act on those runs.
    live = late <= LIVE and len(taken) == 1
    runs = tuple([run_of(record, nominal, live=live) for nominal in taken])
    if runs and state.held_by == BREAKER_OPEN:
        after = replace(after, probe=runs[-1].id)
    return _firing(record, after, runs, records, now)


def set_back(record: JobRecord, now: int, zone: str) -> Firing | None:
    """Return what sets a job back if its next fire is too far ahead because the clock was set back, else None."""
    state = record.state
    if state.next_at is None:
        return None
    soonest = next_of(record.spec.rule, now, zone)
    next_at = state.next_at if soonest is None else min(state.next_at, soonest)
    held_until = None if state.held_until is None else min(state.held_until, now + held_for(record))
    back = with_next(changed(record, held_until=held_until), next_at, zone).state
    if back.fire_at == state.fire_at:
        return None
    stepped = FireRecord(kind=FireKind.CLOCK_STEPPED, first=next_at, last=state.next_at, reason=STEPPED_BACK)
    return Firing(job_id=record.id, version=record.version, state=back, records=(stepped,))


def by_hand(record: JobRecord, run_id: str, now: int) -> Firing:
    """Return a fire by hand. It does not change when the job fires next."""
    run = run_of(record, now, live=True, by_hand=True)
    return Firing(job_id=record.id, runs=(replace(run, id=run_id),))


def run_of(record: JobRecord, nominal: int, *, live: bool, by_hand: bool = False) -> NewRun:
    """Return the run of a fire. A run that is not live only queues."""
    spec = record.spec
    overlap = spec.overlap if live else None
    tie = JobTie(
        id=record.id,
        name=spec.name,
        at=nominal,
        overlap=overlap,
        by_hand=by_hand,
        timeout=spec.timeout,
        retry=spec.retry,
    )
    alone = overlap is Overlap.ALLOW
    return NewRun(
        id=derived_id(record.id, "fire", nominal),
        task=spec.task,
        args=spec.args,
        lane=spec.lane,
        user=spec.runs_as,
        session=None if alone else record.session,
        priority=spec.priority,
        inside=True,
        ties=RunLinks(job=tie, session=record.session if alone else None),
    )


def _made_up_for(spec: JobSpec, slots: Slots, late: int) -> tuple[tuple[int, ...], str]:
    """Return the nominal times that get a run, and why the others get none."""
    if spec.misfire is Misfire.ALL:
        return slots.newest[-CAUGHT_UP:], STALE
    once = spec.misfire is Misfire.ONCE
    if late <= LIVE or (once and (not spec.max_staleness or late <= spec.max_staleness)):
        return slots.newest[-1:], COLLAPSED if once else SKIPS
    return (), STALE if once else SKIPS


def _waited(taken: tuple[int, ...], state: JobState) -> tuple[int, ...]:
    """Return these without the slots that passed while the job was held back, except the last one."""
    if state.held_by is None:
        return taken
    if state.held_by == BREAKER_OPEN:
        return taken[-1:]
    return taken[max(0, bisect_right(taken, state.held_until or 0) - 1) :]


def _stretch(kind: FireKind, slots: Slots, count: int, reason: str) -> FireRecord:
    """Return the record of the oldest `count` slots."""
    last = slots.newest[count - 1 - slots.count + len(slots.newest)]
    return FireRecord(kind=kind, first=slots.first, last=last, count=count, more=slots.more, reason=reason)


def _firing(
    record: JobRecord, after: JobState, runs: tuple[NewRun, ...], records: tuple[FireRecord, ...], now: int
) -> Firing:
    if not runs and after.next_at is None:
        if awaits_end(record.spec.rule):
            after = planned(replace(record, state=after), now, after.zone).state  # no run will end
        else:
            after = replace(after, halted=Halt.MISSED if records[-1].kind is _MISSED else Halt.SKIPPED)
    return Firing(job_id=record.id, version=record.version, state=after, runs=runs, records=records)
