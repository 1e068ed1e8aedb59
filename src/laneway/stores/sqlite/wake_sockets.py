"""Wake-ups between processes: datagrams on sockets in a folder of the temporary directory.

**The model.** Per database there is one folder, named by a hash of its real path and the user id, readable by that user
alone. A store that registers workers binds a socket `k-...` there; its name stands in the worker's row, and a datagram
holds the incarnation to wake, with the answer to the step that it lent if that was done and is short. A store that
watches binds `w-...`; whoever wrote events sends an empty datagram to each. Names are short because a socket's whole
path must fit into about 100 bytes.

**Who hears.** A worker's socket is read by the worker's own loop: a thread that hears, and then tells the loop, would
have to be woken first, which takes a tenth of a millisecond and more on a machine at rest. A watching store may have
watchers on many loops, and listens on a thread.

**A socket lives as long as its process**, which tells whether a worker's does. A forked child lets go of its parent's.

**Losing one is harmless.** Sending never waits: a full socket means wake-ups are on their way already. A socket whose
process died refuses; it is removed by whoever finds out. Without such sockets (Windows, a temporary directory of too
long a name) nothing is sent, and resting workers find work by looking once a second.
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
_YOUNG = 1_000_000_000  # nanoseconds: a folder that changed so lately may change again within its clock's tick
WORKERS, WATCHERS = "k", "w"
LONGEST = 32 * 1024  # bytes of a datagram
_LET_GO_WITHIN = 1.0  # seconds in which a loop that turns lets go of its socket

Heard = Callable[[bytes], None]


class Folder:
    """The sockets of one database."""

    def __init__(self, database: Path) -> None:
        key = hashlib.blake2b(os.fsencode(os.path.realpath(database)), digest_size=8).hexdigest()
        user = os.getuid() if hasattr(os, "getuid") else 0
        self.path = Path(tempfile.gettempdir(), f"laneway-{user}-{key}")
        self._listed: tuple[int, list[str]] = (-1, [])
        self._out: socket.socket | None = None

    def listen(self, kind: str, heard: Heard, loop: asyncio.AbstractEventLoop | None = None) -> Ear | None:
        """Bind a new socket; None if that cannot be had.

        `heard` is called with each datagram: on the loop, whose thread must be the one that calls this, or on a thread.
        """
        path = self.path / f"{kind}-{os.getpid()}-{secrets.token_hex(4)}"
        if not hasattr(socket, "AF_UNIX") or len(os.fsencode(path)) > _PATH_LIMIT:
            return None
        for _ in range(3):
            try:
                self._make()
                self._sweep()
                return ThreadEar(path, heard) if loop is None else LoopEar(path, heard, loop)
            except FileNotFoundError:
                continue  # Race: the last to leave removes the folder
            except OSError:
                break
        return None

    def send(self, name: str, message: bytes) -> None:
        """Send a datagram to the socket of that name, if it can be done at once."""
        try:
            self._sender().sendto(message, str(self.path / name))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                (self.path / name).unlink()
        except OSError:
            pass  # full, or gone: see above

    def reaches(self, name: str) -> bool:
        """Tell whether a process has the socket of that name."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            return probe.connect_ex(str(self.path / name)) == 0

    def watchers(self) -> list[str]:
        """Return the names of the watching sockets. The folder is read again only when it has changed."""
        try:
            changed = self.path.stat().st_mtime_ns
            if changed != self._listed[0]:
                names = [path.name for path in self.path.iterdir() if path.name.startswith(WATCHERS)]
                # Race: a change within the same tick as this look would go unseen, so a young folder is not remembered.
                self._listed = (changed if time.time_ns() - changed > _YOUNG else -1, names)
        except OSError:
            return []
        return self._listed[1]

    def close(self) -> None:
        """Let go of the sending socket, and of the folder if nobody uses it."""
        if self._out is not None:
            self._out.close()
            self._out = None
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _make(self) -> None:
        self.path.mkdir(mode=0o700, exist_ok=True)
        found = self.path.lstat()
        # Somebody else's folder of our name could hold sockets that listen in, or be a link to anywhere.
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
                    pass  # gone meanwhile, or nothing of ours

    def _sender(self) -> socket.socket:
        if self._out is None:
            self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._out.setblocking(False)
        return self._out


class Ear(ABC):
    """A bound socket that somebody listens to."""

    def __init__(self, path: Path, heard: Heard) -> None:
        self._path, self._heard = path, heard
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(str(path))
        except OSError:
            self._socket.close()
            raise
        _EARS.add(self)
        # Also when the process ends without closing its store.
        self._remove = weakref.finalize(self, _remove, path, os.getpid())

    @property
    def name(self) -> str:
        """The socket's name in its folder."""
        return self._path.name

    @abstractmethod
    def close(self) -> None:
        """Stop listening and remove the socket. From any thread."""

    def let_go(self) -> None:
        """Close the socket in a forked child, which has none of its parent's threads, nor its loop."""
        self._socket.close()

    def _hear(self, message: bytes) -> None:
        # A failing callback is its owner's business; the next one must still be called.
        with contextlib.suppress(Exception):
            self._heard(message)


class ThreadEar(Ear):
    """One that a thread listens to."""

    def __init__(self, path: Path, heard: Heard) -> None:
        super().__init__(path, heard)
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="laneway-sqlite-ear", daemon=True)
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
                message = self._socket.recv(LONGEST)
            except OSError:
                return
            if not self._closing:
                self._hear(message)


class LoopEar(Ear):
    """One that a loop listens to, as long as it turns. Made on its thread."""

    def __init__(self, path: Path, heard: Heard, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(path, heard)
        self._loop = loop
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._read)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._remove()
        let_go = threading.Event()

        def stop() -> None:
            self._stop()
            let_go.set()

        # Race: the loop may stop turning, or be closed, at any moment; then nobody else uses what it holds.
        with contextlib.suppress(RuntimeError):
            if self._loop.is_running():
                self._loop.call_soon_threadsafe(stop)
                let_go.wait(_LET_GO_WITHIN)
        if not self._loop.is_running():
            self._stop()

    def _stop(self) -> None:
        if not self._loop.is_closed() and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # it was a false alarm
            self._hear(self._socket.recv(LONGEST))


_EARS: weakref.WeakSet[Ear] = weakref.WeakSet()


def _let_go() -> None:
    for ear in list(_EARS):
        ear.let_go()
    _EARS.clear()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _remove(path: Path, owner: int) -> None:
    # Fork: a child that ends must leave its parent's socket alone.
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            path.unlink()
            path.parent.rmdir()  # if it was the last
