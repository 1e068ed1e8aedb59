"""Recount: what the counts of a store must be, computed from its runs.

The counts of lanes, users and sessions change as runs move (`turns`, `sessions`), because a claim cannot count a
million runs. They change in the same atomic step as the runs, so they stay right unless somebody edits the store by
hand, a disk fails, or laneway has a bug. `recount` computes what they must be. `laneway doctor` compares and repairs
them; the contract suite compares them after every command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.shelves import BREAKER
from laneway.core.queue.turns import AGAIN, BACK, OUT, STILL

Key = tuple[str | int | None, ...]  # what is counted, whose it is, the name of the count: ("lane", "main", "active")
Counts = Mapping[Key, int]

LEASE, READY, PARKED, HELD, DUE, PAUSED, WAITING = "lease", "ready", "parked", "held", "due", "paused", "waiting"

NO_PROBE = "it waits for a probe that nobody executes"


class Finding(msgspec.Struct, frozen=True):
    """Something in a store that does not agree with the rest of it."""

    what: str  # "lane main", "run 0197f0c2a1b3"
    wrong: str  # "active is 3, counted are 2"


class Spot(NamedTuple):
    """Where a run that has not ended is: leased, on a shelf, paused, or waiting.

    `gate` is the gate of a parked set; for a waiting run it says whether the run asks. `place` is what the session's
    book says about the run: admitted, outside, or neither. It is needed only for a run on no shelf and for one of the
    future, where nothing else tells. `paused` is set for a run that is paused while it is held.
    """

    shelf: str
    gate: str | None
    lane: str
    user: str | None
    session: str | None
    priority: int
    task: str
    kind: int
    number: int = 0
    place: str = ""
    paused: bool = False


ADMITTED, OUTSIDE, ASKING = "admitted", "outside", "asking"


def recount(spots: Iterable[Spot]) -> Counts:
    """Return what the counts must be. A count of zero is absent.

    >>> recount([Spot(LEASE, None, "main", "ann", None, 0, "work", AGAIN)])
    Counter({('lane', 'main', 'active'): 1, ('seat', 'main', 'ann', 'active'): 1})
    """
    counts: Counter[Key] = Counter()
    for spot in spots:
        counts.update(_in_lane(spot))
        counts.update(_in_session(spot))
    return counts


def differences(stored: Counts, counted: Counts) -> list[tuple[Key, int, int]]:
    """Return each count that differs: its key, the stored value, and the counted one."""
    pairs = ((key, stored.get(key, 0), counted.get(key, 0)) for key in {*stored, *counted})
    return sorted((pair for pair in pairs if pair[1] != pair[2]), key=lambda pair: [str(part) for part in pair[0]])


def miscounted(key: Key, stored: int, counted: int) -> Finding:
    """Return the finding for a count that differs.

    >>> miscounted(("turn", "main", None, 5, "waiting"), 3, 2)
    Finding(what='runs without a user in lane main, priority 5', wrong='waiting is 3, counted are 2')
    """
    kind, *owner, name = key
    who = _OWNERS[str(kind)].format(*("runs without a user" if part is None else part for part in owner))
    return Finding(who, f"{name} is {stored}, counted are {counted}")


_OWNERS = {
    "lane": "lane {}",
    "pace": "lane {}, priority {}",
    "turn": "{1} in lane {0}, priority {2}",
    "seat": "{1} in lane {0}",
    "aside": "task {1} in lane {0}",
    "broken": "the breaker of {1!r} in lane {0}",
    "session": "session {}",
}


def _in_lane(spot: Spot) -> dict[Key, int]:
    shelf, gate, lane, user, _, priority, task, kind, *_ = spot
    counts: dict[Key, int] = {}
    if shelf not in (LEASE, PAUSED, WAITING) and not spot.paused:
        counts["lane", lane, "pending"] = 1
    if shelf == LEASE:
        counts["lane", lane, "active"] = 1
        if user is not None:
            counts["seat", lane, user, "active"] = 1
    if shelf == READY:
        counts["pace", lane, priority, "ready"] = 1
        if user is not None and kind & BACK:
            counts["seat", lane, user, "out"] = OUT + priority
    if shelf == PARKED and not kind & STILL:
        counts[_parked(gate or "", lane, user, task)] = 1
    if shelf in (READY, PARKED) and not kind & (AGAIN | STILL):
        counts["turn", lane, user, priority, "waiting"] = 1
    return counts


def _parked(gate: str, lane: str, user: str | None, task: str) -> Key:
    if gate.startswith(BREAKER):
        return "broken", lane, gate.removeprefix(BREAKER), "runs"
    return ("seat", lane, user, "parked") if gate == f"user:{user}" else ("aside", lane, task, "runs")


def counted(book: SessionBook) -> dict[str, int]:
    """Return the counts that a session's book keeps."""
    return {
        ADMITTED: len(book.admitted),
        OUTSIDE: len(book.outside),
        "unstarted": int(book.unstarted > 0),
        "held": book.held,
        "back": book.back,
        ASKING: len(book.asking),
    }


def place_of(spot: Spot) -> str:
    """Return whether the session has admitted the run, or it is outside; empty if neither."""
    again = spot.kind & AGAIN
    if spot.shelf == HELD:
        return OUTSIDE if again else ""
    if spot.shelf == DUE and not again:
        return ""  # it has not joined yet, whatever its session's book says
    if spot.shelf in (DUE, PAUSED, WAITING):
        # A run that was started before kept its place, or stepped out.
        return spot.place or (ADMITTED if again else "")
    return ADMITTED


def list_again(book: SessionBook, spots: Iterable[Spot]) -> None:
    """Rebuild a session's lists from where its runs are."""
    places = [(spot, place_of(spot)) for spot in spots]
    book.admitted = sorted(spot.number for spot, place in places if place == ADMITTED)
    book.outside = sorted(spot.number for spot, place in places if place == OUTSIDE)
    book.unstarted = next((spot.number for spot, place in places if place == ADMITTED and _is_unstarted(spot)), 0)
    held = [spot for spot, _ in places if spot.shelf == HELD]
    book.held, book.back = len(held), sum(bool(spot.kind & AGAIN) for spot in held)
    book.asking = sorted(spot.number for spot, _ in places if spot.gate == ASKING)


def _is_unstarted(spot: Spot) -> bool:
    return spot.shelf != LEASE and not spot.kind & AGAIN


def _in_session(spot: Spot) -> dict[Key, int]:
    name, place = spot.session, place_of(spot)
    if name is None:
        return {}
    counts: dict[Key, int] = {("session", name, place): 1} if place else {}
    if place == ADMITTED:
        counts["session", name, "unstarted"] = int(_is_unstarted(spot))
    if spot.gate == ASKING:
        counts["session", name, ASKING] = 1
    if spot.shelf == HELD:
        counts["session", name, "held"] = 1
        counts["session", name, "back"] = int(bool(spot.kind & AGAIN))
    return counts
