"""Ids made here, not by the store: a submission that has to be repeated keeps its id."""

from __future__ import annotations

import os
import threading
import time

_LOW_BITS = 62
_LOW_MASK = (1 << _LOW_BITS) - 1
_TAIL_BITS = 74  # 12 after the version, 62 after the variant
_FIRST_MASK = (1 << _TAIL_BITS - 2) - 1  # top bits clear: room to count up
_STEP = 1 << 60  # at least; at most twice that, so one millisecond has room for 6000 ids


class RunIds:
    """UUIDs of version 7 as 32 hexadecimal digits: they sort by the time they were made, within a process strictly.

    Strictly, because the random part of one millisecond is counted up instead of drawn again: a store's index grows at
    its end. The steps are random and large, so ids of one millisecond differ early: by eye, and in a short beginning.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # Fork: parent and child must not go on counting from the same place.
        self._lock = threading.Lock()
        self._millisecond, self._tail, self._step = 0, 0, _STEP

    def __call__(self) -> str:
        """Return a new id."""
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._millisecond:
                self._begin(now)
            else:
                self._tail += self._step
                if self._tail >> _TAIL_BITS:
                    self._begin(self._millisecond + 1)  # this one is full
            tail = self._tail
            # 48 bits of time, version 7, 12 high bits of the tail, variant 2, its 62 low bits
            high = self._millisecond << 16 | 0x7000 | tail >> _LOW_BITS
        return f"{high:016x}{0x8000_0000_0000_0000 | tail & _LOW_MASK:016x}"

    def _begin(self, millisecond: int) -> None:
        self._millisecond = millisecond
        self._tail = int.from_bytes(os.urandom(9), "big") & _FIRST_MASK
        self._step = _STEP | int.from_bytes(os.urandom(7), "big")


new_run_id = RunIds()
