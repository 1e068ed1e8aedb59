"""`laneway runs cancel`, `pause`, `resume` and `retry`, on a SQLite file and with real workers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Invoke, Laneway, Start, heard

Submitted = Callable[..., str]


def shown(invoke: Invoke, run_id: str) -> dict[str, Any]:
    """Return the run as JSON."""
    run: dict[str, Any] = json.loads(invoke("runs", "show", run_id, "--json").stdout)
    return run


def kinds(invoke: Invoke, run_id: str) -> list[str]:
    """Return the kinds of the run's events."""
    lines = invoke("runs", "events", run_id, "--json").stdout.splitlines()
    return [json.loads(line)["kind"] for line in lines]


# Cancelling what nobody executes


def test_a_pending_run_is_cancelled_at_once_without_a_worker(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("add", "a=1")

    result = invoke("runs", "cancel", run_id[:20])

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{run_id}  cancelled\n", "")
    assert kinds(invoke, run_id) == ["cancel_requested", "done"]
    again = invoke("runs", "cancel", run_id)
    assert (again.exit_code, again.stdout) == (0, f"{run_id}  cancelled\n")


def test_each_id_gets_its_own_answer(invoke: Invoke, submitted: Submitted) -> None:
    ended = submitted("add", "a=1")
    invoke("drain", "app:app")
    pending = submitted("add", "a=2")

    result = invoke("runs", "cancel", ended, "zzz", pending, pending, "--json")

    wrong, unknown, cancelled = json.loads(result.stdout)
    assert wrong == {"v": 1, "id": ended, "error": "a succeeded run cannot be cancelled"}
    assert unknown == {"v": 1, "id": "zzz", "error": "no run 'zzz'"}
    assert (cancelled["v"], cancelled["id"], cancelled["state"]) == (1, pending, "cancelled")
    assert cancelled["cancel"]["requested_at"] == cancelled["ended_at"]
    assert cancelled["cancel"]["delivered_at"] is cancelled["cancel"]["stopped_at"] is None
    assert result.exit_code == 5
    assert result.stderr == f"laneway: run {ended}: a succeeded run cannot be cancelled\nlaneway: no run 'zzz'\n"


def test_an_unknown_run_is_3_and_a_missing_store_6(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")

    for verb in ("cancel", "pause", "resume", "retry"):
        unknown = invoke("runs", verb, "zzz")
        assert (unknown.exit_code, unknown.stderr) == (3, "laneway: no run 'zzz'\n")
        assert invoke("runs", verb, "zzz", "--store", "sqlite:///none.db").exit_code == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give ids, or filters"),
        (["a1", "--task", "add"], "give ids or --task, not both"),
        (["--task", "add", "--abandon"], "--abandon needs ids"),
        (["a1", "--dry-run"], "--dry-run counts the runs that match filters"),
        (["a1", "--timeout", "3"], "--timeout needs --wait"),
        (["--state", "failed"], "failed runs have ended; there is nothing left to cancel"),
        (["--state", "pendig"], "unknown state 'pendig', did you mean 'pending'?"),
    ],
)
def test_what_makes_no_sense_is_refused(invoke: Invoke, submitted: Submitted, words: list[str], said: str) -> None:
    run_id = submitted("add", "a=1")

    result = invoke("runs", "cancel", *words)

    assert (result.exit_code, result.stderr.startswith(f"laneway: {said}")) == (2, True)
    assert shown(invoke, run_id)["state"] == "pending"


# Many at once


