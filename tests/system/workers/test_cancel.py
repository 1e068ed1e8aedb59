"""Cancel across processes: how long until a handler in another process has stopped and its caller knows."""

from __future__ import annotations

import time

import pytest

from laneway.core.records.states import RunState
from tests.support.stoppable_handlers import Notes
from tests.system.harness.forms import report, time_limit
from tests.system.harness.stage import Stage, add_tasks
from tests.system.harness.until import until
from tests.system.load.kinds_app import app

pytestmark = pytest.mark.system

SAMPLES = 50


@time_limit()
async def test_a_handler_in_another_process_is_cancelled_without_polling(stage: Stage) -> None:
    notes = Notes(stage.folder)
    async with stage.client() as client:
        add_tasks(client, app)
        worker = await stage.laneway_worker("tests.system.load.kinds_app:app")

        async def cancelled() -> float:
            receipt = await client.submit("async", {"folder": str(stage.folder)})
            await until(lambda: notes.begun(receipt.run_id), "the handler begins")
            began = time.perf_counter()
            await client.cancel(receipt)
            run = await client.wait(receipt, 30)
            assert run.state is RunState.CANCELLED
            return time.perf_counter() - began

        took = sorted([await cancelled() for _ in range(SAMPLES)])
        p50, p99 = took[SAMPLES // 2] * 1000, took[-1] * 1000
        report(f"cancel across processes: p50 {p50:.1f} ms, p99 {p99:.1f} ms of {SAMPLES}")
        await stage.stop(worker)

    assert p50 < 250, "a worker that polls once a second takes 500 ms"


@time_limit()
async def test_what_a_killed_worker_executed_ends_at_once_although_no_worker_is_up(stage: Stage) -> None:
    notes, names = Notes(stage.folder), ("async", "thread that looks", "process that looks")
    async with stage.client() as client:
        add_tasks(client, app)
        worker = await stage.laneway_worker("tests.system.load.kinds_app:app")
        runs = [(await client.submit(name, {"folder": str(stage.folder)})).run_id for name in names]
        await until(lambda: all(map(notes.begun, runs)), "the handlers begin")
        worker.kill()

        one = await client.cancel(runs[0])
        others = await client.cancel_where(state="running")

        assert (one.state, others) == (RunState.CANCELLED, 2)
        assert {run.state for run in await client.runs()} == {RunState.CANCELLED}
        assert await client.workers.list() == []
