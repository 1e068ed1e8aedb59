"""A pending or leased run inside a transaction, and an ordered shelf of such runs over a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

import msgspec

Key = tuple[int, int]  # rank, acceptance
FRONT: Key = (-(2**62), 0)


class Line(msgspec.Struct, eq=False, gc=False):
    """A run as a transaction holds it, in the order of the columns in `shelves.sql`.

    `args` is None where it was not read. `paused` is set for one that is paused where it is held, `arrival` is what it
    says of its session when it joins, as JSON, and was read where it can be about to.
    """

    kind: int
    rank: int
    number: int
    id: str
    task: str
    args: str | None
    lane: str
    user: str | None
    session: str | None
    priority: int
    paused: bool = False
    arrival: str | None = None
    attempt: int = 1
    crashes: int = 0
    fence: int = 0
    events: int = 0
    checkpoint: str | None = None
    prepared: str | None = None
    messages: int = 0


class Shelf:
    """An ordered set of runs in a table, read from its front in pages, with what this transaction puts there.

    *Invariant*: what is in the table and not yet read lies behind `_read_to`. So the first of the heap is the first of
    all if it lies before that key, and what was taken from the table is exactly its range up to `taken_to`.
    """

    __slots__ = ("_all_read", "_heap", "_pages", "_put", "_read", "_read_to", "taken_to")

    def __init__(self, read: Callable[[Key, int], tuple[Sequence[Line], bool]]) -> None:
        self._read = read  # (behind which key, the how manieth page) -> its runs, and whether there are more
        self._pages = 0
        self._put: list[Line] = []  # not yet in the heap: most transactions only put
        self._heap: list[tuple[int, int, bool, Line]] = []  # rank, acceptance, whether it is put here, the run
        self._read_to = FRONT
        self._all_read = False
        self.taken_to: Key | None = None

    def put(self, run: Line) -> None:
        """Put a run at its rank."""
        self._put.append(run)

    def prime(self, firsts: Sequence[Line]) -> None:
        """Take note of the table's first rows, which a query for many shelves has brought."""
        self._fill(firsts, more=True)
        self._pages = 1

    def skip(self, key: Key) -> None:
        """Take note that what lies up to this key was read and taken."""
        self._read_to = self.taken_to = key

    def first(self) -> Key | None:
        """Return the key of the first run, if there is one."""
        heap = self._heap
        if self._put:
            for run in self._put:
                heappush(heap, (run.rank, run.number, True, run))
            self._put.clear()
        while not self._all_read and (not heap or heap[0][:2] > self._read_to):
            rows, more = self._read(self._read_to, self._pages)
            self._fill(rows, more=more)
            self._pages += 1
        return heap[0][:2] if heap else None

    def take(self) -> Line | None:
        """Take the first run."""
        if self.first() is None:
            return None
        rank, number, put_here, run = heappop(self._heap)
        if not put_here:
            self.taken_to = rank, number
        return run

    def left(self) -> list[Line]:
        """Return the runs put here that are still here."""
        return [*self._put, *(run for _, _, put_here, run in self._heap if put_here)]

    def _fill(self, rows: Sequence[Line], *, more: bool) -> None:
        if rows:
            heap = self._heap
            heap += [(run.rank, run.number, False, run) for run in rows]
            if len(heap) > 1:
                heapify(heap)
            self._read_to = rows[-1].rank, rows[-1].number
        self._all_read = not more
