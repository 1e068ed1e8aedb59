"""Recounting: what a store's counts must be, told from what they count.

Lanes, users and sessions are counted as runs move (`core.turns`, `core.sessions`), because a claim cannot count a
million runs. Those counts change in the same atomic step as what they count, so they agree for good, unless somebody
edits the store by hand, a disk lies, or we have a bug. `recount` tells what they must be; `laneway doctor` compares and
repairs. The contract compares them after every command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from laneway.core.turns import AGAIN, BACK, OUT

Key = tuple[str | int | None, ...]  # what is counted, whose it is, the name of the count: ("lane", "main", "active")
Counts = Mapping[Key, int]

LEASE, READY, PARKED, HELD, DUE, PAUSED = "lease", "ready", "parked", "held", "due", "paused"


class Finding(msgspec.Struct, frozen=True):
    """Something in a store that does not agree with the rest of it."""

    what: str  # "lane main", "run 0197f0c2a1b3"
    wrong: str  # "active is 3, counted are 2"


class Spot(NamedTuple):
    """Where a run is that has not ended: leased, on a shelf, or paused. `gate` is that of a parked set."""

    shelf: str
    gate: str | None
    lane: str
    user: str | None
    session: str | None
    priority: int
    task: str
    kind: int


def recount(spots: Iterable[Spot]) -> Counts:
    """Return what the counts must be. What counts nothing is absent.

    >>> recount([Spot(LEASE, None, "main", "ann", None, 0, "work", AGAIN)])
    Counter({('lane', 'main', 'active'): 1, ('seat', 'main', 'ann', 'active'): 1})
    """
    counts: Counter[Key] = Counter()
    for spot in spots:
        counts.update(_in_lane(spot))
        counts.update(_in_session(spot))
    return counts


def differences(stored: Counts, counted: Counts) -> list[tuple[Key, int, int]]:
    """Return each count that differs: its key, what is stored, and what was counted."""
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
    "session": "session {}",
}


def _in_lane(spot: Spot) -> dict[Key, int]:
    shelf, gate, lane, user, _, priority, task, kind = spot
    counts: dict[Key, int] = {}
    if shelf == LEASE:
        counts["lane", lane, "active"] = 1
        if user is not None:
            counts["seat", lane, user, "active"] = 1
    if shelf == READY:
        counts["pace", lane, priority, "ready"] = 1
        if user is not None and kind & BACK:
            counts["seat", lane, user, "out"] = OUT + priority
    if shelf == PARKED:
        parked: Key = ("seat", lane, user, "parked") if gate == f"user:{user}" else ("aside", lane, task, "runs")
        counts[parked] = 1
    if shelf in (READY, PARKED) and not kind & AGAIN:
        counts["turn", lane, user, priority, "waiting"] = 1
    return counts


def _in_session(spot: Spot) -> dict[Key, int]:
    name, again = spot.session, spot.kind & AGAIN
    # A run of the future has not joined, a paused one has left; one that was started before has kept its place.
    if name is None or (spot.shelf in (DUE, PAUSED) and not again):
        return {}
    if spot.shelf == HELD:
        return {("session", name, "held"): 1}
    unstarted = spot.shelf != LEASE and not again
    return {("session", name, "admitted"): 1, ("session", name, "unstarted"): int(unstarted)}
