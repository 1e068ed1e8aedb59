"""A pending or leased run inside a transaction, and an ordered shelf of such runs over a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Protocol

import msgspec

from laneway.core.run import NewRun, Ties
from laneway.core.structs import written_often
from laneway.stores.tables.statements import Row

Key = tuple[int, int]  # rank, acceptance
FRONT = (-(2**62), 0)  # before every key

_key: Callable[[Line], Key] = attrgetter("rank", "number")
decode_ties = msgspec.json.Decoder(Ties).decode


def encode_ties(new: NewRun) -> str | None:
    """Return what ties a submission to other runs, as JSON."""
    return None if new.ties is None else msgspec.json.encode(new.ties).decode()


@written_often
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


class Reader(Protocol):
    """What reads the tables of shelves for a transaction."""

    def read(self, shelf: Shelf, after: Key, page: int) -> tuple[Sequence[Line], bool]:
        """Return the how manieth page of a shelf, behind that key, and whether there are more."""


class Shelf:
    """An ordered set of runs in a table, read from its front in pages, with what this transaction puts there.

    `key` is what its `table` knows it by, before rank and acceptance. It is remembered from one transaction to the
    next, so it is told each time who reads for this one.

    *Invariant*: what is in the table and not yet read lies behind `_read_to`. So the first that was read, or else the
    first that was put if it does not lie behind that key, is the first of all, and what was taken from the table is
    exactly its range up to the last of `taken`.
    """

    __slots__ = (
        "_all_read",
        "_heap",
        "_put",
        "_read",
        "_read_to",
        "coming",
        "is_changed",
        "key",
        "pages",
        "table",
        "taken",
    )

    def __init__(self, table: str, key: tuple[str, ...]) -> None:
        self.table, self.key = table, key
        self.pages = 0
        self._read: list[Line] = []  # and not taken; the first is the last of the list
        # What was put: in a list as long as nobody takes, which few transactions do, else as rank, acceptance, run.
        self._put: list[Line] = []
        self._heap: list[tuple[int, int, Line]] = []
        self._read_to: Key = FRONT
        self._all_read = False
        self.is_changed = False  # something was put here, and is still here
        self.coming: Callable[[], tuple[list[Row], bool]] | None = None  # the next page, if it was asked for
        self.taken: list[Key] = []  # from the table

    def put(self, run: Line) -> None:
        """Put a run at its rank."""
        if self._heap:
            heappush(self._heap, (run.rank, run.number, run))
        else:
            self._put.append(run)
            self.is_changed = True

    def prime(self, firsts: Sequence[Line]) -> None:
        """Take note of the table's first rows, which a query for many shelves has brought."""
        self._fill(firsts, more=True)
        self.pages = 1

    def know_empty(self) -> None:
        """Take note that its table has none."""
        self._all_read = True

    def first(self, reader: Reader) -> Key | None:
        """Return the key of the first run, if there is one."""
        if self._is_put_first(reader):
            return self._heap[0][:2]
        return _key(self._read[-1]) if self._read else None

    def take(self, reader: Reader) -> Line | None:
        """Take the first run."""
        read = self._read
        if self.is_changed and (
            (self._heap and not read and self._all_read)
            or (not (read and self._is_before_put(read[-1].rank)) and self._is_put_first(reader))
        ):
            _, _, run = heappop(self._heap)
            self.is_changed = bool(self._heap)
            return run
        if not read and not self._finds_more(reader):
            return None
        run = read.pop()
        self.taken.append((run.rank, run.number))  # now: it gets another rank where it goes
        return run

    def _is_before_put(self, rank: int) -> bool:
        """Tell, without ado, whether all that was put comes behind a rank: mostly that is a run or two, and it does."""
        put = self._put
        return 0 < len(put) <= 2 and put[0].rank > rank < put[-1].rank

    def _is_put_first(self, reader: Reader) -> bool:
        """Tell whether the first of all is one that was put here, once all is known that may come before it."""
        read, heap = self._read, self._heap
        if self._put:
            heap += [(run.rank, run.number, run) for run in self._put]
            heapify(heap)
            self._put.clear()
        if not read and not self._all_read and not (heap and heap[0][:2] <= self._read_to):
            self._finds_more(reader)
        return bool(heap) and not (read and heap[0] > _key(read[-1]))

    def _finds_more(self, reader: Reader) -> bool:
        """Read on until something was found, or all is read; tell whether something was."""
        while not self._all_read and not self._read:
            rows, more = reader.read(self, self._read_to, self.pages)
            self._fill(rows, more=more)
            self.pages += 1
        return bool(self._read)

    def written(self) -> None:
        """Take note that the table holds what was put here, and not what was taken.

        What lies behind the key up to which the table was read is forgotten: it is read when its turn comes.
        """
        self.taken.clear()
        if not self.is_changed:
            return
        self.coming = None  # it was asked for before that was put
        put = self.left()
        if not self._all_read:
            put = [run for run in put if _key(run) <= self._read_to]
        if put:
            self._read += put
            self._read.sort(key=_key, reverse=True)
        self._put.clear()
        self._heap.clear()
        self.is_changed = False

    def runs_out(self, wanted: int) -> Key | None:
        """Return the key behind which to read on, if less than so many are left of what was read."""
        return None if self._all_read or len(self._read) >= wanted else self._read_to

    @property
    def is_new(self) -> bool:
        """Tell whether nothing of it was read yet."""
        return not self.pages

    def left(self) -> list[Line]:
        """Return the runs put here that are still here."""
        return [run for _, _, run in self._heap] if self._heap else self._put.copy()

    def _fill(self, rows: Sequence[Line], *, more: bool) -> None:
        if rows:
            self._read[:0] = rows[::-1]
            self._read_to = rows[-1].rank, rows[-1].number
        self._all_read = not more
