"""The stage of a system test: a store, a journal, and real processes that come and go.

Nothing here waits by the clock: `until` waits for a fact, with a time limit that is generous because the machine may be
busy. Assertions about safety are exact, whatever the machine does.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from laneway import Scheduler
from tests.system.harness.fork_server import BRED, LEASH, Bred, nursery
from tests.system.load.app import LANES, SETTINGS, app
from tests.system.oracle.journal import PATH, PROCESS, Journal, Pen, What

ROOT = Path(__file__).resolve().parents[3]
LONG = bool(os.environ.get("LANEWAY_CHAOS"))  # the long form, by `make chaos`
PATIENCE = 30.0  # seconds a fact may take before the test gives up on it
TAIL = 4_000  # characters of a process's output shown when a test fails

# A test about real processes on whatever store is run on SQLite and on Redis, and on PostgreSQL where it is short or
# `make chaos` runs it.
_long_on = {name: pytest.param(name, marks=pytest.mark.chaos) for name in ("redis", "postgres")}
on_all_stores = pytest.mark.parametrize("stage", ["sqlite", "redis", "postgres"], indirect=True)
on_both_stores = pytest.mark.parametrize("stage", ["sqlite", "redis", _long_on["postgres"]], indirect=True)
on_redis_in_chaos = pytest.mark.parametrize("stage", ["sqlite", *_long_on.values()], indirect=True)

SHORT_LEASE = {"lease": 3, "renew_every": 1}


def sized(short: int, long: int) -> int:
    """Return the number for the form of the test that is run."""
    return long if LONG else short


def time_limit(*, short: int = 60, long: int = 900) -> pytest.MarkDecorator:
    """Mark a test with the seconds it may take."""
    return pytest.mark.timeout(sized(short, long))


def say(text: str) -> None:
    """Show a figure (with `pytest -s`, or when the test fails)."""
    print(f"\n  {text}", flush=True)  # noqa: T201 - figures are for people


def seeded() -> Random:
    """Return random numbers that can be had again: by LANEWAY_SEED, or by the seed that is printed."""
    seed = int(os.environ.get("LANEWAY_SEED") or time.time_ns() % 1_000_000_000)
    say(f"LANEWAY_SEED={seed}")
    return Random(seed)


class Process:
    """A process of the test, killed with it at the latest."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], folder: Path, pen: Pen) -> None:
        self.name, self._pen = name, pen
        self._data, self._talk = folder / f"{name}.out", folder / f"{name}.err"
        self._process = self._start(command, environment, folder)

    def _start(self, command: list[str], environment: dict[str, str], folder: Path) -> subprocess.Popen[bytes] | Bred:
        with self._data.open("wb") as data, self._talk.open("wb") as talk:
            match command:
                case [sys.executable, "-m", module, *_] if module in BRED:
                    return nursery().fork(command[2:], environment, folder, self._data, self._talk)
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=data,
                stderr=talk,
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What it ended with, negative for a signal; None while it goes on."""
        return self._process.poll()

    @property
    def data(self) -> str:
        """What it has printed on stdout."""
        return self._data.read_text(errors="replace")

    @property
    def talk(self) -> str:
        """What it has printed on stderr."""
        return self._talk.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> int:
        """Kill it with -9; return, once it is gone, when that was, in nanoseconds."""
        at = time.monotonic_ns()
        kill_all([self])
        return at

    def note_death(self) -> None:
        """Write into the journal that what it does ends here."""
        self._pen.write(What.DEATH)

    async def freeze(self) -> None:
        """Stop it in the middle of whatever it does, and return when it stands still."""
        self.signal(signal.SIGSTOP)
        await until(lambda: _state_of(self.pid) == "T", f"{self.name} stands still")
        self._pen.write(What.FREEZE)

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    async def ended(self, within: float = PATIENCE) -> int:
        """Wait for it to end by itself; return what it ended with."""
        await until(lambda: not self.alive, f"{self.name} ends", within=within)
        code = self.exit_code
        assert code is not None
        return code


def _state_of(pid: int) -> str:
    # The field after the command's closing parenthesis; see proc(5). A process is stopped when all its threads are.
    states = {path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")}
    return states.pop() if len(states) == 1 else ""


def kill_all(processes: list[Process]) -> None:
    """Kill them at one blow: as near to a power cut as a test without a plug gets."""
    living = [process for process in processes if process.alive]
    for process in living:
        process.note_death()
        process._process.kill()
    for process in living:
        process._process.wait()


class Stage:
    """One store, its journal, and the processes that work on it. The store is a SQLite file unless `url` is changed."""

    def __init__(self, folder: Path, sockets: Path) -> None:
        self.folder, self.sockets = folder, sockets
        self.file = folder / "laneway.db"
        self.url = f"sqlite:///{self.file}"
        self.journal = Journal(folder / "journal")
        self.processes: list[Process] = []

    # Processes

    def worker(self, **options: Any) -> Process:
        """Start a worker. `lossy`, `unseen`, `clock`, `candid` are faults of `load/worker.py`, others are settings.

        `inside` is a command that starts it.
        """
        faults = {name: options.pop(name) for name in ("lossy", "unseen", "clock", "candid") if name in options}
        return self.python("worker", "-m", "tests.system.load.worker", msgspec.json.encode(faults).decode(), **options)

    def producer(self, **plan: Any) -> Process:
        """Start a process that submits what the plan says and writes down what was acknowledged."""
        return self.python("producer", "-m", "tests.system.load.producer", msgspec.json.encode(plan).decode())

    def laneway(self, *arguments: str, **settings: Any) -> Process:
        """Start the real command line."""
        return self.python(f"laneway-{arguments[0]}", "-m", "laneway", *arguments, **settings)

    async def laneway_worker(self, name: str = "tests.system.load.app:app", /, **settings: Any) -> Process:
        """Start a worker by the real command line, and wait until it takes work."""
        worker = self.laneway("worker", name, "--json", **settings)
        await self.said(worker, '"event":"ready"')
        return worker

    def python(self, kind: str, *arguments: str, inside: Sequence[str] = (), **settings: Any) -> Process:
        """Start a Python on this stage, by a command that starts others if one is given."""
        name = f"{kind}-{len(self.processes) + 1}"
        paths = (str(self.folder), str(ROOT), os.environ.get("PYTHONPATH", ""))
        environment = os.environ | {
            "LANEWAY_STORE": self.url,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self.sockets),
            PATH: str(self.journal.path),
            PROCESS: name,
            SETTINGS: msgspec.json.encode(settings).decode(),
        }
        command = [*inside, sys.executable, *arguments]
        process = Process(name, command, environment, self.folder, Pen(self.journal.path, name))
        self.processes.append(process)
        return process

    def living(self) -> list[Process]:
        """Return the processes that have not ended."""
        return [process for process in self.processes if process.alive]

    async def ready(self, *workers: Process) -> int:
        """Wait until these workers take work; return when the last of them was ready, in nanoseconds."""
        return max([await self._wrote(worker, What.READY) for worker in workers])

    async def said(self, process: Process, text: str) -> None:
        """Wait until the process has printed this."""

        def is_said() -> bool:
            known = text in process.data + process.talk
            assert known or process.alive, f"{process.name} ended with {process.exit_code} before it said {text!r}"
            return known

        await until(is_said, f"{process.name} says {text!r}")

    async def submitting(self, producer: Process) -> None:
        """Wait until the producer has had an answer."""
        await self._wrote(producer, What.ACCEPTED)

    async def _wrote(self, process: Process, what: What) -> int:
        found: list[int] = []

        def is_written() -> bool:
            found[:] = [line.at for line in self.journal.of(what) if line.process == process.name]
            assert found or process.alive, f"{process.name} ended with {process.exit_code} before it was {what.value}"
            return bool(found)

        await until(is_written, f"{process.name} is {what.value}")
        return found[0]

    async def stop(self, *workers: Process) -> None:
        """Ask workers to end, and see that they do it well."""
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            assert await worker.ended() == 0, f"{worker.name} did not end well"

    # The store

    @property
    def on_sqlite(self) -> bool:
        """Tell whether the store is the file."""
        return self.url.startswith("sqlite:")

    def some_of(self, count: int) -> int:
        """Return so many, or in the short form a third of them if this is the second store that the test is run on."""
        return count if self.on_sqlite or LONG else max(2, count // 3)

    def write_ahead_log(self) -> Path:
        """Return SQLite's log beside the file."""
        return self.file.with_name(self.file.name + "-wal")

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[Scheduler]:
        """Use the store from the test's own process, with the tasks of the app."""
        client = Scheduler(self.url, lanes=LANES, **settings)
        for task in app.tasks:
            client._registry.add(task)
        async with client:
            yield client

    # Gates: files that handlers wait for

    def gate(self, name: str = "gate") -> str:
        """Return the path of a gate, closed unless `open_gate` opened it."""
        return str(self.folder / name)

    def open_gate(self, name: str = "gate") -> None:
        """Let the handlers that wait for it go on."""
        (self.folder / name).touch()

    # Waiting

    async def started(self, run: str, *, fence: int = 1, within: float = PATIENCE) -> int:
        """Wait until the handler of a run began under this fence; return when, in nanoseconds."""
        found: list[int] = []

        def is_started() -> bool:
            found[:] = [line.at for line in self.journal.of(What.START, run) if line.fence == fence]
            return bool(found)

        await until(is_started, f"run {run} starts under fence {fence}", within=within)
        return found[0]

    async def progress(self, random: Random, most: int) -> None:
        """Wait for a random point of the work: some lines more in the journal, and then any instant soon after."""
        goal = len(self.journal.lines()) + random.randint(1, most)
        await until(lambda: len(self.journal.lines()) >= goal, "the work goes on")
        await asyncio.sleep(random.random() / 50)

    async def drained(self, client: Scheduler, *, but: int = 0, within: float = PATIENCE) -> float:
        """Wait until every run has ended, but for so many; return the seconds it took."""
        store = await client.open()

        async def nothing_left() -> bool:
            counts = (await store.depths()).runs
            return sum(counts.get(state, 0) for state in ("pending", "running", "waiting")) <= but

        return await until(nothing_left, "every run has ended", within=within)

    def close(self) -> None:
        """Kill what is left."""
        kill_all(self.processes)

    def show(self) -> None:
        """Print the end of what each process said."""
        for process in self.processes:
            say(f"--- {process.name} (exit {process.exit_code})\n{process.talk[-TAIL:]}")


async def until(fact: Callable[[], bool | Awaitable[bool]], what: str, *, within: float = PATIENCE) -> float:
    """Wait for a fact; return the seconds it took, or fail and name it."""
    began = time.monotonic()
    while True:
        # The fact is another process's, which cannot ring us.
        known = fact()
        if known if isinstance(known, bool) else await known:
            return time.monotonic() - began
        assert time.monotonic() - began < within, f"not within {within:g} s: {what}"
        await asyncio.sleep(0.01)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep everybody else from writing to the file, as a backup or a stuck program would."""
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield
        db.execute("ROLLBACK")


@contextmanager
def stage_in(folder: Path) -> Iterator[Stage]:
    """Set up a stage, and clear it at the end."""
    # A socket's path may have little more than 100 bytes, so it cannot lie in a test's own folder.
    sockets = Path(tempfile.mkdtemp(prefix="lw-"))
    sockets.chmod(0o711)  # a PostgreSQL server that is started here may be another user's
    stage = Stage(folder, sockets)
    try:
        yield stage
    finally:
        stage.close()
        shutil.rmtree(sockets, ignore_errors=True)
