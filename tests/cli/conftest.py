"""An app in a directory of its own, and two ways to call the command line: in this process, and for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from laneway.cli import cli

APP = """
import asyncio, threading, time
from laneway import Context, Lane, Retry, Scheduler

app = Scheduler("sqlite:///laneway.db")
other = Scheduler("sqlite:///other.db")
number = 7

@app.task
async def summarize(doc: str, tags: list[str] | None = None, *, ctx: Context) -> dict:
    ctx.progress(0.5, "half way")
    return {"summary": doc, "tags": tags}

@app.task
async def add(a: int, b: int = 1, note: str | None = None) -> list:
    return [a + b, note]

@app.task(retry=None)
async def fail(why: str = "no reason") -> None:
    raise ValueError(f"{why}\\nand more")

@app.task
async def flaky(*, ctx: Context) -> str:
    if ctx.attempt == 1:
        raise ConnectionError("503")
    return "fine"

@app.task
async def anything(value) -> object:
    return value

@app.task
async def sleep(seconds: float = 60) -> None:
    await asyncio.sleep(seconds)

@app.task
async def count(upto: int = 1000000, *, ctx: Context) -> int:
    for n in range(ctx.state or 0, upto):
        await ctx.checkpoint(n + 1)
    return ctx.fence

@app.task
def block() -> None:
    threading.Event().wait()

@app.task
async def hog() -> None:
    time.sleep(60)
"""

Invoke = Callable[..., Result]
Laneway = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with an `app.py` in it; what it imports is forgotten afterwards."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("LANEWAY_APP", "LANEWAY_STORE", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("app", "broken", "shop", "shop.tasks"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def invoke(folder: Path) -> Invoke:
    """Call `laneway` in this process."""

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments)

    return call


@pytest.fixture
def submitted(invoke: Invoke) -> Callable[..., str]:
    """Submit a run of the app and return its id."""

    def submit(*arguments: str) -> str:
        result = invoke("submit", "app:app", *arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout.strip()

    return submit


@pytest.fixture
def laneway(folder: Path) -> Laneway:
    """Call `laneway` for real."""

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "laneway", *arguments]
        return subprocess.run(
            command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=50, check=False
        )

    return call


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a worker and return it once it is ready."""
    started = []

    def launch(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "laneway", "worker", "app:app", "--json", *arguments]
        worker = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(worker)
        assert worker.stdout is not None
        ready = json.loads(worker.stdout.readline())
        assert (ready["event"], ready["pid"]) == ("ready", worker.pid)
        return worker

    yield launch
    for worker in started:
        worker.kill()
        worker.communicate()


def running(invoke: Invoke, run_id: str) -> None:
    """Return once a worker has started the run."""
    for _ in range(10_000):
        if '"kind":"started"' in invoke("runs", "events", run_id, "--json").stdout:
            return
    raise AssertionError(f"run {run_id} was not started")


def heard(worker: subprocess.Popen[str], text: str) -> None:
    """Read what the worker says until it says this."""
    assert worker.stderr is not None
    while text not in (line := worker.stderr.readline()):
        assert line, "it ended without saying it"
