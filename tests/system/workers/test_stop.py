"""Stopping a worker by the real command line: it gives its runs back, without a charge and in time."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from laneway.core.records.events import LAPSED, RELEASED
from tests.system.harness.forms import LONG, report, time_limit
from tests.system.harness.stage import Stage, locked
from tests.system.harness.until import until
from tests.system.load.app import hold, hold_in_thread
from tests.system.oracle.check import check
from tests.system.oracle.journal import Ended, Ending

pytestmark = [pytest.mark.system, time_limit()]

# A worker waits for its handlers as long as the grace leaves of the 30 s for stopping: a long grace is a short wait.
PATIENCE = {} if LONG else {"grace": 27}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_told_to_stop_gives_its_runs_back_uncharged(stage: Stage, number: signal.Signals) -> None:
    worker = await stage.laneway_worker(**PATIENCE)
    async with stage.client() as client:
        runs = [await client.submit(hold, {"gate": stage.gate()}) for _ in range(5)]
        for run in runs:
            await stage.started(run.run_id)

        began = time.monotonic()
        worker.signal(number)
        code = await worker.ended(within=40)
        took = time.monotonic() - began

        report(f"ended {took:.1f} s after {number.name}")
        assert code == 0
        assert {line.how for line in stage.journal.of(Ended)} == {Ending.STOPPED}
        for run in runs:
            given_back = await client.get(run)
            facts = (given_back.state.value, given_back.attempt, given_back.crashes, given_back.fence)
            assert facts == ("pending", 1, 0, 1)
        await _others_finish(stage, released=len(runs))


async def test_a_second_signal_stops_at_once(stage: Stage) -> None:
    worker = await stage.laneway_worker()
    async with stage.client() as client:
        run = await client.submit(hold, {"gate": stage.gate()})
        await stage.started(run.run_id)

        began = time.monotonic()
        worker.signal(signal.SIGINT)
        await stage.printed(worker, "stopping: 1 run")
        worker.signal(signal.SIGINT)
        code = await worker.ended(within=20)  # its handler keeps it 30 s otherwise
        took = time.monotonic() - began

    report(f"ended {took:.1f} s after the first signal")
    assert code == 0
    await _others_finish(stage, released=1)


async def test_a_handler_that_cannot_be_stopped_does_not_keep_its_worker_from_ending(stage: Stage) -> None:
    worker = await stage.laneway_worker(**PATIENCE)
    async with stage.client() as client:
        thread = await client.submit(hold_in_thread, {"gate": stage.gate()})
        stoppable = await client.submit(hold, {"gate": stage.gate()})
        for run in (thread, stoppable):
            await stage.started(run.run_id)

        worker.signal(signal.SIGTERM)
        await stage.printed(worker, "stopping: 2 runs")
        worker.signal(signal.SIGTERM)
        code = await worker.ended(within=40)
        worker.write_death()  # its thread went on until the process ended

        assert code == 1
        heir = await stage.laneway_worker()
        await stage.started(thread.run_id, fence=2)
        stage.open_gate()
        await stage.drained(client)
        await stage.stop(heir)
        left, given_back = await client.get(thread), await client.get(stoppable)
        assert (left.fence, left.attempt, [e.kind async for e in client.events(thread)].count(LAPSED)) == (2, 1, 1)
        assert [e.kind async for e in client.events(stoppable)].count(RELEASED) == 1
        assert (given_back.attempt, given_back.crashes) == (1, 0)
        await check(stage, client)


async def test_a_worker_told_to_stop_while_the_store_is_locked_still_gives_its_runs_back(stage: Stage) -> None:
    worker = await stage.laneway_worker(**PATIENCE)
    async with stage.client() as client:
        run = await client.submit(hold, {"gate": stage.gate()})
        await stage.started(run.run_id)

        with locked(stage.file):
            worker.signal(signal.SIGTERM)
            await until(lambda: len(stage.journal.of(Ended)) == 1, "the handler is stopped")
            # Longer than one call waits for the lock, shorter than the worker has left.
            await asyncio.sleep(6)
        code = await worker.ended(within=40)

        assert code == 0
        given_back = await client.get(run)
        assert (given_back.state.value, given_back.attempt, given_back.crashes) == ("pending", 1, 0)
    await _others_finish(stage, released=1)


async def _others_finish(stage: Stage, *, released: int) -> None:
    heir = await stage.laneway_worker()
    stage.open_gate()
    async with stage.client() as client:
        await stage.drained(client)
        await stage.stop(heir)
        figures = await check(stage, client)
    assert (figures.released, figures.taken_over, figures.failed) == (released, 0, 0)