def test_all_that_fit_are_counted_and_then_cancelled_without_a_question(invoke: Invoke, submitted: Submitted) -> None:
    ended = submitted("add", "a=0", "--user", "ann")
    invoke("drain", "app:app")
    ids = [submitted("add", f"a={n}", "--user", "ann") for n in range(3)]
    later = submitted("add", "a=9", "--user", "ann", "--delay", "1h")
    held = submitted("add", "a=8", "--user", "ann")
    invoke("runs", "pause", held)
    others = [submitted("add", "a=1", "--user", "bob"), submitted("fail", "--user", "ann")]
    words = ("runs", "cancel", "--task", "add", "--user", "ann")

    tried = invoke(*words, "--dry-run", "--json")
    pending = invoke(*words, "--state", "pending", "--dry-run")
    assert json.loads(tried.stdout) == {"v": 1, "count": 5, "dry_run": True, "stopping": []}
    assert pending.stdout == "4 runs would be cancelled\n"
    assert shown(invoke, ids[0])["state"] == "pending"

    done = invoke(*words)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "5 runs cancelled\n", "")
    states = {run_id: shown(invoke, run_id)["state"] for run_id in [ended, *ids, later, held, *others]}
    assert list(states.values()) == ["succeeded"] + ["cancelled"] * 5 + ["pending"] * 2
    assert json.loads(invoke(*words, "--json").stdout)["count"] == 0


def on_terminal(folder: Path, answer: str, *arguments: str) -> tuple[int, str]:
    """Call `laneway` with a terminal as its stdin, answer what it asks; return its exit code and what it said."""
    main, side = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "laneway", *arguments],
            cwd=folder,
            stdin=side,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.write(main, answer.encode())
        said, _ = process.communicate(timeout=30)
    finally:
        os.close(main)
        os.close(side)
    return process.returncode, said


def test_only_a_person_is_asked_before_many_are_cancelled(folder: Path, invoke: Invoke, submitted: Submitted) -> None:
    ids = [submitted("add", f"a={n}") for n in range(2)]
    words = ("runs", "cancel", "--task", "add")

    code, said = on_terminal(folder, "n\n", *words)
    assert code == 1
    assert said.startswith("cancel 2 runs (task add)? [y/N]: ")
    assert said.endswith("nothing was changed\n")
    assert shown(invoke, ids[0])["state"] == "pending"

    code, said = on_terminal(folder, "y\n", *words)
    assert (code, said.splitlines()[-1].endswith("2 runs cancelled")) == (0, True)
    third = submitted("add", "a=3")
    assert on_terminal(folder, "", *words, "--yes") == (0, "1 run cancelled\n")
    assert shown(invoke, third)["state"] == "cancelled"


# Cancelling what is running


@pytest.mark.system
def test_waiting_tells_how_far_the_cancel_got(start: Start, laneway: Laneway, submitted: Submitted) -> None:
    worker = start("--verbose")
    run_id = submitted("sleep")
    heard(worker, f"run {run_id} of sleep: start")

    result = laneway("runs", "cancel", run_id, "--wait", "--timeout", "30s")

    assert (result.returncode, result.stderr) == (0, "")
    said = result.stdout.split()
    assert said[:3] == [run_id, "cancelled:", "requested,"]
    assert [said[3], said[7]] == ["delivered", "stopped"]
    events = [json.loads(line) for line in laneway("runs", "events", run_id, "--json").stdout.splitlines()]
    assert [event["kind"] for event in events] == ["started", "cancel_requested", "cancel_delivered", "stopped", "done"]
    again = json.loads(laneway("runs", "cancel", run_id, "--json").stdout)[0]["cancel"]
    assert list(again.values()) == [event["at"] for event in events[1:4]]


@pytest.mark.system
def test_what_does_not_stop_is_told_and_can_be_abandoned(
    start: Start, laneway: Laneway, submitted: Submitted, folder: Path
) -> None:
    # On a busy machine the commands take a while: meanwhile the handler must not count as stuck.
    text = (folder / "app.py").read_text().replace('laneway.db")', 'laneway.db", grace=60)', 1)
    (folder / "app.py").write_text(text)
    worker = start("--verbose")
    run_id = submitted("block")
    heard(worker, f"run {run_id} of block: start")

    late = laneway("runs", "cancel", run_id, "--wait", "--timeout", "1s")
    assert late.returncode == 7
    assert late.stdout.startswith(f"{run_id}  running: cancel requested, delivered after ")
    assert late.stdout.endswith(", not stopped yet\n")
    assert late.stderr.splitlines() == [
        f"laneway: run {run_id} has not stopped after 1.0 s; the cancel stands",
        f"  to end a run without its handler: laneway runs cancel {run_id} --abandon",
    ]
    listed = laneway("runs", "list").stdout.splitlines()[1]
    assert (listed.split()[5], listed.endswith("cancel requested")) == ("running", True)
    many = laneway("runs", "cancel", "--task", "block", "--wait", "--timeout", "0.1s", "--json")
    assert (many.returncode, json.loads(many.stdout)["stopping"]) == (7, [run_id])

    abandoned = laneway("runs", "cancel", run_id, "--abandon")
    assert abandoned.returncode == 0
    assert abandoned.stdout.startswith(f"{run_id}  cancelled (abandoned): requested, delivered after ")


