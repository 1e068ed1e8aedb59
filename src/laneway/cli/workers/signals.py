"""SIGINT and SIGTERM, handled on a thread of their own as soon as they arrive.

A signal handler in Python runs only at the main thread's next instruction, which a task's handler that blocks the loop
may delay for a minute; and it may interrupt any code, even itself, while that holds a lock. So Python's C handler
writes the number of the signal into a pipe (`signal.set_wakeup_fd`), and a thread reads it there.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator

from laneway.cli.workers.lifeline import SOON, Lifeline

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_OVER = b"\0"  # no signal has this number
_receiving = False


class StopSignals:
    """The requests to stop a worker: signals and, if it has a parent, messages of the parent."""

    def __init__(self, reader: int, lifeline: Lifeline | None = None) -> None:
        self._reader, self._lifeline = reader, lifeline
        self._urgency = 0

    def receive(self, timeout: float | None) -> int | None:
        """Return the next signal that raises the urgency, 0 if no more will come, or None after the time-out.

        Each signal raises the urgency. But for a worker with a parent, any number of signals count as one: the parent
        received them, too, and sends the urgency by the lifeline.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            line = None if self._lifeline is None else self._lifeline.fileno()
            ready = select.select([self._reader] if line is None else [self._reader, line], [], [], left)[0]
            if not ready:
                return None
            number = int(signal.SIGTERM)
            if line in ready and self._lifeline is not None:
                urgency = self._lifeline.read()
            else:
                number = os.read(self._reader, 1)[0]
                urgency = self._urgency + 1 if self._lifeline is None else SOON
            if not number or urgency > self._urgency:
                self._urgency = urgency
                return number


@contextlib.contextmanager
def signal_pipe(*numbers: signal.Signals) -> Iterator[tuple[int, int]]:
    """Write these signals into a pipe, one byte each; yield its two ends. For the main thread only."""
    global _receiving  # noqa: PLW0603  # there is one main thread
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _receiving = True
    try:
        yield reader, writer
    finally:
        _receiving = False
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


@contextlib.contextmanager
def on_signals(handle: Callable[[StopSignals], None], lifeline: Lifeline | None = None) -> Iterator[None]:
    """Call `handle` on a thread, with the signals that arrive during the block. For the main thread only."""
    with signal_pipe(*SIGNALS) as (reader, writer):
        watcher = threading.Thread(
            target=handle, args=(StopSignals(reader, lifeline),), name="laneway-signals", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            os.write(writer, _OVER)
            watcher.join()


def _forget_in_child() -> None:
    # A forked child shares the pipe: a SIGTERM for the child would reach the parent instead.
    if _receiving:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
