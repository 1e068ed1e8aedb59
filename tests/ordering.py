"""In which order the processes that execute the tests get them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def spread(items: Sequence[T], workers: int, waits: Callable[[T], bool]) -> list[T]:
    """Return the tests so that those which wait for others come first in all processes but one, which computes.

    Each process gets a stretch of the list, all of the same length, and who is done takes from the others' ends. So no
    long test is left over for the end. Within both kinds the order stays as it was, which is random.
    """
    waiting, computing = ([item for item in items if waits(item) is wanted] for wanted in (True, False))
    share, parts = len(items) // workers, max(1, workers - 1)
    found: list[T] = []
    for part in range(parts):
        found += waiting[part::parts]
        room = max(0, share * (part + 1) - len(found))
        found += computing[:room]
        computing = computing[room:]
    return found + computing
