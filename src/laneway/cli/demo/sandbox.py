"""Where the demo runs: a directory with an app and a store, and worker processes that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

import laneway
from laneway.cli.shell.errors import FAILED, Problem
from laneway.scheduler import Scheduler

TOUR = Path(__file__).with_name("tour.py")
CONCURRENCY = 10
READY_WITHIN = 20.0  # seconds a worker may take to start
COMMAND = f"laneway worker tour:app --concurrency {CONCURRENCY}"


class DemoWorker:
    """A real `laneway worker` that ends with the demo."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self._log = process, log
        self.pid = process.pid

    async def ready(self) -> None:
        """Return when it is ready; raise Problem with its last line of output if it ends before."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), READY_WITHIN)
        if not line or msgspec.json.decode(line).get("event") != "ready":
            raise Problem(f"the demo's worker did not start: {self.last_words() or 'it said nothing'}", code=FAILED)

    def last_words(self) -> str:
        """Return the last line it wrote."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    async def kill(self) -> None:
        """End it as a power cut would: by SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Sandbox:
    """The directory and the processes in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory / 'laneway.db'}"
        self._workers: list[DemoWorker] = []

    def scheduler(self) -> Scheduler:
        """Import and return the scheduler of the app."""
        spec = importlib.util.spec_from_file_location("tour", self.directory / TOUR.name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with _environment("LANEWAY_STORE", self.url):
            spec.loader.exec_module(module)
        app: Scheduler = module.app
        return app

    async def start_worker(self) -> tuple[DemoWorker, float]:
        """Start a worker; return it once it is ready, with the seconds that this took."""
        began = time.monotonic()
        log = self.directory / f"worker-{len(self._workers) + 1}.log"
        command = ("-m", "laneway.cli.demo.die_with_parent", *COMMAND.split()[1:], "--json")
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                cwd=self.directory,
                env=os.environ | {"LANEWAY_STORE": self.url, "PYTHONPATH": _search_path()},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                # Only the demo handles Ctrl-C; its workers must not receive the signal.
                start_new_session=True,
            )
        worker = DemoWorker(process, log)
        self._workers.append(worker)
        await worker.ready()
        return worker, time.monotonic() - began

    def last_words(self) -> str:
        """Return the last line the newest worker wrote."""
        return self._workers[-1].last_words() if self._workers else ""

    async def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            await worker.kill()


@contextlib.asynccontextmanager
async def sandbox(keep: Path | None) -> AsyncIterator[Sandbox]:
    """Yield a sandbox: in `keep`, which then stays, or in a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="laneway-demo-")) if keep is None else _fresh(keep)
    shutil.copy(TOUR, directory)
    play = Sandbox(directory)
    try:
        yield play
    finally:
        await play.close()
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)


def _fresh(directory: Path) -> Path:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Problem(f"{directory} exists and is not empty; --keep needs a directory of its own")
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()


def _search_path() -> str:
    # The workers must import this laneway, even if it is not installed but found by the working directory.
    ours = str(Path(laneway.__file__).parents[1])
    return os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
