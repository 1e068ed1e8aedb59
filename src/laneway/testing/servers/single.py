"""One private server: a process, a port and a folder of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from laneway.testing.servers.binaries import NoServer, server_binary
from laneway.testing.servers.endpoint import CommandRefused, Endpoint, Reply

HOST = "127.0.0.1"
DIE_WITH_PARENT = Path(__file__).with_name("die_with_parent.py")
PATIENCE = 30.0  # seconds to wait for a server to start; one needs about 0.05
BETWEEN_LOOKS = 0.005
TRIES = 20  # to find a free port
TAIL = 2_000  # characters of a server's log that an error shows

# Below the ports that systems give to outgoing connections, so that the port is free when a server is restarted, and
# low enough for the bus port of a cluster, which is 10,000 higher.
PORTS = range(10_000, 22_000)
BUS = 10_000

EMPTY = '""'
QUIET = {"save": "", "appendonly": "no", "daemonize": "no", "repl-diskless-sync-delay": "0"}


class PortTaken(Exception):
    """Another process listens on the port."""


class ValkeyServer:
    """A server process under the test's control. It ends with the process that started it, at the latest.

    `url` is its address for laneway, `command` sends it a command without a client library, `log` is its log.
    """

    def __init__(self, port: int, directory: Path, config: Mapping[str, str], *arguments: str) -> None:
        self.port, self.directory, self._arguments = port, directory, arguments
        password = config.get("requirepass")
        self._endpoint = Endpoint(HOST, port, None, password)
        self.url = f"redis://{':' + quote(password, safe='') + '@' if password else ''}{HOST}:{port}/0"
        self._file = directory / "server.conf"
        self._log = directory / "server.log"
        directory.mkdir(parents=True, exist_ok=True)
        lines = {"port": str(port), "bind": HOST, "dir": str(directory), **config}
        text = "".join(f"{name} {value or EMPTY}\n" for name, value in lines.items())
        self._file.write_text(text, encoding="utf-8")  # a sentinel rewrites it later
        self._process = self._start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Tell whether the process has not ended."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """Its log so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def command(self, *words: str | int) -> Reply:
        """Send it one command and return the answer. Raises CommandRefused or OSError."""
        return self._endpoint.ask(*words)

    def facts(self, section: str) -> dict[str, str]:
        """Return a section of INFO, or `cluster info`, as names and values."""
        return self._endpoint.facts(section)

    def kill(self) -> None:
        """Kill it with -9, and return when it is gone."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Suspend it: connections stay open, and it answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def cont(self) -> None:
        """Continue it after `stop`."""
        self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start it again on the same port and in the same folder; one that is alive is terminated first."""
        if self.alive:
            self.cont()
            self._process.terminate()
            self._process.wait()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        said_before = self._log.stat().st_size if self._log.exists() else 0
        process = start_bound(self._log, server_binary(), self._file, *self._arguments)
        try:
            wait_until(lambda: process.poll() is not None or self._answers(process.pid), "the server answers")
        except NoServer:
            process.kill()
            process.wait()
            raise self._trouble(said_before, "does not answer") from None
        if process.poll() is not None:
            raise self._trouble(said_before, "did not start")
        return process

    def _answers(self, pid: int) -> bool:
        try:
            # Another server on that port would answer, too.
            return self._endpoint.ask("PING", timeout=1) == "PONG" and self.facts("server")["process_id"] == str(pid)
        except (OSError, CommandRefused):
            return False

    def _trouble(self, said_before: int, what: str) -> Exception:
        said = self._log.read_bytes()[said_before:].decode(errors="replace")
        if "already in use" in said:
            return PortTaken(f"port {self.port} is taken")
        return NoServer(f"{server_binary()} {what} on {HOST}:{self.port}; it says:\n{said[-TAIL:]}")


def start_bound(
    log: Path,
    *command: str | Path,
    user: int | None = None,
    group: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that ends with this process, in the folder of its log."""
    who = (os.getuid() if user is None else user, os.getgid() if group is None else group)
    with log.open("ab") as output:
        return subprocess.Popen(
            list(map(str, (sys.executable, "-I", "-S", DIE_WITH_PARENT, os.getpid(), *who, *command))),
            cwd=log.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C must not reach the server
        )


def wait_until(fact: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Return once `fact` is true. Raises NoServer when that takes too long."""
    deadline = time.monotonic() + patience
    while not fact():
        if time.monotonic() > deadline:
            raise NoServer(f"waited {patience:.0f} s in vain until {what}")
        time.sleep(BETWEEN_LOOKS)


def start(port: int | None, directory: Path, config: Mapping[str, str], *arguments: str) -> ValkeyServer:
    """Start a server, on a free port if none is named. Raises NoServer."""
    for _ in range(TRIES):
        try:
            return ValkeyServer(port or free_port(), directory, {**QUIET, **config}, *arguments)
        except PortTaken as error:
            # Race: a port that was free may be taken before the server binds it.
            if port:
                raise NoServer(str(error)) from None
    raise NoServer(f"found no free port in {TRIES} tries")


def free_port() -> int:
    """Return a port that is free now. Raises NoServer."""
    for _ in range(TRIES * 10):
        # Not `random`: tests seed it, and processes that run at once would all draw the same port.
        port = PORTS[secrets.randbelow(len(PORTS))]
        if all(map(_is_free, (port, port + BUS))):
            return port
    raise NoServer(f"found no free port from {PORTS.start} to {PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class Folder:
    """The folder of a server: a named one, which is kept, or a private one, which is deleted at the end."""

    def __init__(self, named: Path | None) -> None:
        self.path = named or Path(tempfile.mkdtemp(prefix="laneway-server-"))
        self._private = named is None

    def remove(self) -> None:
        """Remove it if it is private."""
        if self._private:
            shutil.rmtree(self.path, ignore_errors=True)
