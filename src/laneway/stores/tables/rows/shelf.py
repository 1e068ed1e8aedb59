"""Ordered sets of runs over tables: read from the front, a page at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Protocol

from laneway.stores.tables.rows.run_row import Line
from laneway.stores.tables.sql.statements import Row

Key = tuple[int, int]  # rank, acceptance
Ranked = tuple[int, int, Line]  # rank, acceptance, the run
FRONT = (-(2**62), 0)  # before every key

_key: Callable[[Line], Key] = attrgetter("rank", "number")


class Reader(Protocol):
    """What reads the tables of shelves for a transaction."""

    def read(self, shelf: Paged, after: Key, page: int) -> tuple[Sequence[Line], bool]:
        """Return the how manieth page of a shelf, behind that key, and whether there are more."""


class Paged:
    """An ordered set of runs in a table, read from its front in pages, when more is needed.

    `key` is what its `table` knows it by, before rank and acceptance. What was `read`, and not taken, lies there in
    descending order: the first is the last of the list. *Invariant*: what is in the table and was not read lies behind
    `_read_to`, and what was `taken` from the table is exactly its range up to the last of that.
    """

    __slots__ = ("_all_read", "_read_to", "coming", "key", "pages", "read", "table", "taken")

    def __init__(self, table: str, key: tuple[str, ...]) -> None:
        self.table, self.key = table, key
        self.pages = 0
        self.read: list[Line] = []
        self._read_to: Key = FRONT
        self._all_read = False
        self.coming: Callable[[], tuple[list[Row], bool]] | None = None  # the next page, if it was asked for
        self.taken: list[Key] = []

    def prime(self, firsts: Sequence[Line]) -> None:
        """Take note of the table's first rows, which a query for many shelves has brought."""
        self._fill(firsts, more=True)
        self.pages = 1

    def runs_out(self, wanted: int) -> Key | None:
        """Return the key behind which to read on, if less than so many are left of what was read."""
        return None if self._all_read or len(self.read) >= wanted else self._read_to

    @property
    def is_new(self) -> bool:
        """Tell whether nothing of it was read yet."""
        return not self.pages

    def _find_more(self, reader: Reader) -> None:
        """Read on until something was found, or all is read."""
        while not self._all_read and not self.read:
            rows, more = reader.read(self, self._read_to, self.pages)
            self._fill(rows, more=more)
            self.pages += 1

    def _fill(self, rows: Sequence[Line], *, more: bool) -> None:
        if rows:
            self.read[:0] = rows[::-1]
            self._read_to = rows[-1].rank, rows[-1].number
        self._all_read = not more


class Order(Paged):
    """A ready order, for one transaction: what it puts there is in a heap, beside what was read.

    Where users are at their caps the table has mostly none, and what starts was brought back in the same step.
    """

    __slots__ = ("heap",)

    def __init__(self, table: str, key: tuple[str, ...]) -> None:
        super().__init__(table, key)
        self.heap: list[Ranked] = []

    def know_empty(self) -> None:
        """Take note that its table has none."""
        self._all_read = True

    def put(self, run: Line) -> None:
        """Put a run at its rank."""
        heappush(self.heap, (run.rank, run.number, run))

    def first(self, reader: Reader) -> Key | None:
        """Return the key of the first run, if there is one."""
        if self._is_put_first(reader):
            return self.heap[0][:2]
        return _key(self.read[-1]) if self.read else None

    def take(self, reader: Reader) -> Line | None:
        """Take the first run."""
        read, heap = self.read, self.heap
        if heap and ((self._all_read and not read) or self._is_put_first(reader)):
            return heappop(heap)[2]
        if not read:
            self._find_more(reader)
            if not read:
                return None
        run = read.pop()
        self.taken.append((run.rank, run.number))  # now: it gets another rank where it goes
        return run

    def _is_put_first(self, reader: Reader) -> bool:
        """Tell whether the first of all is one that was put here, once all is known that may come before it."""
        read, heap = self.read, self.heap
        if not read and not (heap and heap[0][:2] <= self._read_to):
            self._find_more(reader)
        return bool(heap) and not (read and heap[0] > _key(read[-1]))

    def left(self) -> list[Line]:
        """Return the runs put here that are still here."""
        return [run for _, _, run in self.heap]


class Shelf(Paged):
    """A parked set, or what a session holds back. It is remembered from one transaction to the next.

    So it is told each time who reads for this one. What is put there takes its place among what was read; what belongs
    behind that waits until it is read so far, and is forgotten if it was written before. `fresh` are the runs that this
    transaction has put there, and are still there, by number: the table has yet to get them.
    """

    __slots__ = ("_behind", "fresh")

    def __init__(self, table: str, key: tuple[str, ...]) -> None:
        super().__init__(table, key)
        self.fresh: dict[int, Line] = {}
        self._behind: list[Line] = []  # of these, the ones that are not among what was read

    def put(self, run: Line) -> None:
        """Put a run at its rank."""
        self.fresh[run.number] = run
        read = self.read
        if self._all_read and (not read or run.rank > read[0].rank):
            read.insert(0, run)  # mostly it comes last
        else:
            self._place(run)

    def first(self, reader: Reader) -> Key | None:
        """Return the key of the first run, if there is one."""
        if not self.read:
            self._find_more(reader)
        return _key(self.read[-1]) if self.read else None

    def take(self, reader: Reader) -> Line | None:
        """Take the first run."""
        read = self.read
        if not read:
            self._find_more(reader)
            if not read:
                return None
        run = read.pop()
        if self.fresh.pop(run.number, None) is None:
            self.taken.append((run.rank, run.number))  # now: it gets another rank where it goes
        return run

    def written(self) -> None:
        """Take note that the table holds what was put here, and not what was taken."""
        self.taken.clear()
        if self.fresh:
            self.fresh.clear()
            self._behind.clear()
            self.coming = None  # it was asked for before that was put

    def _place(self, run: Line) -> None:
        key = _key(run)
        if self._all_read or key <= self._read_to:
            self.read.insert(bisect_left(self.read, (-key[0], -key[1]), key=_descending), run)
        else:
            self._behind.append(run)

    def _fill(self, rows: Sequence[Line], *, more: bool) -> None:
        super()._fill(rows, more=more)
        if self._behind:
            behind, self._behind = self._behind, []
            for run in behind:
                self._place(run)


def _descending(run: Line) -> Key:
    return -run.rank, -run.number
