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

from tests.system.harness.die_with_parent import PR_SET_PDEATHSIG

LEASH = Path(__file__).with_name("die_with_parent.py")
BRED = (
    "tests.system.load.worker",
    "tests.system.load.producer",
    "tests.system.load.message_producer",
    "tests.system.faults.death_scenes",
)
# All but the apps, which look at the environment when they are imported.
IMPORTED = [
    "laneway.scheduler",
    "laneway.engine.worker.worker",
    "laneway.stores.sqlite",
    "laneway.stores.redis",
    "laneway.stores.postgres.store",
    "tests.system.faults.lossy_store",
    "tests.system.oracle.journal",
    "unittest.mock",
]
MOST = 200_000  # bytes of a message


class Order(msgspec.Struct):
    """A process to be forked."""

    words: list[str]  # a module and its arguments
    environment: dict[str, str]
    folder: str
    data: str
    talk: str


class News(msgspec.Struct):
    """A process was forked or, if there is a status, has ended."""

    pid: int
    status: int | None = None


_order, _news = msgspec.json.Decoder(Order), msgspec.json.Decoder(News)


class Nursery:
    """The process that forks the others, as the test sees it."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._statuses: dict[int, int] = {}
        with theirs:
            words = ("-m", __name__, str(theirs.fileno()))
            command = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), sys.executable, *words]
            root = str(Path(__file__).resolve().parents[3])
            environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
            self._process = subprocess.Popen(command, cwd=root, env=environment, pass_fds=[theirs.fileno()])

    def fork(self, words: Sequence[str], environment: Mapping[str, str], folder: Path, data: Path, talk: Path) -> Bred:
        """Start a process; stdout and stderr go into the files."""
        order = Order(list(words), dict(environment), str(folder), str(data), str(talk))
        self._line.send(msgspec.json.encode(order))
        while (news := self._hear()).status is not None:
            pass
        self._statuses.pop(news.pid, None)  # of another that had the same number
        return Bred(self, news.pid)

    def status_of(self, pid: int, *, wait: bool = False) -> int | None:
        """Return what a process has ended with, None if it has not."""
        while pid not in self._statuses and (wait or select.select([self._line], [], [], 0)[0]):
            self._hear()
        return self._statuses.get(pid)

    def _hear(self) -> News:
        news = _news.decode(self._line.recv(MOST))
        if news.status is not None:
            self._statuses[news.pid] = news.status
        return news

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._process.wait()


class Bred:
    """A process that was forked; a part of what `subprocess.Popen` is."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self.pid = nursery, pid

    def poll(self) -> int | None:
        return self._nursery.status_of(self.pid)

    def wait(self) -> int:
        status = self._nursery.status_of(self.pid, wait=True)
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def nursery() -> Nursery:
    """Return the one of this process; it ends with it at the latest."""
    return Nursery()


def close_nursery() -> None:
    """End it, if there is one."""
    if nursery.cache_info().currsize:
        nursery().close()
        nursery.cache_clear()


def main(line: socket.socket) -> None:
    """Fork what is ordered, and tell what has ended, until nobody orders any more."""
    for name in IMPORTED:
        import_module(name)
    told, tells = os.pipe()
    for end in (told, tells):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the test's to decide about
    signal.set_wakeup_fd(tells)
    own, path = os.getpid(), sys.path[:]
    while True:
        ready, _, _ = select.select([line.fileno(), told], [], [])
        if told in ready:
            os.read(told, MOST)
            _tell_of_the_ended(line)
        if line.fileno() not in ready:
            continue
        order = line.recv(MOST)
        if not order:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            signal.set_wakeup_fd(-1)
            _become(_order.decode(order), own, path)
        line.send(msgspec.json.encode(News(pid)))


def _tell_of_the_ended(line: socket.socket) -> None:
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            line.send(msgspec.json.encode(News(ended[0], os.waitstatus_to_exitcode(ended[1]))))
    except ChildProcessError:
        return  # there is none


def _become(order: Order, parent: int, path: list[str]) -> None:
    """Be as a Python that was started with these words, and end as it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for fd, name, flags in ((0, os.devnull, os.O_RDONLY), (1, order.data, os.O_WRONLY), (2, order.talk, os.O_WRONLY)):
        opened = os.open(name, flags)
        os.dup2(opened, fd)
        os.close(opened)
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w"), write_through=True) for fd in (1, 2))
    os.environ.clear()
    os.environ.update(order.environment)
    os.chdir(order.folder)
    tempfile.tempdir = None
    sys.path[:] = [*(each for each in order.environment["PYTHONPATH"].split(os.pathsep) if each not in path), *path]
    sys.argv = order.words
    runpy.run_module(order.words[0], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as line:
        main(line)
