"""Trim the deltas in the log of a run that ended some time ago.

Each unbroken stretch of deltas becomes one mark, `trimmed {first, last, events}`, under the number of the last delta.
All other events keep their numbers, so cursors stay valid: a reader that continues from a cursor, even one inside a
stretch, sees the mark for what is gone, and no other gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from laneway.core.records.events import DELTA, TRIMMED, Stamped, draft

Chunk = tuple[int, Sequence[Stamped]]  # the number of the first event that it covers, and its rows


class _Stretch(NamedTuple):
    first: int
    last: int
    attempt: int
    at: int

    def mark(self) -> Stamped:
        covered = {"first": self.first, "last": self.last, "events": self.last - self.first + 1}
        kind, data = draft(TRIMMED, covered)
        return kind, self.attempt, self.at, data


def trimmed(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return the chunks of a log with every stretch of deltas replaced by its mark.

    A mark stands where its stretch ends. If it is the first row of a chunk, that chunk begins where the stretch began.

    >>> one = (1, [("started", 1, 5, "{}"), ("delta", 1, 5, "{}")])
    >>> other = (3, [("delta", 1, 6, "{}"), ("done", 1, 7, "{}")])
    >>> for first, rows in trimmed([one, other]):
    ...     print(first, [(kind, data) for kind, _, _, data in rows])
    1 [('started', '{}')]
    2 [('trimmed', '{"first":2,"last":3,"events":2}'), ('done', '{}')]
    """
    found: list[Chunk] = []
    stretch: _Stretch | None = None
    for first, rows in chunks:
        start, kept, seq = first, list[Stamped](), first - 1
        for row in rows:
            kind, attempt, at, data = row
            seq = msgspec.json.decode(data)["last"] if kind == TRIMMED else seq + 1
            if kind == DELTA:
                stretch = _Stretch(stretch.first if stretch else seq, seq, attempt, at)
                continue
            if stretch is not None:
                start = start if kept else stretch.first
                kept.append(stretch.mark())
                stretch = None
            kept.append(row)
        if kept:
            found.append((start, kept))
    return found if stretch is None else [*found, (stretch.first, [stretch.mark()])]
