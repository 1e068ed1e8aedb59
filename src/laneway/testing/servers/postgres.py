"""One private PostgreSQL server: its processes, a port, a socket and a folder of its own."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from laneway.testing.servers.binaries import NoServer
from laneway.testing.servers.databases import Row, execute, fresh_database
from laneway.testing.servers.die_with_parent import children
from laneway.testing.servers.postgres_programs import Programs, programs_for
from laneway.testing.servers.single import (
    DIE_WITH_PARENT,
    HOST,
    TAIL,
    TRIES,
    PortTaken,
    free_port,
    start_bound,
    wait_until,
)

Setting = str | int | float | bool
S = TypeVar("S", bound="PostgresServer")

USER = "postgres"
IPC_RMID = 0

# What a crash of the machine would need, and a test does not.
UNSAFE: Mapping[str, Setting] = {"fsync": False, "full_page_writes": False}
# Memory that is shared for a while is a file in the server's folder, and goes with it when the server was killed.
PRIVATE: Mapping[str, Setting] = {"listen_addresses": HOST, "dynamic_shared_memory_type": "mmap"}


class PostgresServer:
    """A server under the test's control. It ends with the process that started it, at the latest.

    `url` is what laneway takes, `socket_url` the same by the socket in `directory`; `execute` asks the server
    something, `database` makes an empty place to work in, `log` is what the server has said.
    """

    def __init__(self, programs: Programs, port: int, directory: Path, password: str | None) -> None:
        self.port, self.directory, self.programs, self.password = port, directory, programs, password
        who = USER + (f":{quote(password, safe='')}" if password else "")
        self.url = f"postgresql://{who}@{HOST}:{port}/postgres"
        self.socket_url = f"postgresql://{who}@/postgres?host={quote(str(directory), safe='')}&port={port}"
        self._data = directory / "data"
        self._log = directory / "server.log"
        self._process = self._start()

    @property
    def pid(self) -> int:
        """The id of the process that all others of the server are children of."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Tell whether that process has not ended."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def execute(self, statement: str, *parameters: object) -> list[Row]:
        """Let it execute one statement by itself and return the rows. Needs psycopg, and raises its errors."""
        return execute(self.socket_url, statement, *parameters)

    def database(self) -> AbstractContextManager[str]:
        """Make an empty database, give its URL and drop it after the block, whoever is still connected."""
        return fresh_database(self.url, is_up=lambda: self.alive)

    def kill(self) -> None:
        """Kill all of its processes with -9, at one instant, and return when they are gone."""
        self.freeze()
        wait_until(self._killed_children, "the server's processes are gone")
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let all of its processes stand still: connections are kept, and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)  # from here on it starts no more children
        self._signal_children(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        self._signal_children(signal.SIGCONT)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Shut it down in order: transactions are rolled back, clients told, and all is written."""
        self.thaw()
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def restart(self) -> None:
        """Start it again on the same port and in the same folder; one that is alive is stopped in order first."""
        if self.alive:
            self.stop()
        self._process = self._start()

    def end(self) -> None:
        """Kill it for good, and leave nothing of it in the system's memory."""
        self.kill()
        release_memory(self._data)

    def _children(self) -> list[int]:
        """Return its processes but the first, and without the one that watches over it."""
        if not self.alive:
            return []  # its number may be another's by now
        return [pid for pid, command in children(self.pid).items() if DIE_WITH_PARENT.name not in command]

    def _killed_children(self) -> bool:
        """Kill its processes but the first; tell whether there are none."""
        # Race: the first may have started one more before it stood still.
        self._signal_children(signal.SIGKILL)
        return not self._children()

    def _signal_children(self, number: signal.Signals) -> None:
        for pid in self._children():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _start(self) -> subprocess.Popen[bytes]:
        said_before = self._log.stat().st_size if self._log.exists() else 0
        user, group, environment = self.programs.user, self.programs.group, self.programs.environment
        command = (self.programs.folder / "postgres", "-D", self._data, "-p", str(self.port))
        process = start_bound(self._log, *command, user=user, group=group, environment=environment)
        try:
            wait_until(lambda: process.poll() is not None or self._is_ready(process.pid), "the server is ready")
        except NoServer:
            process.kill()
            process.wait()
            raise self._trouble(said_before, "does not get ready") from None
        if process.poll() is not None:
            raise self._trouble(said_before, "did not start")
        return process

    def _is_ready(self, pid: int) -> bool:
        # A server that was killed leaves its file behind.
        match _notes(self._data):
            case [first, _, _, _, _, _, _, state, *_]:
                return (first, state.strip()) == (str(pid), "ready")
        return False

    def _trouble(self, said_before: int, what: str) -> Exception:
        said = self._log.read_bytes()[said_before:].decode(errors="replace")
        if "Address already in use" in said:
            return PortTaken(f"port {self.port} is taken")
        return NoServer(f"{self.programs.folder / 'postgres'} {what} on {HOST}:{self.port}; it says:\n{said[-TAIL:]}")


def release_memory(data: Path) -> None:
    """Give back what a killed server leaves in the system's memory: some bytes that say that its files are in use.

    A restart would do so, too, and nothing but a restart of the machine where there is none.
    """
    match _notes(data):
        case [_, _, _, _, _, _, memory, *_]:
            ctypes.CDLL(None).shmctl(int(memory.split()[1]), IPC_RMID, None)


def _notes(data: Path) -> list[str]:
    """Return what a server notes about itself while it is up: its process in line 1, memory in 7 and state in 8."""
    try:
        return (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def start_postgres(
    port: int | None, directory: Path, password: str | None, settings: Mapping[str, Setting]
) -> PostgresServer:
    """Start a server, on a free port if none is named. Raises NoServer."""
    programs = programs_for(directory)
    _make_files(programs, directory, password, {**PRIVATE, "unix_socket_directories": str(directory), **settings})
    return on_some_port(port, lambda port: PostgresServer(programs, port, directory, password))


def on_some_port(port: int | None, start: Callable[[int], S]) -> S:
    """Start a server on this port, or on a free one if none is named. Raises NoServer."""
    for _ in range(TRIES):
        try:
            return start(port or free_port())
        except PortTaken as error:
            # Race: a port that was free when we looked may be another's by the time the server asks for it.
            if port:
                raise NoServer(str(error)) from None
    raise NoServer(f"found no free port in {TRIES} tries")


def _make_files(programs: Programs, directory: Path, password: str | None, settings: Mapping[str, Setting]) -> None:
    data = directory / "data"
    if password:
        secret = directory / "password"
        secret.touch(0o600)
        secret.write_text(password, encoding="utf-8")
        programs.own(secret)
        _init(programs, data, "--auth=scram-sha-256", f"--pwfile={secret}")
        secret.unlink()
    elif programs.folder.is_relative_to(directory):
        _init(programs, data, "--auth=trust")  # a copy of the programs, which is this server's alone
    else:
        programs.run("cp", "-a", _new_files(programs), data)
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.writelines(written(settings))


_NEW: dict[Programs, Path] = {}  # by programs, the files of a server that never was started


def _new_files(programs: Programs) -> Path:
    """Return the files of a server that never was started: copies of them take a fifth of the time of new ones.

    They are made again if they are gone: who starts the first server may have had a temporary folder of its own.
    """
    data = _NEW.get(programs)
    if data is None or not data.exists():
        folder = Path(tempfile.mkdtemp(prefix="laneway-postgres-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        programs.own(folder)
        data = folder / "data"
        _init(programs, data, "--auth=trust")
        _NEW[programs] = data
    return data


def _init(programs: Programs, data: Path, *words: str) -> None:
    more = ("--no-sync", "--no-instructions", "--no-locale", "--encoding=UTF8", f"--username={USER}")
    programs.run(programs.folder / "initdb", "-D", data, *more, *words)


def written(settings: Mapping[str, Setting]) -> Iterator[str]:
    """Return settings as lines of a file that the server reads."""
    return (f"{name} = {_quoted(value)}\n" for name, value in settings.items())


def _quoted(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"
