"""Wake-ups between processes: datagrams on sockets in a folder of the temporary directory.

**The model.** Each database has one folder, named by a hash of its real path and the user id, readable by that user
alone. A store that registers workers binds a socket `k-...` there. The socket's name stands in the worker's row, and a
datagram holds the incarnation to wake. A store that watches events binds `w-...`; a process that wrote events sends an
empty datagram to each. Names are short because a socket's whole path must fit into about 100 bytes.

**Who reads.** A worker's socket is read by the worker's own loop: a thread in between would have to be woken first,
which takes a tenth of a millisecond and more on an idle machine. A watching store may have watchers on many loops, so a
thread reads its socket.

**A socket lives as long as its process.** A forked child closes its parent's.

**Losing a wake-up is harmless.** Sending never waits: a full socket means that wake-ups are on their way already. A
socket whose process died refuses datagrams; the process that finds out removes it. Without such sockets (Windows, a
temporary directory of too long a name) nothing is sent, and idle workers find work by looking once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import socket
import tempfile
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

_PATH_LIMIT = 100  # bytes
_YOUNG = 1_000_000_000  # nanoseconds: a folder that changed so recently may change again within its clock's tick
WORKERS, WATCHERS = "k", "w"
_LONGEST = 1024  # bytes of a datagram
_CLOSE_WITHIN = 1.0  # seconds in which a running loop closes its socket

Receive = Callable[[bytes], object]


class SocketFolder:
    """The sockets of one database."""

    def __init__(self, database: Path) -> None:
        key = hashlib.blake2b(os.fsencode(os.path.realpath(database)), digest_size=8).hexdigest()
        user = os.getuid() if hasattr(os, "getuid") else 0
        self.path = Path(tempfile.gettempdir(), f"laneway-{user}-{key}")
        self._listed: tuple[int, list[str]] = (-1, [])
        self._out: socket.socket | None = None

    def listen(
        self, kind: str, receive: Receive, loop: asyncio.AbstractEventLoop | None = None
    ) -> ListeningSocket | None:
        """Bind a new socket; None if that is impossible.

        `receive` is called with each datagram: on the loop, which must be that of the calling thread, or on a thread.
        """
        path = self.path / f"{kind}-{os.getpid()}-{secrets.token_hex(4)}"
        if not hasattr(socket, "AF_UNIX") or len(os.fsencode(path)) > _PATH_LIMIT:
            return None
        for _ in range(3):
            try:
                self._make()
                self._sweep()
                return ThreadSocket(path, receive) if loop is None else LoopSocket(path, receive, loop)
            except FileNotFoundError:
                continue  # Race: the last to leave removes the folder
            except OSError:
                break
        return None

    def send(self, name: str, message: bytes) -> None:
        """Send a datagram to the socket of that name. It never waits, and drops the datagram instead."""
        try:
            self._sender().sendto(message, str(self.path / name))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                (self.path / name).unlink()
        except OSError:
            pass  # full, or gone: losing a wake-up is harmless

    def watchers(self) -> list[str]:
        """Return the names of the watching sockets. The folder is read again only when it has changed."""
        try:
            changed = self.path.stat().st_mtime_ns
            if changed != self._listed[0]:
                names = [path.name for path in self.path.iterdir() if path.name.startswith(WATCHERS)]
                # Race: a change within the same tick as this read would be missed, so a young folder is not cached.
                self._listed = (changed if time.time_ns() - changed > _YOUNG else -1, names)
        except OSError:
            return []
        return self._listed[1]

    def close(self) -> None:
        """Close the sending socket, and remove the folder if nobody uses it."""
        if self._out is not None:
            self._out.close()
            self._out = None
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _make(self) -> None:
        self.path.mkdir(mode=0o700, exist_ok=True)
        found = self.path.lstat()
        # A folder of another user by that name could have sockets that eavesdrop, or be a link to anywhere.
        if self.path.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{self.path} is not a private folder of this user")

    def _sweep(self) -> None:
        """Remove the sockets of processes that were killed."""
        for path in list(self.path.iterdir()):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink(missing_ok=True)
                except OSError:
                    pass  # gone meanwhile, or not a socket of this store

    def _sender(self) -> socket.socket:
        if self._out is None:
            self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._out.setblocking(False)
        return self._out


class ListeningSocket(ABC):
    """A bound socket, and what is called with each datagram."""

    def __init__(self, path: Path, receive: Receive) -> None:
        self._path, self._receive = path, receive
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(str(path))
        except OSError:
            self._socket.close()
            raise
        _SOCKETS.add(self)
        # Also when the process ends without closing its store.
        self._remove = weakref.finalize(self, _remove, path, os.getpid())

    @property
    def name(self) -> str:
        """The socket's name in its folder."""
        return self._path.name

    @abstractmethod
    def close(self) -> None:
        """Stop listening and remove the socket. From any thread."""

    def close_in_child(self) -> None:
        """Close the socket in a forked child, which has none of its parent's threads, nor its loop."""
        self._socket.close()

    def _received(self, message: bytes) -> None:
        # An error of one callback must not keep the next datagram from being read.
        with contextlib.suppress(Exception):
            self._receive(message)


class ThreadSocket(ListeningSocket):
    """A socket that a thread reads."""

    def __init__(self, path: Path, receive: Receive) -> None:
        super().__init__(path, receive)
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="laneway-sqlite-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._closing = True
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(b"", str(self._path))
        self._thread.join(timeout=1)
        self._socket.close()
        self._remove()

    def _listen(self) -> None:
        while not self._closing:
            try:
                message = self._socket.recv(_LONGEST)
            except OSError:
                return
            if not self._closing:
                self._received(message)


class LoopSocket(ListeningSocket):
    """A socket that a running loop reads. Create it on the loop's thread."""

    def __init__(self, path: Path, receive: Receive, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(path, receive)
        self._loop = loop
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._read)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._remove()
        closed = threading.Event()

        def stop() -> None:
            self._stop()
            closed.set()

        # Race: the loop may stop, or be closed, at any moment; then nothing else uses the socket.
        with contextlib.suppress(RuntimeError):
            if self._loop.is_running():
                self._loop.call_soon_threadsafe(stop)
                closed.wait(_CLOSE_WITHIN)
        if not self._loop.is_running():
            self._stop()

    def _stop(self) -> None:
        if not self._loop.is_closed() and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # there was nothing to read
            self._received(self._socket.recv(_LONGEST))


_SOCKETS: weakref.WeakSet[ListeningSocket] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for each in list(_SOCKETS):
        each.close_in_child()
    _SOCKETS.clear()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _remove(path: Path, owner: int) -> None:
    # Fork: a child that ends must leave its parent's socket alone.
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            path.unlink()
            path.parent.rmdir()  # if it was the last
