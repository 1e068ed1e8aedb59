"""What ties a worker to its parent: a pair of sockets, one end each.

The parent writes how urgent it is to stop; the worker writes when it is ready; and each sees the other's death, kill -9
included, as the end of the stream. Not signals: systemd and Ctrl-C send theirs to the parent and to its workers alike,
so one that got a signal and then its parent's would take that for the second, and give back now what may still end. A
message that says *how* urgent it is may come twice without harm. And not PR_SET_PDEATHSIG, which only Linux has, and
which goes by the thread that started the process.
"""

from __future__ import annotations

import contextlib
import os

SOON, NOW = 1, 2  # how urgent it is: what runs may end first, or is given back
READY = b"r"


class Lifeline:
    """The worker's end."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # what a handler starts must not keep it open
        self._descriptor: int | None = descriptor

    def fileno(self) -> int | None:
        """Return the descriptor to wait on; None once the parent is gone."""
        return self._descriptor

    def tell_ready(self) -> None:
        """Tell the parent that this worker takes work."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # it is gone, and then the inbox hears of it
                os.write(self._descriptor, READY)

    def read(self) -> int:
        """Return how urgent it is. A parent that is gone wants its workers to end as after a signal."""
        assert self._descriptor is not None
        try:
            urgency = os.read(self._descriptor, 1)
        except OSError:
            urgency = b""
        if not urgency:
            self._descriptor = None
        return urgency[0] if urgency else SOON
