"""Syncing the write-ahead log: what was committed to it is on the disk after that.

With `synchronous = FULL` SQLite syncs the log inside each COMMIT, and nobody sees the transaction before. Here that is
done after a COMMIT with `NORMAL`: others see the transaction while its caller waits (decision 44). SQLite itself syncs
the log's header whenever the log begins anew, and all of the log before a checkpoint moves it.

The descriptor is kept for as long as the connection. The kernel reports a failed write once to each descriptor that
was open then, also if another process received the error before. (Closing a descriptor of the log drops no lock of this
process.)
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

# Windows cannot sync what was opened to read.
CAN_SYNC = sys.platform != "win32"


class WriteAheadLog:
    """The log of one file, as it is on the disk."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}-wal"
        self._descriptor: int | None = None

    def sync(self) -> None:
        """Wait until all that was committed is on the disk. Raises OSError if it may never get there."""
        # Without a file: the last process to close the store has moved the log, and waited for the disk.
        with contextlib.suppress(FileNotFoundError):
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY)
            sync_file(self._descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def sync_file(descriptor: int) -> None:
    """Wait until what was written to the file is on the disk. Raises OSError."""
    # Its size and its data; not when it was last changed. What has no such call, as macOS, waits for everything.
    getattr(os, "fdatasync", os.fsync)(descriptor)
