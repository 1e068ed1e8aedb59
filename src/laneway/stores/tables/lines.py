"""A pending or leased run inside a transaction, and an ordered shelf of such runs over a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

import msgspec

from laneway.core.run import NewRun, Ties

Key = tuple[int, int]  # rank, acceptance
FRONT = (-(2**62), 0)  # before every key

decode_ties = msgspec.json.Decoder(Ties).decode


def encode_ties(new: NewRun) -> str | None:
    """Return what ties a submission to other runs, as JSON."""
    return None if new.ties is None else msgspec.json.encode(new.ties).decode()


class Line(msgspec.Struct, eq=False, gc=False):
    """A run as a transaction holds it, in the order of the columns in `shelves.sql`.

    `args` is None where it was not read. `paused` is set for one that is paused where it is held, `arrival` is what it
    says of its session when it joins, as JSON, and was read where it can be about to. `tied` are its ties, as JSON, and
    `kept` is how many memos it has.
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
    tied: str | None = None
    paused: bool = False
    arrival: str | None = None
    attempt: int = 1
    crashes: int = 0
    fence: int = 0
    events: int = 0
    checkpoint: str | None = None
    prepared: str | None = None
    messages: int = 0
    kept: int = 0

    @property
    def ties(self) -> Ties | None:
        """What ties it to other runs."""
        return None if self.tied is None else decode_ties(self.tied)


class Shelf:
    """An ordered set of runs in a table, read from its front in pages, with what this transaction puts there.

    `key` is what its table knows it by, before rank and acceptance. Whoever uses it sets `read`: (the shelf, behind
    which rank and acceptance, the how manieth page) -> its runs, and whether there are more.

    *Invariant*: what is in the table and not yet read lies behind `_read_to`. So the first of the heap is the first of
    all if it does not lie behind that key, and what was taken from the table is exactly its range up to `taken_to`.
    """

    __slots__ = ("_all_read", "_heap", "_put", "_read_to", "is_changed", "key", "pages", "read", "taken_to")

    read: Callable[[Shelf, Key, int], tuple[Sequence[Line], bool]]

    def __init__(self, key: tuple[str, ...]) -> None:
        self.key = key
        self.pages = 0
        self._put: list[Line] = []  # not yet in the heap: most transactions only put
        self._heap: list[tuple[int, int, bool, Line]] = []  # rank, acceptance, whether it is put here, the run
        self._read_to = (*FRONT, True)  # an entry of the heap that was read is not greater than the last that was
        self._all_read = False
        self.is_changed = False  # something was put here
        self.taken_to: Key | None = None

    def put(self, run: Line) -> None:
        """Put a run at its rank."""
        self._put.append(run)
        self.is_changed = True

    def prime(self, firsts: Sequence[Line]) -> None:
        """Take note of the table's first rows, which a query for many shelves has brought."""
        self._fill(firsts, more=True)
        self.pages = 1

    def first(self) -> Key | None:
        """Return the key of the first run, if there is one."""
        self._look()
        return self._heap[0][:2] if self._heap else None

    def take(self) -> Line | None:
        """Take the first run."""
        heap = self._heap
        if self._put or not heap or heap[0] > self._read_to:
            self._look()
            if not heap:
                return None
        rank, number, put_here, run = heappop(heap)
        if not put_here:
            self.taken_to = rank, number
        return run

    def _look(self) -> None:
        """Bring the first of all to the front of the heap."""
        heap = self._heap
        if self._put:
            for run in self._put:
                heappush(heap, (run.rank, run.number, True, run))
            self._put.clear()
        while not self._all_read and (not heap or heap[0] > self._read_to):
            rows, more = self.read(self, self._read_to[:2], self.pages)
            self._fill(rows, more=more)
            self.pages += 1

    def written(self) -> None:
        """Take note that the table holds what was put here.

        What lies behind the key up to which the table was read is forgotten: it is read when its turn comes.
        """
        entries = [(rank, number, False, run) for rank, number, _, run in self._heap]
        entries += [(run.rank, run.number, False, run) for run in self._put]
        self._heap = entries if self._all_read else [entry for entry in entries if entry <= self._read_to]
        heapify(self._heap)
        self._put.clear()
        self.is_changed = False

    def runs_out(self, wanted: int) -> Key | None:
        """Return the key behind which to read on, if less than so many are left of what was read."""
        return None if self._all_read or len(self._heap) >= wanted else self._read_to[:2]

    @property
    def is_new(self) -> bool:
        """Tell whether nothing of it was read yet."""
        return not self.pages

    def left(self) -> list[Line]:
        """Return the runs put here that are still here."""
        return [*self._put, *(run for _, _, put_here, run in self._heap if put_here)]

    def _fill(self, rows: Sequence[Line], *, more: bool) -> None:
        if rows:
            heap = self._heap
            heap += [(run.rank, run.number, False, run) for run in rows]
            if len(heap) > 1:
                heapify(heap)
            self._read_to = rows[-1].rank, rows[-1].number, True
        self._all_read = not more
