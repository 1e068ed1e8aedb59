"""`laneway worker --processes N`: a parent that keeps its workers alive, and takes them with it."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from laneway import Submission
from tests.support.invariants import check_invariants
from tests.system.harness.forms import SHORT_LEASE, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import block, hold, hold_in_thread, stroll
from tests.system.oracle.check import check

pytestmark = [pytest.mark.system, time_limit()]
APP = "tests.system.load.app:app"


def told(parent: Process, event: str) -> list[dict[str, Any]]:
    """Return the events of one kind that parent and workers have printed."""
    lines = [json.loads(line) for line in parent.stdout.splitlines() if line.endswith("}")]
    return [line for line in lines if line["event"] == event]


async def fleet(stage: Stage, *options: str, processes: int = 2, **settings: Any) -> Process:
    """Start a parent and wait until all its workers take work."""
    parent = stage.laneway("worker", APP, "--json", "--processes", str(processes), *options, **settings)
    await stage.printed(parent, "all are ready")
    return parent


def pids(parent: Process) -> list[int]:
    """Return the processes that it has started and that have not ended, by its events."""
    ended = {line["pid"] for line in told(parent, "ended")}
    return [line["pid"] for line in told(parent, "started") if line["pid"] not in ended]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


async def test_a_worker_killed_with_9_is_replaced_and_its_runs_finish(stage: Stage) -> None:
    parent = await fleet(stage, "--concurrency", "4", **SHORT_LEASE)
    async with stage.client() as client:
        receipts = await client.submit_many([Submission(hold, {"gate": stage.gate()}, user=f"u{n}") for n in range(8)])
        for receipt in receipts:
            await stage.started(receipt.run_id)

        victim = pids(parent)[0]
        os.kill(victim, signal.SIGKILL)
        await until(lambda: len(told(parent, "ready")) == 3, "another takes its place")
        stage.open_gate()
        await stage.drained(client)
        parent.signal(signal.SIGTERM)

        assert await parent.ended() == 0
        assert (await (await client.open()).depths()).runs == {"succeeded": 8}
        runs = [await client.get(receipt) for receipt in receipts]
        assert 1 <= sum(run.fence == 2 for run in runs) <= 4
        await check_invariants(await client.open())
    first, *_ = told(parent, "ended")
    assert (first["pid"], first["code"]) == (victim, -9)
    assert f"worker 1 (process {victim}) was killed by SIGKILL" in parent.stderr
    assert "another takes its place in 100 ms" in parent.stderr
    assert not any(map(is_running, [line["pid"] for line in told(parent, "started")]))


async def test_at_the_first_signal_what_runs_may_end(stage: Stage) -> None:
    parent = await fleet(stage, "--concurrency", "2")
    async with stage.client() as client:
        receipts = await client.submit_many([Submission(hold, {"gate": stage.gate()}, user=f"u{n}") for n in range(4)])
        for receipt in receipts:
            await stage.started(receipt.run_id)

        # As systemd and a terminal do it: parent and workers alike, before or after each other; it is one signal.
        for pid in pids(parent):
            os.kill(pid, signal.SIGTERM)
        parent.signal(signal.SIGTERM)
        await stage.printed(parent, "stopping 2 processes within 30 s; Ctrl-C again stops now")
        for pid in pids(parent):
            os.kill(pid, signal.SIGTERM)
        stage.open_gate()

        assert await parent.ended() == 0
        assert {(await client.get(receipt)).state.value for receipt in receipts} == {"succeeded"}
        assert (await check(stage, client)).released == 0
    assert [line["code"] for line in told(parent, "ended")] == [0, 0]
    assert parent.stderr.endswith("stopped\n")


async def test_the_second_signal_gives_everything_back_at_once(stage: Stage) -> None:
    parent = await fleet(stage, "--concurrency", "2")
    async with stage.client() as client:
        receipts = await client.submit_many([Submission(hold, {"gate": stage.gate()}, user=f"u{n}") for n in range(4)])
        for receipt in receipts:
            await stage.started(receipt.run_id)

        parent.signal(signal.SIGINT)
        await stage.printed(parent, "stopping 2 processes")
        parent.signal(signal.SIGINT)

        assert await parent.ended(within=20) == 0
        runs = [await client.get(receipt) for receipt in receipts]
        assert {(run.state.value, run.attempt, run.crashes) for run in runs} == {("pending", 1, 0)}


async def test_the_exit_code_is_1_if_a_worker_leaves_something_behind(stage: Stage) -> None:
    parent = await fleet(stage)
    async with stage.client() as client:
        receipt = await client.submit(hold_in_thread, {"gate": stage.gate()})
        await stage.started(receipt.run_id)

        parent.signal(signal.SIGTERM)
        await stage.printed(parent, "stopping 2 processes")
        parent.signal(signal.SIGTERM)

        assert await parent.ended(within=20) == 1
    assert sorted(line["code"] for line in told(parent, "ended")) == [0, 1]
    assert [line["left"] for line in told(parent, "stopped") if line["left"]] == [[receipt.run_id]]


async def test_a_third_signal_kills_what_is_left(stage: Stage) -> None:
    parent = await fleet(stage)
    workers = pids(parent)
    async with stage.client() as client:
        receipt = await client.submit(block, {"takes": 60})
        await stage.started(receipt.run_id)
        for _ in range(3):
            parent.signal(signal.SIGTERM)
            await until(lambda: "stopping 2 processes" in parent.stderr, "it heeds the signal")

        assert await parent.ended(within=20) in (1, 128 + signal.SIGTERM)
    assert not any(map(is_running, workers))


async def test_a_parent_killed_with_9_leaves_no_workers(stage: Stage) -> None:
    parent = await fleet(stage, "--concurrency", "2")
    workers = pids(parent)
    async with stage.client() as client:
        receipt = await client.submit(hold, {"gate": stage.gate()})
        await stage.started(receipt.run_id)

        parent.kill()
        stage.open_gate()
        await until(lambda: not any(map(is_running, workers)), "they are gone")

        # They ended in order: nothing was charged, nothing lost.
        run = await client.get(receipt)
        assert (run.state.value, run.fence, run.crashes) == ("succeeded", 1, 0)


async def test_an_error_of_set_up_ends_the_fleet_with_its_code(stage: Stage) -> None:
    stage.file.write_text("this is no database, and long enough to be sure of it" * 100)

    parent = stage.laneway("worker", APP, "--json", "--processes", "2")

    assert await parent.ended() == 6
    assert "none was ever ready: the fleet stops" in parent.stderr
    assert "Traceback" not in parent.stderr


async def test_after_so_many_attempts_a_worker_is_replaced_and_nothing_is_lost(stage: Stage) -> None:
    parent = await fleet(stage, "--concurrency", "4", "--max-tasks", "20")
    async with stage.client() as client:
        await client.submit_many([Submission(stroll, {"takes": 0.01}, user=f"u{n % 7}") for n in range(100)])

        await stage.drained(client)
        await until(lambda: len(told(parent, "ended")) >= 3, "workers had their share")
        parent.signal(signal.SIGTERM)

        assert await parent.ended() == 0
        figures = await check(stage, client)
    assert (figures.runs, figures.failed, figures.twice, figures.taken_over, figures.released) == (100, 0, 0, 0, 0)
    assert {line["code"] for line in told(parent, "ended")} == {0}
    assert len(told(parent, "started")) >= 5
    assert "ended with 0" in parent.stderr


async def test_a_worker_alone_ends_with_0_after_so_many_attempts(stage: Stage) -> None:
    async with stage.client() as client:
        await client.submit_many([Submission(stroll, {"takes": 0.01}) for _ in range(5)])
        worker = stage.laneway("worker", APP, "--json", "--max-tasks", "3")

        assert await worker.ended() == 0
        assert (await (await client.open()).depths()).runs == {"succeeded": 3, "pending": 2}


async def test_one_exclusive_daemon_per_store(stage: Stage) -> None:
    first = stage.laneway("worker", APP, "--json", "--exclusive")
    await stage.printed(first, '"event":"ready"')
    name, other = stage.url, stage.folder / "by-another-name.db"
    other.symlink_to(stage.file)

    stage.url = f"sqlite:///{other}"
    second = stage.laneway("worker", APP, "--exclusive", "--processes", "2")
    assert await second.ended() == 5
    assert (
        f"is held by process {first.pid} (or what it left behind), which was started with --exclusive" in second.stderr
    )

    stage.url = name
    beside = await stage.laneway_worker()  # one that does not ask for it is not concerned
    first.kill()
    third = stage.laneway("worker", APP, "--json", "--exclusive")
    await stage.printed(third, '"event":"ready"')
    await stage.stop(third, beside)


async def test_the_workers_of_a_dead_parent_keep_its_exclusive_hold(stage: Stage) -> None:
    parent = await fleet(stage, "--exclusive", processes=1)
    [worker] = pids(parent)
    async with stage.client() as client:
        receipt = await client.submit(hold, {"gate": stage.gate()})
        await stage.started(receipt.run_id)

        parent.kill()
        refused = stage.laneway("worker", APP, "--exclusive")
        assert await refused.ended() == 5
        stage.open_gate()
        await until(lambda: not is_running(worker), "it is gone")

        heir = stage.laneway("worker", APP, "--json", "--exclusive")
        await stage.printed(heir, '"event":"ready"')
        await stage.stop(heir)


@pytest.mark.parametrize("processes", [None, 2])
async def test_systemd_is_told_when_all_are_ready_and_when_they_stop(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, processes: int | None
) -> None:
    path = stage.sockets / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        options = [] if processes is None else ["--processes", str(processes)]

        worker = stage.laneway("worker", APP, "--json", *options)
        assert systemd.recv(100) == b"READY=1"
        assert len(told(worker, "ready")) >= 1
        worker.signal(signal.SIGTERM)

        assert systemd.recv(100) == b"STOPPING=1"
        assert await worker.ended() == 0
        systemd.settimeout(0)
        with pytest.raises(BlockingIOError):
            systemd.recv(100)


async def test_a_store_in_memory_has_no_fleet(stage: Stage) -> None:
    (stage.folder / "shelf.py").write_text("from laneway import Scheduler\napp = Scheduler('memory://')\n")

    worker = stage.laneway("worker", "shelf:app", "--processes", "2")

    assert await worker.ended() == 2
    assert worker.stderr.startswith("laneway: memory:// lives inside one process")
