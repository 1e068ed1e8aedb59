"""`laneway demo`: what it shows is true, and it leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from laneway.cli.demo import chapters, runner
from laneway.cli.demo.job_chapter import FIRES
from laneway.cli.demo.ledger import Ledger, inversions
from laneway.core.records.run import Run
from tests.cli.conftest import Invoke

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)
RETRY_ALONE = [chapter for chapter in chapters.CHAPTERS if chapter[0] == "retry"]
PROMISED = 30  # seconds by the demo's own clock; alone on a machine it takes about ten
STUCK = 55  # seconds for the whole process, whose start and end a busy machine draws out: only that the test ends


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of our own for temporary files, to see what stays in it."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory


@pytest.fixture
def demo(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo that has begun: its first worker works."""
    process = subprocess.Popen(
        [sys.executable, "-m", "laneway", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def worker_of(demo: subprocess.Popen[str]) -> int:
    """Return a file descriptor that is readable when the demo's worker has ended."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.search(r"pid (\d+), ready", line):
            return os.pidfd_open(int(found[1]))
    raise AssertionError("the demo showed no worker")


def has_ended(worker: int) -> bool:
    ready, _, _ = select.select([worker], [], [], 10)
    os.close(worker)
    return bool(ready)


@pytest.mark.system
@pytest.mark.timeout(STUCK + 5)
def test_the_demo_verifies_everything_it_shows(temporary: Path) -> None:
    command = [sys.executable, "-m", "laneway", "demo", "--check", "--json"]

    checked = subprocess.run(command, capture_output=True, text=True, timeout=STUCK, check=False)

    assert checked.returncode == 0, checked.stderr
    report = json.loads(checked.stdout)
    facts = {fact["name"]: fact["holds"] for fact in report["facts"]}
    assert facts == dict.fromkeys(
        ["accept", "turns", "events", "retry", "order", "ask", "fire", "foresee", "kill", "finish", "ledger"], True
    )
    ledger = report["ledger"]
    assert ledger["submitted"] == ledger["succeeded"] == ledger["one_done"] >= 227 + FIRES
    assert ledger["lost"] == ledger["gaps"] == ledger["inversions"] == 0
    assert ledger["restarted"] > 0
    assert report["seconds"] < PROMISED
    assert list(temporary.iterdir()) == []


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_stopped_cleans_up(demo: subprocess.Popen[str], temporary: Path, number: signal.Signals) -> None:
    worker = worker_of(demo)

    demo.send_signal(number)
    _, stderr = demo.communicate(timeout=20)

    assert demo.returncode == 130
    assert stderr == "\nstopped; its workers have ended and its files are gone\n"
    assert has_ended(worker)
    assert list(temporary.iterdir()) == []


@pytest.mark.system
def test_a_demo_that_is_killed_leaves_no_worker_behind(demo: subprocess.Popen[str]) -> None:
    worker = worker_of(demo)

    demo.kill()

    assert has_ended(worker)


@pytest.mark.system
def test_a_fact_that_does_not_hold_is_named_and_exits_with_1(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CHAPTERS", RETRY_ALONE)
    monkeypatch.setattr(chapters, "BACKOFF", (0.5, 60.0))

    result = invoke("demo", "--check")

    assert result.exit_code == 1
    assert "1 of 2 facts are not as promised" in result.stdout
    assert result.stderr.startswith("laneway: retry is not as promised: fetch failed twice, waited 0.5")


@pytest.mark.system
def test_a_chapter_that_does_not_end_is_named_with_its_workers_last_words(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "CHAPTERS", RETRY_ALONE)
    monkeypatch.setattr(runner, "CHAPTER_WITHIN", 0.1)

    result = invoke("demo", "--check")

    assert result.exit_code == 1
    assert "retry is not as promised: not finished after 100 ms; the worker's last words: ready after" in result.stderr


@pytest.mark.system
def test_what_is_kept_can_be_used_as_the_demo_says(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "CHAPTERS", RETRY_ALONE)

    shown = invoke("demo", "--keep", "tour")

    assert shown.exit_code == 0
    assert shown.stdout.count("cd ") == 1
    [fetched] = re.findall(r"laneway runs events (\w{32})", shown.stdout)
    monkeypatch.chdir(folder / "tour")
    assert invoke("runs", "list", "--user", "cat").stdout.count("fetch") == 1
    assert invoke("runs", "events", fetched).stdout.splitlines()[-1].endswith("succeeded")
    assert invoke("submit", "tour:app", "reply", "message=hello", "seconds=0").exit_code == 0
    assert invoke("drain", "tour:app").stderr == "1 succeeded\n"
    monkeypatch.delitem(sys.modules, "tour")


def test_a_directory_with_something_in_it_is_not_used(invoke: Invoke, folder: Path) -> None:
    result = invoke("demo", "--keep", ".")

    assert result.exit_code == 2
    assert result.stderr == "laneway: . exists and is not empty; --keep needs a directory of its own\n"


def test_the_demo_does_not_care_what_store_the_environment_names(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANEWAY_STORE", "nonsense://")
    monkeypatch.setattr(runner, "CHAPTERS", [])

    assert invoke("demo", "--check").exit_code == 0
    assert os.environ["LANEWAY_STORE"] == "nonsense://"


@pytest.mark.parametrize("wrong", ["succeeded", "one_done", "lost", "gaps", "inversions"])
def test_a_ledger_with_any_wrong_figure_is_not_balanced(wrong: str) -> None:
    right = {"submitted": 9, "succeeded": 9, "lost": 0, "one_done": 9, "gaps": 0, "inversions": 0, "restarted": 3}

    assert Ledger(**right).balanced
    assert not Ledger(**right | {wrong: 8}).balanced


def test_a_run_that_starts_before_the_one_before_it_has_ended_is_an_inversion() -> None:
    def at(start: float, end: float) -> Run:
        run = Run(id="a", number=1, task="t", args={}, lane="main", session="s", accepted_at=NOW, due_at=NOW)
        begun, ended = NOW + timedelta(seconds=start), NOW + timedelta(seconds=end)
        return msgspec.structs.replace(run, started_at=begun, ended_at=ended)

    assert inversions([at(0, 1), at(1, 2), at(3, 4)]) == 0
    assert inversions([at(0, 2), at(1, 3), at(0, 1)]) == 2
