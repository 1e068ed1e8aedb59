"""Ids of runs, made by the client and not by the store: a submission that is repeated keeps its id."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from itertools import islice, repeat

_COUNTS = [f"{count:03x}" for count in range(1 << 12)]  # within one millisecond: the bits between version and variant
_ID = re.compile(r"[0-9a-f]{12}7[0-9a-f]{19}")
_MILLISECOND = 1_000_000  # in nanoseconds


def made_at(made: str) -> int | None:
    """Return when an id of this kind was made, in milliseconds since 1970; None for another kind of id."""
    return int(made[:12], 16) if _ID.fullmatch(made) else None


class RunIds:
    """UUIDs of version 7 as 32 hexadecimal digits. They sort by creation time, within a process strictly.

    Strictly, because ids of one millisecond are counted; so a store's index grows at its end. The count comes right
    after the time, so such ids differ early, even in a short prefix. The end, random per millisecond, distinguishes ids
    of several processes.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # Fork: parent and child must not count on from the same place.
        self._lock = threading.Lock()
        self._millisecond, self._over = 0, 0
        self._ids: Iterator[str] = iter(())

    def __call__(self) -> str:
        """Return a new id."""
        # Race: another thread may begin a new millisecond at any point here. `next` is one step under the GIL, so each
        # id is given once. An id of the old millisecond is still greater than all that this thread got before.
        if time.time_ns() < self._over:
            for made in self._ids:
                return made
        return self.many(1)[0]

    def many(self, count: int) -> list[str]:
        """Return so many new ids."""
        with self._lock:
            ids = list(islice(self._ids, count)) if time.time_ns() < self._over else []
            while len(ids) < count:
                self._begin(max(time.time_ns() // _MILLISECOND, self._millisecond + 1))
                ids += islice(self._ids, count - len(ids))
            return ids

    def _begin(self, millisecond: int) -> None:
        chance = int.from_bytes(os.urandom(9), "big")
        head = f"{millisecond:012x}7"  # 48 bits of time, the version
        tail = f"{2 << 62 | chance >> 10:016x}"  # the variant, 62 bits of chance
        counts = islice(_COUNTS, chance & 0x7F, None)  # begins low, with room to count up
        # join() around the count: one step under the GIL, and a third of the cost of formatting.
        self._ids = map(str.join, counts, repeat((head, tail)))
        self._millisecond, self._over = millisecond, (millisecond + 1) * _MILLISECOND


new_run_id = RunIds()