def test_waiting_ends_when_the_worker_is_killed_although_no_other_is_up(
    invoke: Invoke, start: Start, submitted: Submitted, folder: Path
) -> None:
    worker = start("--verbose")
    run_id = submitted("block")
    heard(worker, f"run {run_id} of block: start")
    command = [sys.executable, "-m", "laneway", "runs", "cancel", run_id, "--wait"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as waiting:
        while "cancel_delivered" not in kinds(invoke, run_id):
            assert waiting.poll() is None

        worker.kill()
        stdout, _ = waiting.communicate(timeout=20)

    assert (waiting.returncode, shown(invoke, run_id)["state"]) == (0, "cancelled")
    assert stdout.startswith(f"{run_id}  cancelled: requested, delivered after ")


# Pausing, resuming, trying again


def test_a_pending_run_is_paused_and_resumed(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("add", "a=1")

    assert invoke("runs", "pause", run_id).stdout == f"{run_id}  paused\n"
    invoke("drain", "app:app")
    [run] = json.loads(invoke("runs", "resume", run_id, "--json").stdout)
    assert (run["id"], run["state"]) == (run_id, "pending")
    invoke("drain", "app:app")
    assert shown(invoke, run_id)["result"] == [2, None]
    assert kinds(invoke, run_id) == ["paused", "resumed", "started", "result", "done"]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_run_that_has_ended_can_neither_be_paused_nor_resumed(
    invoke: Invoke, submitted: Submitted, verb: str
) -> None:
    run_id = submitted("add", "a=1")
    invoke("drain", "app:app")

    result = invoke("runs", verb, run_id)

    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == f"laneway: run {run_id}: a succeeded run cannot be {verb}d\n"


@pytest.mark.system
def test_a_running_run_pauses_at_its_checkpoint_and_goes_on_from_there(
    start: Start, laneway: Laneway, submitted: Submitted
) -> None:
    worker = start("--verbose")
    run_id = submitted("count")
    heard(worker, f"run {run_id} of count: start")

    asked = laneway("runs", "pause", run_id)
    heard(worker, f"run {run_id} of count: pause")

    assert asked.returncode == 0
    assert "pause" in asked.stdout
    assert json.loads(laneway("runs", "show", run_id, "--json").stdout)["state"] == "paused"
    assert laneway("runs", "resume", run_id).stdout == f"{run_id}  pending\n"
    heard(worker, f"run {run_id} of count: start")
    assert laneway("runs", "cancel", run_id, "--wait").returncode == 0


def test_an_ended_run_is_tried_again_as_a_new_one(invoke: Invoke, submitted: Submitted) -> None:
    old = submitted("fail", "why=bad luck", "--user", "ann")
    early = invoke("runs", "retry", old)
    assert (early.exit_code, early.stderr) == (5, f"laneway: run {old}: a pending run cannot be tried again\n")
    invoke("drain", "app:app")

    result = invoke("runs", "retry", old[:20])

    new = result.stdout.strip()
    assert (result.exit_code, result.stderr) == (0, f"{new} retries {old}, a run of fail that failed\n")
    run = shown(invoke, new)
    assert (run["retry_of"], run["args"], run["user"], run["state"]) == (old, {"why": "bad luck"}, "ann", "pending")
    assert f"retry of    {old}" in invoke("runs", "show", new).stdout
    [receipt] = json.loads(invoke("runs", "retry", old, "--json").stdout)
    assert (receipt["outcome"], receipt["retry_of"]) == ("accepted", old)
