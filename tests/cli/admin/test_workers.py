"""`laneway workers list` and `laneway tasks list`."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from laneway import Scheduler
from tests.cli.conftest import Invoke


def test_no_workers_are_said_on_stderr(invoke: Invoke) -> None:
    invoke("submit", "app:app", "add", "a=1")

    result = invoke("workers", "list")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no workers\n")


def test_workers_of_no_store_are_unreachable(invoke: Invoke) -> None:
    result = invoke("workers", "list", "--store", "sqlite:///none.db")

    assert result.exit_code == 6
    assert result.stderr.startswith("laneway: there is no store at")


def listed_while_working(invoke: Invoke, *words: str) -> str:
    """Return what the list shows while a worker of this process executes one run and waits for more."""
    app = Scheduler("sqlite:///laneway.db")
    release = asyncio.Event()

    @app.task
    async def hold() -> None:
        await release.wait()

    @app.task
    async def another() -> None: ...

    async def working() -> str:
        async with app, app.running(concurrency=3):
            await hold.submit()
            while not app.executing:  # noqa: ASYNC110 - a run's start sets no event here
                await asyncio.sleep(0.001)
            shown = await asyncio.to_thread(invoke, "workers", "list", *words)
            release.set()
            return shown.stdout

    return asyncio.run(working())


def test_a_worker_is_listed_as_json(invoke: Invoke) -> None:
    before = datetime.now(UTC)

    [worker] = json.loads(listed_while_working(invoke, "--json"))

    assert worker.pop("id")
    assert abs((datetime.fromisoformat(worker.pop("renewed_at")) - before).total_seconds()) < 30
    assert worker == {
        "v": 1,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "tasks": ["another", "hold"],
        "running": 1,
        "concurrency": 3,
        "resting": True,
        "left": False,
    }


def test_a_worker_is_a_line_with_one_word_in_each_column(invoke: Invoke) -> None:
    header, line = listed_while_working(invoke).splitlines()

    assert header.split() == ["ID", "HOST", "PID", "RUNNING", "CONCURRENCY", "STATE", "RENEWED", "TASKS"]
    assert line.split()[2:6] == [str(os.getpid()), "1", "3", "resting"]
    assert line.split()[7] == "another,hold"


def test_tasks_are_listed_with_their_policies_and_parameters(invoke: Invoke, folder: Path) -> None:
    (folder / "shop.py").write_text(
        "from laneway import Context, Retry, Scheduler\n"
        "app = Scheduler('memory://')\n"
        "@app.task(lane='team', timeout=90, retry=5)\n"
        "async def summarize(doc: str, tags: list[str] | None = None, *, ctx: Context) -> None: ...\n"
        "@app.task(retry=None)\n"
        "def clean(what) -> None: ...\n"
    )

    header, summarize, clean = invoke("tasks", "list", "shop:app").stdout.splitlines()
    records = json.loads(invoke("tasks", "list", "shop:app", "--json").stdout)

    assert header.split() == ["NAME", "KIND", "LANE", "TIMEOUT", "ATTEMPTS", "PARAMETERS"]
    assert summarize.split(maxsplit=5) == [
        "summarize",
        "async",
        "team",
        "1m30s",
        "5",
        "doc: str, tags?: list[str] | None",
    ]
    assert clean.split() == ["clean", "plain", "main", "-", "1", "what"]
    assert [(task["name"], task["timeout"], task["retry"]["attempts"]) for task in records] == [
        ("summarize", 90, 5),
        ("clean", None, 1),
    ]
    assert records[0]["parameters"][1] == {"name": "tags", "type": "list[str] | None", "required": False}
    assert {task["v"] for task in records} == {1}


def test_tasks_tell_where_and_how_they_are_executed(invoke: Invoke, folder: Path) -> None:
    (folder / "shop.py").write_text(
        "from laneway import Scheduler\n"
        "app = Scheduler('memory://')\n"
        "def positive(value): return value > 0\n"
        "@app.task(process=True, validate=positive)\n"
        "def render(scene: str) -> int: ...\n"
        "@app.task(transient=(ConnectionError, TimeoutError), transient_wait=2)\n"
        "async def fetch() -> int: ...\n"
    )

    header, render, fetch = invoke("tasks", "list", "shop:app").stdout.splitlines()
    records = json.loads(invoke("tasks", "list", "shop:app", "--json").stdout)

    assert header.split()[5:] == ["TRANSIENT", "VALIDATE", "PARAMETERS"]
    assert render.split() == ["render", "process", "main", "-", "3", "-", "positive", "scene:", "str"]
    assert fetch.split() == ["fetch", "async", "main", "-", "3", "ConnectionError,TimeoutError", "-", "-"]
    assert [(task["validate"], task["transient"]) for task in records] == [
        ("positive", []),
        (None, ["ConnectionError", "TimeoutError"]),
    ]
    assert (records[1]["transient_tries"], records[1]["transient_wait"]) == (3, 2)


@pytest.mark.parametrize(("words", "code"), [(["tasks", "list"], 2), (["tasks", "list", "nowhere:app"], 2)])
def test_an_app_that_is_not_there_is_wrong_use(invoke: Invoke, words: list[str], code: int) -> None:
    assert invoke(*words).exit_code == code
