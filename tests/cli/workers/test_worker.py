"""`laneway worker` for real: it starts, works, and ends in order whatever its handlers do."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, Laneway, Start, heard
from tests.cli.terminal import on_terminal

pytestmark = pytest.mark.system
Submitted = Callable[..., str]


def test_it_says_what_it_does_and_ends_with_0(start: Start, invoke: Invoke) -> None:
    worker = start("--concurrency", "3")

    worker.send_signal(signal.SIGTERM)
    stdout, stderr = worker.communicate(timeout=20)

    assert worker.returncode == 0
    assert json.loads(stdout) == {"v": 1, "event": "stopped", "left": []}
    lines = stderr.splitlines()
    assert lines[0] == "laneway worker for app:app"
    assert lines[1].split() == ["store", "sqlite:///laneway.db"]
    assert lines[2].split(maxsplit=1) == ["tasks", "add, anything, block, count, fail, flaky, hog, sleep and 1 more"]
    assert lines[3].split() == ["concurrency", "3"]
    assert lines[4].startswith("ready after ")
    assert lines[5:] == ["stopped"]


def test_a_run_that_has_time_ends_before_the_worker_does(start: Start, invoke: Invoke, submitted: Submitted) -> None:
    worker = start("--verbose")
    run_id = submitted("sleep", "seconds=0.5")
    heard(worker, f"run {run_id} of sleep: start")

    worker.send_signal(signal.SIGINT)
    _, stderr = worker.communicate(timeout=20)

    assert worker.returncode == 0
    assert "stopping: 1 run may end within 19 s, then what is left is given back\n  Ctrl-C again stops now\n" in stderr
    assert json.loads(invoke("runs", "show", run_id, "--json").stdout)["state"] == "succeeded"


def test_a_second_signal_gives_runs_back_at_once_uncharged(start: Start, invoke: Invoke, submitted: Submitted) -> None:
    worker = start("--verbose")
    run_id = submitted("sleep")
    heard(worker, f"run {run_id} of sleep: start")

    worker.send_signal(signal.SIGINT)
    heard(worker, "stopping: 1 run")
    began = time.monotonic()
    worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=20)

    run = json.loads(invoke("runs", "show", run_id, "--json").stdout)
    assert worker.returncode == 0
    assert time.monotonic() - began < 4
    assert (run["state"], run["attempt"], run["crashes"]) == ("pending", 1, 0)


def test_a_thread_that_does_not_end_is_named_and_left_behind(
    start: Start, invoke: Invoke, submitted: Submitted
) -> None:
    worker = start("--verbose")
    run_id = submitted("block")
    heard(worker, f"run {run_id} of block: start")

    worker.send_signal(signal.SIGTERM)
    heard(worker, "stopping: 1 run")
    worker.send_signal(signal.SIGTERM)
    stdout, stderr = worker.communicate(timeout=20)

    assert worker.returncode == 1
    assert json.loads(stdout) == {"v": 1, "event": "stopped", "left": [run_id]}
    assert f"left behind: 1 run whose handlers did not end: {run_id}" in stderr
    assert "charged as a crash, unless a cancel or a time-out was decided before" in stderr


def test_a_handler_that_blocks_the_loop_cannot_keep_it_from_ending(start: Start, submitted: Submitted) -> None:
    worker = start("--verbose")
    run_id = submitted("hog")
    heard(worker, f"run {run_id} of hog: start")

    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)
    _, stderr = worker.communicate(timeout=20)

    assert worker.returncode == 1
    assert f"left behind: 1 run whose handlers did not end: {run_id}" in stderr


def test_a_store_that_cannot_be_opened_ends_it_with_6(laneway: Laneway, folder: Path) -> None:
    (folder / "laneway.db").write_text("this is no database, and long enough to be sure of it" * 100, encoding="utf-8")

    ended = laneway("worker", "app:app")

    assert ended.returncode == 6
    assert ended.stderr.splitlines()[-1].startswith("laneway: ")
    assert "Traceback" not in ended.stderr


def test_following_is_live_and_ctrl_c_says_how_to_go_on(start: Start, folder: Path, submitted: Submitted) -> None:
    start()
    run_id = submitted("sleep")
    command = [sys.executable, "-m", "laneway", "runs", "events", run_id[:20], "--follow"]
    follower = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    assert follower.stdout.readline().split()[2] == "started"

    follower.send_signal(signal.SIGINT)
    _, stderr = follower.communicate(timeout=20)

    assert follower.returncode == 0
    assert stderr == f"\nstopped after event 1; go on with: laneway runs events {run_id} --follow --after 1\n"


def test_submit_and_wait_give_result_and_code(start: Start, laneway: Laneway) -> None:
    start()

    good = laneway("submit", "app:app", "summarize", "doc=42", "--wait", "--timeout", "30s")
    bad = laneway("submit", "app:app", "fail", "why=because", "--wait", "--timeout", "30s")
    whole = laneway("submit", "app:app", "add", "a=1", "--wait", "--json", "--timeout", "30s")

    assert (good.returncode, json.loads(good.stdout)) == (0, {"summary": "42", "tags": None})
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.splitlines()[-1].endswith(" failed: ValueError: because")
    assert json.loads(whole.stdout)["result"] == [2, None]


def test_a_terminal_gets_colour_and_symbols_and_no_color_is_honoured(
    folder: Path, invoke: Invoke, submitted: Submitted
) -> None:
    submitted("fail", "why=bad luck", "--user", "ann")
    invoke("drain", "app:app")

    coloured = on_terminal(folder, 120, "runs", "list")
    plain = on_terminal(folder, 120, "runs", "list", NO_COLOR="1")

    assert "\x1b[31m✗ failed" in coloured
    assert "✗ failed" in plain
    assert "\x1b[3" not in plain


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_list_never_is_wider_than_its_terminal(
    folder: Path, invoke: Invoke, submitted: Submitted, columns: int
) -> None:
    submitted("fail", f"why={'very ' * 40}bad luck", "--user", "ann", "--session", "a-long-session-name")
    invoke("drain", "app:app")

    lines = on_terminal(folder, columns, "runs", "list").splitlines()

    assert len(lines) == 2
    assert max(len(re.sub("\x1b\\[[0-9;]*m", "", line)) for line in lines) <= columns
