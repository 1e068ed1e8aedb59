"""Ask both, the fast answer and the slow one, around a change of the clock, and compare."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise

from laneway.core.schedules import Schedule
from laneway.core.schedules.form import to_dict
from tests.oracle.brute import Sky, fires
from tests.oracle.histories import Changed

ORDINARY = datetime(2001, 6, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
FEW, MANY = 40, 120  # fires within the wide window; fires that are compared one by one
WIDE, NARROW = timedelta(hours=36), timedelta(minutes=100)
PROBES = 25


@dataclass
class Tally:
    """Cases (a rule at a change of a clock), answers compared in them, and what did not agree."""

    cases: int = 0
    answers: int = 0
    mismatches: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.answers += other.answers
        self.mismatches += other.mismatches


def ask(change: Changed, rules: Sequence[Schedule], dice: random.Random) -> Tally:
    """Compare the answers for all rules around one change."""
    tally = Tally()
    wide = WIDE + abs(change.by)
    sky = Sky(change.zone, change.at - wide - 2 * HOUR, change.at + wide + 2 * HOUR)
    for rule in rules:
        tally.cases += 1
        span = wide if _is_sparse(rule) else NARROW + abs(change.by)
        low, high = change.at - span, change.at + span
        slow = fires(_plain(rule), sky, low, high)
        for asked, expected in _questions(slow, low, high, change, dice):
            tally.answers += 1
            said = rule.next_after(asked, change.zone)
            if said != expected and not (expected is None and (said is None or said > high)):
                tally.mismatches.append(f"{rule!r} in {change.zone} after {asked}: said {said}, but {expected}")
        assert all(earlier < later for earlier, later in pairwise(slow))
    return tally


_plain = cache(to_dict)


@cache
def _is_sparse(rule: Schedule) -> bool:
    """Tell whether a rule fires few times in the wide window, wherever that is."""
    seen = list(islice(rule.fires(ORDINARY), FEW))
    return not seen or seen[-1] > ORDINARY + 2 * WIDE


def _questions(
    slow: list[datetime], low: datetime, high: datetime, change: Changed, dice: random.Random
) -> Iterator[tuple[datetime, datetime | None]]:
    if len(slow) <= MANY:
        # Each answer is the next question: that they are the same list says also that they only grow.
        yield from zip([low, *slow], [*slow, None], strict=True)
    probes = [change.at + timedelta(microseconds=shift) for shift in (-1_000_000, -1, 0, 1)]
    probes += [change.at + abs(change.by) * part for part in (-1, -0.5, 0.5, 1)]
    probes += [low + (high - low) * dice.random() for _ in range(PROBES if len(slow) > MANY else 2)]
    for probe in probes:
        index = bisect_right(slow, probe)
        yield probe, slow[index] if index < len(slow) else None
