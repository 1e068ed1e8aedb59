"""An ordered set of runs in a table: read from its front, a page at a time, and changed in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Protocol

from laneway.stores.tables.rows.run_row import RunRow

Key = tuple[int, int]  # rank, acceptance
FRONT = (-(2**62), 0)  # before every key

_key: Callable[[RunRow], Key] = attrgetter("rank", "number")


class Reader(Protocol):
    """Reads the tables of shelves for a transaction."""

    def read(self, shelf: Shelf, after: Key, page: int) -> tuple[Sequence[RunRow], bool]:
        """Return page `page` (0-based) of a shelf, which begins after the key `after`, and whether more exist."""


class Shelf:
    """A ready order, a parked set, or the runs that a session holds back.

    `key` is the part of the table's key before rank and acceptance. `read` are the runs that were read from the table
    or put since, and not taken; they are in descending order, so the first run is the last of the list. A run that is
    put takes its place among them; one that belongs behind them waits in `_behind` until the table is read that far.
    `fresh` are the runs, by number, that were put and not taken since: the table does not have them yet. `taken` are
    the keys of runs that were taken and that the table still has.

    A shelf lives as long as its transaction. It has no reference to its reader, so that there is no cycle.

    *Invariants*: runs of the table that were not read are behind `_read_to`; `taken` is exactly the range of the table
    up to its last key.
    """

    __slots__ = ("_all_read", "_behind", "_read_to", "fresh", "key", "pages", "read", "table", "taken")

    def __init__(self, table: str, key: tuple[str, ...]) -> None:
        self.table, self.key = table, key
        self.pages = 0
        self.read: list[RunRow] = []
        self._read_to: Key = FRONT
        self._all_read = False
        self.taken: list[Key] = []
        self.fresh: dict[int, RunRow] = {}
        self._behind: list[RunRow] = []

    @property
    def is_new(self) -> bool:
        """Whether nothing of the table was read yet."""
        return not self.pages

    def know_empty(self) -> None:
        """Note that the table has no runs of it, so that none are read."""
        self._all_read = True

    def prime(self, firsts: Sequence[RunRow]) -> None:
        """Add the first rows of the table, which a query for many shelves has returned."""
        self._fill(firsts, more=True)
        self.pages = 1

    def put(self, run: RunRow) -> None:
        """Put a run at its rank."""
        self.fresh[run.number] = run
        self._place(run)

    def first(self, reader: Reader) -> Key | None:
        """Return the key of the first run, if there is one."""
        self._find_more(reader)
        return _key(self.read[-1]) if self.read else None

    def take(self, reader: Reader) -> RunRow | None:
        """Take the first run."""
        self._find_more(reader)
        if not self.read:
            return None
        run = self.read.pop()
        if self.fresh.pop(run.number, None) is None:
            self.taken.append((run.rank, run.number))  # now: the run gets another rank where it goes
        return run

    def _find_more(self, reader: Reader) -> None:
        """Read on until a run is in memory, or everything is read."""
        while not self.read and not self._all_read:
            rows, more = reader.read(self, self._read_to, self.pages)
            self._fill(rows, more=more)
            self.pages += 1

    def _fill(self, rows: Sequence[RunRow], *, more: bool) -> None:
        if rows:
            self.read[:0] = rows[::-1]
            self._read_to = rows[-1].rank, rows[-1].number
        self._all_read = not more
        if self._behind:
            behind, self._behind = self._behind, []
            for run in behind:
                self._place(run)

    def _place(self, run: RunRow) -> None:
        key, read = _key(run), self.read
        if not self._all_read and key > self._read_to:
            self._behind.append(run)
        elif not read or key > _key(read[0]):
            read.insert(0, run)  # most runs come last
        else:
            read.insert(bisect_left(read, (-key[0], -key[1]), key=_descending), run)


def _descending(run: RunRow) -> Key:
    return -run.rank, -run.number
