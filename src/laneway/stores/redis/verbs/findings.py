"""Checking whether what is kept agrees with itself.

**What is believed.** A run's record is believed before the lists that name it: one that has ended has ended. A lease is
believed before a shelf, and everything that can be counted before its count. A run that has not ended and is in no
place, or in a wrong one, goes to the due shelf, from where the next step takes it in by the usual rules; at worst it
loses its turn.

A script takes the picture in one go, so that nobody comes between; what it means is decided here and in `audit`.
It reads all that has not ended, which takes the server about a second for 100,000 runs. Those that have ended are only
counted, unless some of the numbers that the server knows without counting do not agree: then the script looks at all
there is.

Repairing (`lua/admin/repair.lua`) happens in the script that takes the picture: it restates what is decided here, and
brings back what has room now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from laneway.core.queue.audit import (
    DUE,
    HELD,
    LEASE,
    NO_PROBE,
    PARKED,
    PAUSED,
    WAITING,
    Finding,
    differences,
    miscounted,
    recount,
)
from laneway.core.queue.circuits import holder
from laneway.core.queue.shelves import gate_of
from laneway.core.records.states import RunState
from laneway.stores.redis.verbs.snapshot import ENDS, SHELVES, Picture, Record, spots, stored

NOWHERE, UNLISTED = "nowhere", "unlisted"

UNKNOWN = "a place is taken for it, but there is no such run"
ENDED = "it has ended, but is still to be executed"
DOUBLED = "it is in several places"
MISPLACED = "it is in another place than its record says"
STRANDED = "it is pending, but in no place where a claim would meet it"
LEFT = "it is running, but nobody holds its lease"
HIDDEN = "it is {}, but not listed as that"
UNFOUND = "it is not found by its id or its end"
FOR_NOTHING = "it waits, but for nothing"
LATE = "it does not wait, but has a question to be answered in time"
UNTIMED = "it asks something, but nothing ends its time"
UNHELD = "it holds leases, but is not known, so nobody takes over from it"
ORPHANED = "there are arguments, results or an end of it, but no run"
MISTIMED = "it is not found when its state says that it is due"
UNWORKED = "it is not known to have something to start, or known to though it has nothing"
AJAR = "it is not known to be open, or known to be though it is closed"
PARKED_ON = "parked runs could go on, but nothing brings them back"
BUSY = "in lane {} it is said to execute {}, counted are {}"
HELD_ON = "held runs could go on, but nothing admits them"


def look(picture: Picture) -> list[Finding]:
    """Return what does not agree."""
    return [
        *_misplaced(picture),
        *_missing(picture),
        *_waits(picture),
        *_breakers(picture),
        *_idle_gates(picture),
        *_busy(picture),
        *(Finding(f"lane {name}", UNWORKED) for name in sorted(picture.working ^ _working(picture))),
        *(Finding(f"job {id_}", MISTIMED) for id_ in sorted(dict(picture.jobs.items() ^ picture.due_jobs.items()))),
        *(miscounted(*difference) for difference in differences(stored(picture), recount(spots(picture)))),
    ]


def _misplaced(picture: Picture) -> Iterator[Finding]:
    """Find runs in places where they should not be."""
    found = list(picture.listed(LEASE, *SHELVES, PAUSED, WAITING))
    held = {number for shelf, _, _, number in found if shelf == HELD}
    times = Counter(
        number
        for shelf, _, _, number in found
        # Whoever is paused where it is held is in both lists.
        if not (shelf == PAUSED and number in held and picture.records[number] is not None)
    )
    for shelf, owner, gate, number in sorted(found, key=lambda place: (place[3], place[0])):
        run = picture.records[number]
        if run is None:
            yield Finding(f"run number {number}", UNKNOWN)
        elif run.state in ENDS:
            yield Finding(f"run {run.id}", ENDED)
        elif times[number] > 1:
            times[number] = 0
            yield Finding(f"run {run.id}", DOUBLED)
        elif times[number] == 1 and not _is_right(run, shelf, owner, gate):
            yield Finding(f"run {run.id}", MISPLACED)
    for name in sorted({owner for shelf, owner, _, _ in picture.places if shelf == LEASE} - picture.workers):
        yield Finding(f"worker {name}", UNHELD)


def _is_right(run: Record, shelf: str, owner: str, gate: str | None) -> bool:
    """Tell whether a run is where its record says."""
    if shelf == LEASE:
        return bool(run.state == RunState.RUNNING)
    if shelf in (PAUSED, WAITING):
        return bool(run.state == shelf)
    if run.shelf != shelf or run.state not in (RunState.PENDING, RunState.PAUSED):
        return False
    if shelf == PARKED:
        return run.lane == owner and gate_of(run) == gate
    return shelf == DUE or owner == (run.session if shelf == HELD else run.lane)


def _missing(picture: Picture) -> Iterator[Finding]:
    """Find runs that are nowhere, and what is left of runs that are not there."""
    for _, _, _, number in picture.listed(NOWHERE):
        run = picture.records[number]
        if run is not None:
            wrong = {RunState.PENDING: STRANDED, RunState.RUNNING: LEFT}.get(run.state, HIDDEN.format(run.state))
            yield Finding(f"run {run.id}", wrong)
    for _, _, _, number in picture.listed(UNLISTED):
        run = picture.records[number]
        yield Finding(f"run {run.id if run else number}", UNFOUND)
    for number in sorted({number for _, _, number in picture.orphans}):
        yield Finding(f"run number {number}", ORPHANED)
    if picture.deep:
        listed, runs = picture.totals["blocks"], picture.totals["runs"]
        if listed != runs:
            yield Finding("the store", f"listed by number are {listed}, counted are {runs}")
        long_args, counted = picture.totals["long_args"], picture.totals["counted_long_args"]
        if long_args != counted:
            yield Finding("the store", f"runs with long arguments are {long_args}, counted are {counted}")
        for state in RunState:
            stored, there = picture.totals[state.value], picture.states.get(state.value, 0)
            if stored != there:
                yield Finding("the store", f"{state.value} is {stored}, counted are {there}")


def _waits(picture: Picture) -> Iterator[Finding]:
    """Find runs that wait for nothing, and questions whose time is told wrong."""
    asked = {}
    for _, _, _, number in picture.listed(WAITING):
        run = picture.records[number]
        if run is not None and run.state == RunState.WAITING:
            if run.wait is None or not (run.wait.questions or run.wait.calls):
                yield Finding(f"run {run.id}", FOR_NOTHING)
            elif run.wait.until is not None:
                asked[number] = run.wait.until
    for number in sorted({*asked, *picture.deadlines}):
        run = picture.records.get(number)
        if asked.get(number) != picture.deadlines.get(number):
            yield Finding(f"run {run.id if run else number}", UNTIMED if number in asked else LATE)


def _breakers(picture: Picture) -> Iterator[Finding]:
    """Find circuits whose probe nobody executes, or that claims take for open or closed though they are not."""
    leases = {
        (number, run.fence) for _, _, _, number in picture.listed(LEASE) if (run := picture.records[number]) is not None
    }
    for key, circuit in sorted(picture.circuits.items()):
        if circuit.probe is not None and circuit.probe not in leases:
            yield Finding(f"the breaker of {holder(key)}", NO_PROBE)
    is_open = {key for key, circuit in picture.circuits.items() if circuit.until is not None}
    for key in sorted(is_open ^ picture.open):
        yield Finding(f"the breaker of {holder(key)}", AJAR)


def _busy(picture: Picture) -> Iterator[Finding]:
    """Find workers whose limits are judged by wrong counts."""
    counted: Counter[tuple[str, str]] = Counter()
    for _, worker, _, number in picture.listed(LEASE):
        run = picture.records[number]
        if run is not None and run.state == RunState.RUNNING and not run.lapsed and worker in picture.workers:
            counted[worker, run.lane] += 1
    for worker, lane in sorted({*counted, *picture.busy}):
        said, there = picture.busy[worker, lane], counted[worker, lane]
        if said != there:
            yield Finding(f"worker {worker}", BUSY.format(lane, said, there))


def _working(picture: Picture) -> set[str]:
    return {name for name, book in picture.lanes.items() if book.ready()}


def _idle_gates(picture: Picture) -> Iterator[Finding]:
    """Find what could go on and is not brought back."""
    for name, lane in sorted(picture.lanes.items()):
        for user, seat in sorted(lane.seats.items()):
            cap = lane.cap(user)
            if seat.parked > 0 and not seat.out and (cap is None or seat.active < cap):
                yield Finding(f"{user} in lane {name}", PARKED_ON)
    for name, book in sorted(picture.sessions.items()):
        if book.held and book.admits():
            yield Finding(f"session {name}", HELD_ON)
