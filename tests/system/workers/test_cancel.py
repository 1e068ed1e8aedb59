"""Cancel across processes: how long until a handler in another process has stopped and its caller knows."""

from __future__ import annotations

import time

import pytest

from laneway.core.records.states import RunState
from tests.support.stoppable_handlers import Notes
from tests.system.harness.forms import report, time_limit
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.kinds_app import app

pytestmark = pytest.mark.system

SAMPLES = 50
PROMISED = 0.2  # seconds: what the 99th percentile stays under
ROUNDS = 3


@time_limit()
async def test_a_handler_in_another_process_is_cancelled_within_milliseconds(stage: Stage) -> None:
    notes = Notes(stage.folder)
    slowest = list[float]()
    async with stage.client() as client:
        client._registry.add(app.tasks.get("async"))
        worker = await stage.laneway_worker("tests.system.load.kinds_app:app")

        async def cancelled() -> float:
            receipt = await client.submit("async", {"folder": str(stage.folder)})
            await until(lambda: notes.begun(receipt.run_id), "the handler begins")
            began = time.perf_counter()
            await client.cancel(receipt)
            run = await client.wait(receipt, 30)
            assert run.state is RunState.CANCELLED
            return time.perf_counter() - began

        # As `make bench` does: the best of three, because others use this machine too.
        while len(slowest) < ROUNDS and min(slowest, default=PROMISED) >= PROMISED:
            took = sorted([await cancelled() for _ in range(SAMPLES)])
            slowest.append(took[-1])
            p50, p99 = took[SAMPLES // 2] * 1000, took[-1] * 1000
            report(f"cancel across processes: p50 {p50:.1f} ms, p99 {p99:.1f} ms of {SAMPLES}")
        await stage.stop(worker)

    assert min(slowest) < PROMISED


@time_limit()
async def test_what_a_killed_worker_executed_ends_at_once_although_no_worker_is_up(stage: Stage) -> None:
    notes, names = Notes(stage.folder), ("async", "thread that looks", "process that looks")
    async with stage.client() as client:
        for name in names:
            client._registry.add(app.tasks.get(name))
        worker = await stage.laneway_worker("tests.system.load.kinds_app:app")
        runs = [(await client.submit(name, {"folder": str(stage.folder)})).run_id for name in names]
        await until(lambda: all(map(notes.begun, runs)), "the handlers begin")
        worker.kill()

        one = await client.cancel(runs[0])
        others = await client.cancel_where(state="running")

        assert (one.state, others) == (RunState.CANCELLED, 2)
        assert {run.state for run in await client.runs()} == {RunState.CANCELLED}
        assert await client.workers.list() == []
