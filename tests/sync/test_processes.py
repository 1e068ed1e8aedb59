"""The blocking face in real processes: forks, exits without a word, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laneway import Scheduler
from laneway.sync.thread import EXIT_WITHIN

# All that Python could complain about at its end is an error, and printed; that it forks with threads is no news.
STRICT = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
PROCESS = [sys.executable, *STRICT, str(Path(__file__).with_name("process.py"))]


def says(url: str, act: str) -> list[str]:
    """Return the lines that a process said; it must end well, soon, and without a word on stderr."""
    env = os.environ | {"LANEWAY_STORE": url}
    ended = subprocess.run([*PROCESS, act], env=env, capture_output=True, text=True, timeout=40, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.parametrize("act", ["submit", "submit_and_close", "drain", "exit_while_waiting", "exit_with_a_thread"])
def test_a_process_ends_soon_and_says_nothing_whatever_it_left_open(url: str, act: str) -> None:
    assert len(says(url, act)) == 1


@pytest.mark.wall_clock
def test_a_process_does_not_wait_for_a_handler_that_does_not_stop() -> None:
    started = time.monotonic()

    assert says("memory://", "exit_while_stuck") == ["ends"]

    assert time.monotonic() - started < 10 + EXIT_WITHIN


def test_a_worker_that_nobody_stopped_gives_back_its_runs_when_its_process_ends(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'laneway.db'}"

    says(url, "exit_while_waiting")

    with Scheduler(url).sync as face:
        [run] = face.runs()
    assert (run.state, run.attempt, run.crashes, run.worker) == ("pending", 1, 0, None)


def test_a_forked_child_uses_a_loop_of_its_own_and_so_does_its_parent(url: str) -> None:
    lines = says(url, "fork")

    assert [line.split()[0] for line in lines[:-1]] == [
        "accepted",
        "accepted",
        "child",
        "accepted",
        "child",
        "accepted",
    ]
    assert [line for line in lines if line.startswith("child")] == ["child 0", "child 0"]
    # What a child puts into its own memory is nobody else's.
    assert lines[-1] == ("{'succeed': 2}" if url == "memory://" else "{'succeed': 4}")


def test_children_forked_while_the_parent_is_busy_do_not_hang(url: str) -> None:
    *_, codes = says(url, "fork_while_busy")

    assert codes == str([0] * 5)


def test_a_child_hears_that_what_was_half_way_is_its_parent_s(url: str) -> None:
    first, *rest = says(url, "fork_with_an_iterator")

    assert first == "StoreUnavailable the loop behind app.sync stayed in the parent of this process when it forked"
    assert rest == ["child 0", "['result', 'done']"]


def test_ctrl_c_reaches_a_script_that_waits_and_it_can_stop_its_worker_then(url: str) -> None:
    env = os.environ | {"LANEWAY_STORE": url}
    with subprocess.Popen([*PROCESS, "interrupt"], env=env, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "waits\n"
        script.send_signal(signal.SIGINT)

        assert script.stdout.read() == "interrupted pending\n"
    assert script.returncode == 0
