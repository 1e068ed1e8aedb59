"""SIGINT and SIGTERM, heeded on a thread of their own the moment they arrive.

A handler written in Python runs only when the main thread gets to its next instruction, which a handler of ours that
blocks the loop may put off for a minute; and it may interrupt anything, itself included, in the middle of a lock. So
Python's C handler writes the signal's number into a pipe (`signal.set_wakeup_fd`), and a thread reads it there.
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
    """What may tell a worker to stop: signals and, if it has a parent, the parent."""

    def __init__(self, reader: int, lifeline: Lifeline | None = None) -> None:
        self._reader, self._lifeline = reader, lifeline
        self._urgency = 0

    def receive(self, timeout: float | None) -> int | None:
        """Return the signal that makes it more urgent, 0 when there will be none, or None if none came in time.

        Each signal makes it more urgent; but to a worker that has a parent any number of them mean what one does:
        the parent was sent them too, and says by the lifeline how urgent it is.
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
    """Have these signals written into a pipe, a byte each; yield its two ends. For the main thread only."""
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
def on_signals(heed: Callable[[StopSignals], None], lifeline: Lifeline | None = None) -> Iterator[None]:
    """Have `heed` called on a thread, to receive what comes during the block. For the main thread only."""
    with signal_pipe(*SIGNALS) as (reader, writer):
        watcher = threading.Thread(
            target=heed, args=(StopSignals(reader, lifeline),), name="laneway-signals", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            os.write(writer, _OVER)
            watcher.join()


def _forget_in_child() -> None:
    # A forked child has the pipe too: a SIGTERM for it would reach the parent instead.
    if _receiving:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
