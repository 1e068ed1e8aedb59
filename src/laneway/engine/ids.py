"""Ids made here, not by the store: a submission that has to be repeated keeps its id."""

from __future__ import annotations

import os
import threading
import time

_RANDOM_BITS = 62
_RANDOM_MASK = (1 << _RANDOM_BITS) - 1


class RunIds:
    """UUIDs of version 7 as 32 hexadecimal digits: they sort by the time they were made, within a process strictly.

    Strictly, because the random part of one millisecond is counted up instead of drawn again: a store's index grows at
    its end. The step is random too, so ids of one millisecond differ early enough to be told apart by eye.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # Fork: parent and child must not go on counting from the same place.
        self._lock = threading.Lock()
        self._millisecond, self._tail = 0, 0

    def __call__(self) -> str:
        """Return a new id."""
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._millisecond:
                self._millisecond = now
                self._tail = int.from_bytes(os.urandom(8), "big") >> 3  # top bit clear: room to count up
                self._step = (self._tail >> 20) & 0xFFFF_FFFF | 1
            else:
                self._tail += self._step
            tail = self._tail
            # 48 bits of time, version 7, 12 high bits of the tail, variant 2, its 62 low bits
            high = self._millisecond << 16 | 0x7000 | (tail >> _RANDOM_BITS) & 0xFFF
        return f"{high:016x}{0x8000_0000_0000_0000 | tail & _RANDOM_MASK:016x}"


new_run_id = RunIds()
