"""Processes of the tests, forked from one that has imported laneway: the import takes longer than most of them live.

`python -m tests.system.harness.fork_server SOCKET` forks a process for each request that comes over the socket, and
reports when it has ended. A forked process has opened nothing and started no thread: it begins where a new Python is
when its imports are done, and dies with the test as others do.
"""

from __future__ import annotations

import ctypes
import io
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

from laneway.cli import COMMANDS
from tests.system.harness.die_with_parent import PR_SET_PDEATHSIG

DIE_WITH_PARENT = Path(__file__).with_name("die_with_parent.py")
# The modules that a request may name.
FORKABLE = (
    "laneway",
    "tests.system.load.worker",
    "tests.system.load.producer",
    "tests.system.load.message_producer",
    "tests.system.load.restricted_producer",
    "tests.system.faults.death_scenes",
)
# All but the apps, which look at the environment when they are imported.
IMPORTED = [
    "laneway.scheduler",
    "laneway.engine.worker.worker",
    "laneway.stores.sqlite.store",
    "laneway.stores.redis.store",
    "laneway.stores.postgres.store",
    "tests.system.faults.lossy_store",
    "tests.system.oracle.journal",
    "unittest.mock",
]
LONGEST = 200_000  # bytes of a message


class ForkRequest(msgspec.Struct):
    """A process to be forked: a module and its arguments, where it runs, and the files for its output."""

    words: list[str]
    environment: dict[str, str]
    folder: str
    stdout: str
    stderr: str


class ProcessReport(msgspec.Struct):
    """A process was forked or, if there is a status, has ended."""

    pid: int
    status: int | None = None


_request, _report = msgspec.json.Decoder(ForkRequest), msgspec.json.Decoder(ProcessReport)


class ForkServer:
    """The process that forks the others, as the test sees it."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._statuses: dict[int, int] = {}
        with theirs:
            words = ("-m", __name__, str(theirs.fileno()))
            command = [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), sys.executable, *words]
            root = str(Path(__file__).resolve().parents[3])
            environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
            self._process = subprocess.Popen(command, cwd=root, env=environment, pass_fds=[theirs.fileno()])

    def fork(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, stdout: Path, stderr: Path
    ) -> ForkedProcess:
        """Start a process whose output goes into these files."""
        request = ForkRequest(list(words), dict(environment), str(folder), str(stdout), str(stderr))
        self._line.send(msgspec.json.encode(request))
        while (report := self._receive()).status is not None:
            pass
        self._statuses.pop(report.pid, None)  # of another process that had the same number
        return ForkedProcess(self, report.pid)

    def status_of(self, pid: int, *, wait: bool = False) -> int | None:
        """Return the exit status of a process, None if it has not ended."""
        while pid not in self._statuses and (wait or select.select([self._line], [], [], 0)[0]):
            self._receive()
        return self._statuses.get(pid)

    def _receive(self) -> ProcessReport:
        report = _report.decode(self._line.recv(LONGEST))
        if report.status is not None:
            self._statuses[report.pid] = report.status
        return report

    @property
    def pid(self) -> int:
        """The server's own process id."""
        return self._process.pid

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._process.wait()


class ForkedProcess:
    """A process that was forked; a part of what `subprocess.Popen` is."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server, self.pid = server, pid

    def poll(self) -> int | None:
        return self._server.status_of(self.pid)

    def wait(self) -> int:
        status = self._server.status_of(self.pid, wait=True)
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def fork_server() -> ForkServer:
    """Return the one of this process; it ends with it at the latest."""
    return ForkServer()


def close_fork_server() -> None:
    """End it, if there is one."""
    if fork_server.cache_info().currsize:
        fork_server().close()
        fork_server.cache_clear()


def main(line: socket.socket) -> None:
    """Fork what is requested, and report what has ended, until the test closes the line."""
    for name in (*IMPORTED, *(f"laneway.cli.{module}" for module, _ in COMMANDS.values())):
        import_module(name)
    reads, writes = os.pipe()
    for end in (reads, writes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the test's to decide about
    signal.set_wakeup_fd(writes)
    own, path = os.getpid(), sys.path[:]
    while True:
        ready, _, _ = select.select([line.fileno(), reads], [], [])
        if reads in ready:
            os.read(reads, LONGEST)
            _report_ended(line)
        if line.fileno() not in ready:
            continue
        request = line.recv(LONGEST)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            signal.set_wakeup_fd(-1)
            _become(_request.decode(request), own, path)
        line.send(msgspec.json.encode(ProcessReport(pid)))


def _report_ended(line: socket.socket) -> None:
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            line.send(msgspec.json.encode(ProcessReport(ended[0], os.waitstatus_to_exitcode(ended[1]))))
    except ChildProcessError:
        return  # there is none


def _become(request: ForkRequest, parent: int, path: list[str]) -> None:
    """Behave as a Python that was started with these words, and end as it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    files = ((0, os.devnull, os.O_RDONLY), (1, request.stdout, os.O_WRONLY), (2, request.stderr, os.O_WRONLY))
    for fd, name, flags in files:
        opened = os.open(name, flags)
        os.dup2(opened, fd)
        os.close(opened)
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w"), write_through=True) for fd in (1, 2))
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    tempfile.tempdir = None
    sys.path[:] = [*(each for each in request.environment["PYTHONPATH"].split(os.pathsep) if each not in path), *path]
    sys.argv = request.words
    runpy.run_module(request.words[0], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as line:
        main(line)
