"""Wake-ups instead of polling: how soon an idle worker in another process starts a new run."""

from __future__ import annotations

import shutil
import time
from statistics import median

import pytest

from laneway import Scheduler
from tests.system.harness.forms import report, sized, time_limit
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import linger
from tests.system.oracle.check import check
from tests.system.oracle.journal import Ended

pytestmark = [pytest.mark.system, time_limit()]

MILLISECOND = 1_000_000


async def test_an_idle_worker_of_another_process_is_woken_and_does_not_poll(stage: Stage) -> None:
    worker = stage.worker()
    await stage.ready(worker)
    async with stage.client() as client:
        waits = [await _picked_up(stage, client) for _ in range(sized(20, 200))]
        await stage.stop(worker)
        await check(stage, client)

    report(f"started {median(waits):.1f} ms after submit (median of {len(waits)}; longest {max(waits):.0f} ms)")
    assert median(waits) < 250, "a worker that polls once a second takes 500 ms"


async def test_a_worker_that_cannot_be_woken_polls_each_second(stage: Stage) -> None:
    worker = stage.worker()
    await stage.ready(worker)
    async with stage.client() as client:
        await _picked_up(stage, client)

        for path in stage.sockets.iterdir():
            shutil.rmtree(path)
        waits = [await _picked_up(stage, client) for _ in range(5)]

        await stage.stop(worker)
        await check(stage, client)
    report(f"started {median(waits):.0f} ms after submit (median of {len(waits)}; longest {max(waits):.0f} ms)")
    assert median(waits) < 3000, "the next renewal takes 5 s"


async def _picked_up(stage: Stage, client: Scheduler) -> float:
    """Submit a run to the idle worker; return the milliseconds until its handler began."""
    store = await client.open()

    async def everybody_rests() -> bool:
        return all(worker.idle for worker in await store.workers())

    await until(everybody_rests, "the worker rests")
    submitted_at = time.monotonic_ns()
    # A handler that emits nothing: events are written 50 ms later, and the worker would find the next run then.
    receipt = await client.submit(linger, {"takes": 0})
    began = await stage.started(receipt.run_id)
    await until(lambda: bool(stage.journal.of(Ended, receipt.run_id)), "the run ends")
    return (began - submitted_at) / MILLISECOND
