"""One child process as its worker sees it: started, sent messages and signals, killed and reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import msgspec

from laneway.engine.children.protocol import FromChild, ToChild, decode_from_child, packed, read
from laneway.errors import LanewayError

# `-m` would look for laneway where the child is started, but it must be the one of this process. `-P` keeps the current
# directory out of the path until the path is set.
START = "import sys; sys.path[:] = sys.argv[3:]; from laneway.engine.children.main import main; main()"
LAST_WORDS = 1.0  # seconds between the end of a child's messages and its death, or the reverse


class ChildProcess:
    """A process with its own group, and a thread that starts it, waits for its death and reaps it.

    The thread makes the child die with this process: the kernel sends the death signal when the *thread* that started a
    child ends, and this thread does not end before the child.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None  # set while it may be signalled
        self._started: asyncio.Future[None] = self._loop.create_future()
        self.died: asyncio.Future[int] = self._loop.create_future()  # the exit status, negative for a signal
        self.signalled = False

    @classmethod
    async def start(cls) -> ChildProcess:
        """Start a process. Raises LanewayError if that fails."""
        ours, theirs = socket.socketpair()
        try:
            child = cls(*await asyncio.open_unix_connection(sock=ours))
        except BaseException:
            ours.close()
            theirs.close()
            raise
        threading.Thread(target=child._keep, args=(theirs,), daemon=True, name="laneway-child").start()
        try:
            await asyncio.shield(child._started)
        except BaseException as error:
            child._writer.close()  # so that a process without an owner leaves
            if isinstance(error, Exception):
                raise LanewayError(f"a child process cannot be started: {error}") from error
            raise
        return child

    def send(self, message: ToChild) -> None:
        """Send a message; do nothing if the child is gone."""
        self._writer.write(packed(message))

    async def receive(self) -> FromChild | None:
        """Return the child's next message; None if it is gone or sends nonsense."""
        body = await read(self._reader)
        try:
            return None if body is None else decode_from_child.decode(body)
        except msgspec.MsgspecError:
            return None  # the handler wrote to a socket that is not its own

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the child and all processes that it started; do nothing if it is dead."""
        self.signalled = True
        self._send_signal(number)

    async def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for it to die by itself."""
        await asyncio.wait([self.died], timeout=timeout)

    async def kill_and_wait(self) -> int:
        """Kill it if it lives, wait until it is dead, and release it; return its exit status."""
        self.send_signal(signal.SIGKILL)
        status = await asyncio.shield(self.died)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        return status

    def _keep(self, theirs: socket.socket) -> None:
        # The child inherits this: SIGTERM is blocked until it knows what the signal means.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            with theirs:
                process = self._popen(theirs.fileno())
        except Exception as error:  # noqa: BLE001  # the caller that waits for the child must get it
            self._tell(partial(self._started.set_exception, error))
            return
        with self._lock:
            self._process = process
        self._tell(lambda: self._started.set_result(None))
        with contextlib.suppress(ChildProcessError):  # other code may reap processes that it did not start
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # Race: a pid is not reused before the process is reaped. Until then it also names the rest of the group.
        self._send_signal(signal.SIGKILL)
        with self._lock:
            self._process = None
            status = process.wait()
        self._tell(lambda: self._is_dead(status))

    def _popen(self, fd: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-c", START, str(fd), str(os.getpid()), *map(str, sys.path)]
        return subprocess.Popen(command, pass_fds=(fd,), stdin=subprocess.DEVNULL, start_new_session=True)

    def _send_signal(self, number: signal.Signals) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, number)

    def _is_dead(self, status: int) -> None:
        self.died.set_result(status)
        # Its end of the socket is closed, unless a process that it forked, and that left the group, holds it too.
        self._loop.call_later(LAST_WORDS, self._reader.feed_eof)

    def _tell(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed, and nobody is left to call
            self._loop.call_soon_threadsafe(call)
