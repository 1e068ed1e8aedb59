"""The stage of a system test: a store, a journal, and real processes that come and go.

Nothing here waits for a time: `until` waits for a fact, with a generous limit because the machine may be busy.
Assertions about safety are exact, whatever the machine does.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from laneway import Scheduler
from tests.system.harness.forms import LONG, report
from tests.system.harness.process import Process, kill_all
from tests.system.harness.until import PATIENCE, until
from tests.system.load.app import LANES, SETTINGS, app
from tests.system.oracle.journal import JOURNAL, PROCESS, Accepted, Entry, Journal, JournalWriter, Ready, Started

ROOT = Path(__file__).resolve().parents[3]
SHOWN = 4_000  # characters of a process's stderr that are shown when a test fails


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
        """Start a worker. The faults of `load/worker.py` are options, the other options are settings.

        `inside` is a command that starts it.
        """
        faults = {name: options.pop(name) for name in ("lossy", "unseen", "clock", "log_checks") if name in options}
        return self.python("worker", "-m", "tests.system.load.worker", msgspec.json.encode(faults).decode(), **options)

    def producer(self, **plan: Any) -> Process:
        """Start a process that submits what the plan says, and writes into the journal what was acknowledged."""
        return self.python("producer", "-m", "tests.system.load.producer", msgspec.json.encode(plan).decode())

    def laneway(self, *arguments: str, **settings: Any) -> Process:
        """Start the real command line."""
        return self.python(f"laneway-{arguments[0]}", "-m", "laneway", *arguments, **settings)

    async def laneway_worker(self, name: str = "tests.system.load.app:app", /, **settings: Any) -> Process:
        """Start a worker by the real command line, and wait until it takes work."""
        worker = self.laneway("worker", name, "--json", **settings)
        await self.printed(worker, '"event":"ready"')
        return worker

    def python(self, kind: str, *arguments: str, inside: Sequence[str] = (), **settings: Any) -> Process:
        """Start a Python on this stage; `inside` is a command that starts it."""
        name = f"{kind}-{len(self.processes) + 1}"
        paths = (str(self.folder), str(ROOT), os.environ.get("PYTHONPATH", ""))
        environment = os.environ | {
            "LANEWAY_STORE": self.url,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self.sockets),
            JOURNAL: str(self.journal.path),
            PROCESS: name,
            SETTINGS: msgspec.json.encode(settings).decode(),
        }
        command = [*inside, sys.executable, *arguments]
        process = Process(name, command, environment, self.folder, JournalWriter(self.journal.path, name))
        self.processes.append(process)
        return process

    def living(self) -> list[Process]:
        """Return the processes that have not ended."""
        return [process for process in self.processes if process.alive]

    async def ready(self, *workers: Process) -> int:
        """Wait until these workers take work; return when the last of them was ready, in nanoseconds."""
        return max([await self._wrote(worker, Ready) for worker in workers])

    async def printed(self, process: Process, text: str) -> None:
        """Wait until the process has printed this."""

        def is_printed() -> bool:
            found = text in process.stdout + process.stderr
            assert found or process.alive, f"{process.name} ended with {process.exit_code} before it printed {text!r}"
            return found

        await until(is_printed, f"{process.name} prints {text!r}")

    async def submitting(self, producer: Process) -> None:
        """Wait until the producer has had an answer."""
        await self._wrote(producer, Accepted)

    async def _wrote(self, process: Process, kind: type[Entry]) -> int:
        found: list[int] = []

        def is_written() -> bool:
            found[:] = [entry.at for entry in self.journal.of(kind) if entry.process == process.name]
            assert found or process.alive, f"{process.name} ended with {process.exit_code} before {kind.__name__}"
            return bool(found)

        await until(is_written, f"{process.name} writes {kind.__name__}")
        return found[0]

    async def stop(self, *workers: Process) -> None:
        """Ask workers to end, and check that they end with exit code 0."""
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            assert await worker.ended() == 0, f"{worker.name} did not end well"

    # The store

    @property
    def on_sqlite(self) -> bool:
        """Whether the store is the file."""
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
        add_tasks(client, app)
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
            found[:] = [entry.at for entry in self.journal.of(Started, run) if entry.fence == fence]
            return bool(found)

        await until(is_started, f"run {run} starts under fence {fence}", within=within)
        return found[0]

    async def progress(self, random: Random, most: int) -> None:
        """Wait for a random point of the work: some more entries in the journal, and then any instant soon after."""
        goal = len(self.journal.entries()) + random.randint(1, most)
        await until(lambda: len(self.journal.entries()) >= goal, "the work goes on")
        await asyncio.sleep(random.random() / 50)

    async def drained(self, client: Scheduler, *, but: int = 0, within: float = PATIENCE) -> float:
        """Wait until every run has ended, except `but` of them; return the seconds it took."""
        store = await client.open()

        async def nothing_left() -> bool:
            counts = (await store.depths()).runs
            return sum(counts.get(state, 0) for state in ("pending", "running", "waiting")) <= but

        return await until(nothing_left, "every run has ended", within=within)

    def close(self) -> None:
        """Kill what is left."""
        kill_all(self.processes)

    def show(self) -> None:
        """Print the end of what each process wrote to stderr."""
        for process in self.processes:
            report(f"--- {process.name} (exit {process.exit_code})\n{process.stderr[-SHOWN:]}")


def add_tasks(client: Scheduler, app: Scheduler) -> None:
    """Let a client submit the tasks of an app that other processes execute."""
    for task in app.tasks:
        client._registry.add(task)  # noqa: SLF001 - by the decorator they would be other tasks of the same name


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
