"""The socket pair between a worker process and its parent.

The parent writes how urgently to stop; the worker writes when it is ready; each notices the end of the other, also by
kill -9, as the end of the stream. Signals do not work here: systemd and Ctrl-C send them to the parent and to its
workers, so a worker that received a signal and then its parent's would take that for the second signal, and stop at
once. A message with the urgency may be received twice without harm. PR_SET_PDEATHSIG does not work either: only Linux
has it, and it follows the thread that started the process.
"""

from __future__ import annotations

import contextlib
import os

SOON, NOW = 1, 2  # urgency: running handlers may end first, or their runs are given back at once
READY = b"r"


class Lifeline:
    """The end of the worker."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # a process that a handler starts must not keep it open
        self._descriptor: int | None = descriptor

    def fileno(self) -> int | None:
        """Return the descriptor to wait on; None once the parent is gone."""
        return self._descriptor

    def tell_ready(self) -> None:
        """Tell the parent that this worker is ready."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # the parent is gone; `StopSignals` notices it
                os.write(self._descriptor, READY)

    def read(self) -> int:
        """Return the urgency that the parent sent; the end of the parent counts as a first signal."""
        assert self._descriptor is not None
        try:
            urgency = os.read(self._descriptor, 1)
        except OSError:
            urgency = b""
        if not urgency:
            self._descriptor = None
        return urgency[0] if urgency else SOON
