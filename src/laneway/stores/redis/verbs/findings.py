"""What does not agree in a store, from a snapshot of it.

**Which facts are trusted.** A run's record is trusted before the lists that name it: a run that has ended has ended. A
lease is trusted before a shelf, and everything that can be counted before its count. A run that has not ended and is in
no place, or in a wrong one, goes to the due shelf, from where the next step takes it in by the usual rules; at worst it
loses its turn.

A script takes the snapshot, so it is consistent; this module and `core.queue.audit` decide what it means. The script
reads all runs that have not ended, which takes a server about a second for 100,000 runs. Ended runs are only counted,
unless totals that the server knows without counting do not agree: then the script reads everything.

A repair (`lua/admin/repair.lua`) happens in the script that takes the snapshot: it restates these decisions, and brings
back runs that have room then.
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
from laneway.stores.redis.verbs.snapshot import ENDS, SHELVES, CheckedRun, Snapshot, spots, stored

NOWHERE, UNLISTED = "nowhere", "unlisted"

UNKNOWN = "a place is taken for it, but there is no such run"
ENDED = "it has ended, but is still to be executed"
DOUBLED = "it is in several places"
MISPLACED = "it is in another place than its record says"
STRANDED = "it is pending, but in no place where a claim would meet it"
LEFT = "it is running, but no worker holds its lease"
HIDDEN = "it is {}, but not listed as that"
UNFOUND = "it is not found by its id or its end"
FOR_NOTHING = "it waits, but for nothing"
LATE = "it does not wait, but has a question to be answered in time"
UNTIMED = "it waits for an answer, but its deadline is not listed"
UNHELD = "it holds leases, but is not known, so nobody takes over from it"
ORPHANED = "there are arguments, results or an end of it, but no run"
MISTIMED = "it is not found when its state says that it is due"
UNWORKED = "it has runs to start but is not listed for that, or is listed without any"
AJAR = "it is open but not listed, or listed but closed"
PARKED_ON = "parked runs could go on, but nothing brings them back"
BUSY = "it executes {1} runs of lane {0} by its count, counted are {2}"
HELD_ON = "held runs could go on, but nothing admits them"


def findings(snapshot: Snapshot) -> list[Finding]:
    """Return what does not agree."""
    return [
        *_misplaced(snapshot),
        *_missing(snapshot),
        *_waits(snapshot),
        *_breakers(snapshot),
        *_idle_gates(snapshot),
        *_busy(snapshot),
        *(Finding(f"lane {name}", UNWORKED) for name in sorted(snapshot.working ^ _working(snapshot))),
        *(Finding(f"job {id_}", MISTIMED) for id_ in sorted(dict(snapshot.jobs.items() ^ snapshot.due_jobs.items()))),
        *(miscounted(*difference) for difference in differences(stored(snapshot), recount(spots(snapshot)))),
    ]


def _misplaced(snapshot: Snapshot) -> Iterator[Finding]:
    """Find runs in wrong places."""
    found = list(snapshot.listed(LEASE, *SHELVES, PAUSED, WAITING))
    held = {number for shelf, _, _, number in found if shelf == HELD}
    times = Counter(
        number
        for shelf, _, _, number in found
        # A run that is paused while it is held is in both lists.
        if not (shelf == PAUSED and number in held and snapshot.records[number] is not None)
    )
    for shelf, owner, gate, number in sorted(found, key=lambda place: (place[3], place[0])):
        run = snapshot.records[number]
        if run is None:
            yield Finding(f"run number {number}", UNKNOWN)
        elif run.state in ENDS:
            yield Finding(f"run {run.id}", ENDED)
        elif times[number] > 1:
            times[number] = 0
            yield Finding(f"run {run.id}", DOUBLED)
        elif times[number] == 1 and not _is_right(run, shelf, owner, gate):
            yield Finding(f"run {run.id}", MISPLACED)
    for name in sorted({owner for shelf, owner, _, _ in snapshot.places if shelf == LEASE} - snapshot.workers):
        yield Finding(f"worker {name}", UNHELD)


def _is_right(run: CheckedRun, shelf: str, owner: str, gate: str | None) -> bool:
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


def _missing(snapshot: Snapshot) -> Iterator[Finding]:
    """Find runs that are in no place, and what is left of runs that do not exist."""
    for _, _, _, number in snapshot.listed(NOWHERE):
        run = snapshot.records[number]
        if run is not None:
            wrong = {RunState.PENDING: STRANDED, RunState.RUNNING: LEFT}.get(run.state, HIDDEN.format(run.state))
            yield Finding(f"run {run.id}", wrong)
    for _, _, _, number in snapshot.listed(UNLISTED):
        run = snapshot.records[number]
        yield Finding(f"run {run.id if run else number}", UNFOUND)
    for number in sorted({number for _, _, number in snapshot.orphans}):
        yield Finding(f"run number {number}", ORPHANED)
    if snapshot.is_deep:
        listed, runs = snapshot.totals["blocks"], snapshot.totals["runs"]
        if listed != runs:
            yield Finding("the store", f"listed by number are {listed}, counted are {runs}")
        long_args, counted = snapshot.totals["long_args"], snapshot.totals["counted_long_args"]
        if long_args != counted:
            yield Finding("the store", f"runs with long arguments are {long_args}, counted are {counted}")
        for state in RunState:
            stored, there = snapshot.totals[state.value], snapshot.states.get(state.value, 0)
            if stored != there:
                yield Finding("the store", f"{state.value} is {stored}, counted are {there}")


def _waits(snapshot: Snapshot) -> Iterator[Finding]:
    """Find runs that wait for nothing, and wrong deadlines of questions."""
    asked = {}
    for _, _, _, number in snapshot.listed(WAITING):
        run = snapshot.records[number]
        if run is not None and run.state == RunState.WAITING:
            if run.wait is None or not (run.wait.questions or run.wait.calls):
                yield Finding(f"run {run.id}", FOR_NOTHING)
            elif run.wait.until is not None:
                asked[number] = run.wait.until
    for number in sorted({*asked, *snapshot.deadlines}):
        run = snapshot.records.get(number)
        if asked.get(number) != snapshot.deadlines.get(number):
            yield Finding(f"run {run.id if run else number}", UNTIMED if number in asked else LATE)


def _breakers(snapshot: Snapshot) -> Iterator[Finding]:
    """Find circuits whose probe does not run, or that are listed as open but closed, or the other way round."""
    leases = {
        (number, run.fence)
        for _, _, _, number in snapshot.listed(LEASE)
        if (run := snapshot.records[number]) is not None
    }
    for key, circuit in sorted(snapshot.circuits.items()):
        if circuit.probe is not None and circuit.probe not in leases:
            yield Finding(f"the breaker of {holder(key)}", NO_PROBE)
    is_open = {key for key, circuit in snapshot.circuits.items() if circuit.until is not None}
    for key in sorted(is_open ^ snapshot.open):
        yield Finding(f"the breaker of {holder(key)}", AJAR)


def _busy(snapshot: Snapshot) -> Iterator[Finding]:
    """Find workers with wrong counts of the runs that they execute."""
    counted: Counter[tuple[str, str]] = Counter()
    for _, worker, _, number in snapshot.listed(LEASE):
        run = snapshot.records[number]
        if run is not None and run.state == RunState.RUNNING and not run.lapsed and worker in snapshot.workers:
            counted[worker, run.lane] += 1
    for worker, lane in sorted({*counted, *snapshot.busy}):
        said, there = snapshot.busy[worker, lane], counted[worker, lane]
        if said != there:
            yield Finding(f"worker {worker}", BUSY.format(lane, said, there))


def _working(snapshot: Snapshot) -> set[str]:
    return {name for name, book in snapshot.lanes.items() if book.ready()}


def _idle_gates(snapshot: Snapshot) -> Iterator[Finding]:
    """Find runs that could start but are parked or held."""
    for name, lane in sorted(snapshot.lanes.items()):
        for user, seat in sorted(lane.seats.items()):
            cap = lane.cap(user)
            if seat.parked > 0 and not seat.out and (cap is None or seat.active < cap):
                yield Finding(f"{user} in lane {name}", PARKED_ON)
    for name, book in sorted(snapshot.sessions.items()):
        if book.held and book.admits():
            yield Finding(f"session {name}", HELD_ON)
