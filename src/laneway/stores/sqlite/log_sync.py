"""Waiting for the disk: what is committed to the write-ahead log is on the disk once the log's file is synced.

SQLite does that inside a COMMIT with `synchronous = FULL`, and then nobody sees the transaction before it is over. Here
it is done after a COMMIT with `NORMAL`: others see it, and may begin to work on it, while its caller waits (decision
44). SQLite itself syncs the log's header whenever the log begins anew, and all of the log before it moves it.

The descriptor is kept for as long as the connection: the kernel tells each descriptor once that a write has failed,
also if another process was told before. (It is of the log: closing it drops no lock of this process.)
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

# Windows cannot sync what was opened to read.
CAN_SYNC = sys.platform != "win32"


class Log:
    """The log of one file, as it is on the disk."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}-wal"
        self._descriptor: int | None = None

    def sync(self) -> None:
        """Return when all that was committed is on the disk. Raises OSError if it may never get there."""
        with contextlib.suppress(
            FileNotFoundError
        ):  # whoever closed the file last has moved it all, and waited for that
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY)
            sync_file(self._descriptor)

    def close(self) -> None:
        """Let go of it, as the connection does."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def sync_file(descriptor: int) -> None:
    """Wait until what was written to the file is on the disk. Raises OSError."""
    # Its size and its data; not when it was last changed. What has no such call, as macOS, waits for everything.
    getattr(os, "fdatasync", os.fsync)(descriptor)
