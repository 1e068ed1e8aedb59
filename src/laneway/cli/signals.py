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
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_OVER = b"\0"  # no signal has this number
_heeding = False


class Inbox:
    """The pipe's end that is read."""

    def __init__(self, reader: int) -> None:
        self._reader = reader

    def receive(self, timeout: float | None) -> int | None:
        """Return the number of the next signal, 0 when there will be none, or None if none came in time."""
        if not select.select([self._reader], [], [], timeout)[0]:
            return None
        return os.read(self._reader, 1)[0]


@contextlib.contextmanager
def heeding(heed: Callable[[Inbox], None]) -> Iterator[None]:
    """Have `heed` called on a thread, to receive the signals that come during the block. For the main thread only."""
    global _heeding  # noqa: PLW0603  # there is one main thread
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=heed, args=(Inbox(reader),), name="laneway-signals", daemon=True)
    watcher.start()
    handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _heeding = True
    try:
        yield
    finally:
        _heeding = False
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.write(writer, _OVER)
        watcher.join()
        os.close(reader)
        os.close(writer)


def _forget_in_child() -> None:
    # A forked child has the pipe too: a SIGTERM for it would reach the parent instead.
    if _heeding:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
