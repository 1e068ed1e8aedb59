"""`--exclusive`: at most one worker per store, by a lock of the kernel that ends with its last holder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from laneway.cli.shell.errors import CONFLICT, UNREACHABLE, Problem
from laneway.cli.shell.target import MEMORY, file_of


@contextlib.contextmanager
def held(url: str) -> Iterator[tuple[int, ...]]:
    """Hold the lock of the store during the block and yield its descriptors; raise Problem if another process has it.

    A process that inherits the descriptors holds the lock, too: while a worker of a dead parent goes on, no other may
    start.
    """
    if url.startswith(MEMORY):
        yield ()  # no other process can see it
        return
    path = file_of(url)
    if path is None:
        raise Problem("--exclusive is for SQLite files and memory://")
    file = path.resolve()  # all names of the file share one lock
    lock = file.with_name(f"{file.name}-exclusive")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise Problem(f"cannot open {lock}: {error.strerror}", code=UNREACHABLE) from error
    try:
        _lock(descriptor, str(path))
        yield (descriptor,)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, store: str) -> None:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # Race: the holder may not have written its id yet.
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        named = f"process {holder} (or what it left behind)" if holder else "another process"
        raise Problem(
            f"{store} is held by {named}, which was started with --exclusive",
            hint="stop that one first, or start this one without --exclusive",
            code=CONFLICT,
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
