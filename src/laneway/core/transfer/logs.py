"""A run's log in a transfer: in chunks, with the numbers that its events had and have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from laneway.core.records.events import TRIMMED, Stamped, chunk, counted

SIZE = 64  # events of a chunk


def chunks(log: Sequence[Stamped]) -> Iterator[tuple[int, int, str]]:
    """Go through a log in chunks: the numbers of the first and the last event, and the text.

    >>> mark = ("trimmed", 1, 9, '{"first":2,"last":5,"events":4}')
    >>> list(chunks([("log", 1, 9, "{}"), mark]))
    [(1, 5, '[["log",1,9,{}],["trimmed",1,9,{"first":2,"last":5,"events":4}]]')]
    """
    last = 0
    for at in range(0, len(log), SIZE):
        rows, first = log[at : at + SIZE], last + 1
        *_, (last, _) = counted(first, [(kind, 0, 0, _number(kind, data)) for kind, _, _, data in rows])
        yield first, last, chunk(rows)


def _number(kind: str, data: str) -> object:
    # Only a mark's data has a number.
    return msgspec.json.decode(data) if kind == TRIMMED else None
