"""In which order the processes that execute the tests get them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def spread(items: Sequence[T], workers: int, waits: Callable[[T], bool]) -> list[T]:
    """Return the tests so that those that wait for processes come first in all test processes but one.

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


def files_below(given: Iterable[str], root: Path) -> list[Path]:
    """Return the test files below the root that these arguments of pytest name."""
    asked = [root / each.split("::")[0] for each in given]
    found = {file for each in asked for file in ([each] if each.is_file() else each.rglob("test_*.py"))}
    return sorted(file for file in found if file.is_relative_to(root))


def shares(items: Sequence[T], workers: int) -> list[Sequence[T]]:
    """Return the share of each process."""
    return [items[nth::workers] for nth in range(workers)]
