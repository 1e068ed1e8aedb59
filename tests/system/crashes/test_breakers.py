"""Breakers across processes: failures are counted together, and one run of one process is tried."""

from __future__ import annotations

import pytest

from laneway import Scheduler
from laneway.core.records.breakers import Phase
from tests.system.harness.forms import report, time_limit
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import knock
from tests.system.oracle.check import check
from tests.system.oracle.journal import Started

pytestmark = [pytest.mark.system, time_limit()]

RUNS, FAILURES, PROCESSES = 40, 6, 3


async def test_processes_on_one_file_count_failures_together_and_try_one_run(stage: Stage) -> None:
    workers = [stage.worker(concurrency=1) for _ in range(PROCESSES)]
    await stage.ready(*workers)
    async with stage.client() as client:
        await client.submit_many([(knock, {"gate": stage.gate()}) for _ in range(RUNS)])
        await until(lambda: _is_open(client, FAILURES), "the breaker is open, and all has come to rest")
        before = stage.journal.of(Started)
        await until(lambda: _is_open(client, FAILURES + 1), "one run was tried, and failed")
        tried = len(stage.journal.of(Started)) - len(before)
        stage.open_gate()
        await stage.drained(client)
        await stage.stop(*workers)
        await check(stage, client)
        counts = (await (await client.open()).depths()).runs
        left = [state.circuits for state in await client.tasks.list() if state.circuits]

    report(f"{len(before)} starts by {len({line.process for line in before})} processes until nothing started any more")
    # Those that were under way when the last of them failed.
    assert FAILURES <= len(before) < FAILURES + PROCESSES
    assert len({line.process for line in before}) > 1
    assert tried == 1
    assert counts == {"failed": len(before) + 1, "succeeded": RUNS - len(before) - 1}
    assert left == []


async def test_a_probe_whose_process_is_killed_is_followed_by_another(stage: Stage) -> None:
    first = stage.worker(concurrency=1)
    await stage.ready(first)
    async with stage.client() as client:
        await client.submit_many([(knock, {"gate": stage.gate()}) for _ in range(RUNS)])
        await until(lambda: _is_open(client, FAILURES), "the breaker is open")
        stage.open_gate("gate.stay")
        await until(lambda: len(stage.journal.of(Started)) == FAILURES + 1, "one run is tried")
        first.kill()
        second = stage.worker()
        await stage.ready(second)
        await until(lambda: _is_open(client, FAILURES + 1), "its death is counted")
        (stage.folder / "gate.stay").unlink()
        stage.open_gate()
        await stage.drained(client)
        await stage.stop(second)
        await check(stage, client)
        counts = (await (await client.open()).depths()).runs

    assert counts == {"failed": FAILURES, "succeeded": RUNS - FAILURES}


async def _is_open(client: Scheduler, failures: int) -> bool:
    """Tell whether the breaker stands open after so many failures, and nothing runs."""
    found = [circuit for state in await client.tasks.list() for circuit in state.circuits]
    resting = not (await (await client.open()).depths()).runs.get("running")
    return resting and [(one.phase, one.failures) for one in found] == [(Phase.OPEN, failures)]
