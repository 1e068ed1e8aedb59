"""Ids made here, not by the store: a submission that has to be repeated keeps its id."""

from __future__ import annotations

import os
import threading
import time

_COUNTS = 1 << 12  # ids of one millisecond: the bits between version and variant
_HEX = [f"{count:03x}" for count in range(_COUNTS)]


class RunIds:
    """UUIDs of version 7 as 32 hexadecimal digits: they sort by the time they were made, within a process strictly.

    Strictly, because ids of one millisecond are counted: a store's index grows at its end. The count stands right
    behind the time, so such ids differ early: by eye, and in a short beginning. The tail, random per millisecond, tells
    apart what several processes made in it.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # Fork: parent and child must not go on counting from the same place.
        self._lock = threading.Lock()
        self._millisecond, self._count, self._head, self._tail = 0, _COUNTS, "", ""

    def __call__(self) -> str:
        """Return a new id."""
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._millisecond:
                self._begin(now)
            elif self._count == _COUNTS:
                self._begin(self._millisecond + 1)  # this one is full
            count = self._count
            self._count = count + 1
            return self._head + _HEX[count] + self._tail

    def many(self, count: int) -> list[str]:
        """Return so many new ids."""
        with self._lock:
            self._begin(max(time.time_ns() // 1_000_000, self._millisecond + 1))
            ids: list[str] = []
            while len(ids) < count:
                if self._count == _COUNTS:
                    self._begin(self._millisecond + 1)
                first, head, tail = self._count, self._head, self._tail
                self._count = min(_COUNTS, first + count - len(ids))
                ids += [head + nth + tail for nth in _HEX[first : self._count]]
            return ids

    def _begin(self, millisecond: int) -> None:
        self._millisecond = millisecond
        chance = int.from_bytes(os.urandom(9), "big")
        self._head = f"{millisecond:012x}7"  # 48 bits of time, the version
        self._tail = f"{2 << 62 | chance >> 10:016x}"  # the variant, 62 bits of chance
        self._count = chance & 0x3FF  # begins in the lower quarter: room to count up


new_run_id = RunIds()
