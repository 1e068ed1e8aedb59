"""A handler that cannot be stopped does not take the fleet down: its worker reports it and ends, its run is freed."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from laneway import Scheduler
from laneway.core.records.events import OVERDUE, RELEASED, RETRYING, STUCK
from laneway.core.records.run import Receipt
from laneway.engine.handlers.task import Task
from tests.system.harness.forms import time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import hold, hold_in_thread, ignore, stroll, swallow
from tests.system.oracle.check import check
from tests.system.oracle.journal import Started

pytestmark = [pytest.mark.system, time_limit()]


def told(worker: Process, event: str) -> list[dict[str, object]]:
    """Return what the worker printed of this event."""
    lines = [json.loads(line) for line in worker.stdout.splitlines()]
    return [line for line in lines if line["event"] == event]


async def kinds(client: Scheduler, run: Receipt) -> list[str]:
    store = await client.open()
    return [event.kind for event in await store.events(run.run_id)]


async def is_logged(client: Scheduler, run: Receipt, kind: str) -> bool:
    return kind in await kinds(client, run)


async def test_a_worker_with_a_stuck_handler_lets_the_others_end_and_makes_room_for_another(stage: Stage) -> None:
    worker = await stage.laneway_worker(grace=0.5, stuck_drain=60)
    async with stage.client() as client:
        stuck = await client.submit(ignore, {"gate": stage.gate("never")})
        neighbour = await client.submit(hold, {"gate": stage.gate()})
        for receipt in (stuck, neighbour):
            await stage.started(receipt.run_id)

        await stage.printed(worker, "takes no new work; 1 run may end within 1 m 00 s")
        late = await client.submit(stroll)
        heir = await stage.laneway_worker(grace=30)
        await client.wait(late, 20)  # the other worker had room
        stage.open_gate()
        code = await worker.ended()
        worker.write_death()  # its thread went on until the process ended

        assert code == 1
        assert (await client.get(neighbour)).state == "succeeded"
        assert [line["run_id"] for line in told(worker, "stuck")] == [stuck.run_id]
        assert told(worker, "stopped")[0]["left"] == [stuck.run_id]
        assert "in ignore\n" in worker.stderr
        assert "they end cancelled, or as timed out, as was decided" in worker.stderr

        await stage.started(stuck.run_id, fence=2)
        stage.open_gate("never")
        await stage.drained(client)
        run = await client.get(stuck)
        assert (run.state, run.fence, run.attempt, run.crashes) == ("succeeded", 2, 2, 0)
        log = [kind for kind in await kinds(client, stuck) if kind in (OVERDUE, STUCK, RETRYING)]
        assert log[:3] == [OVERDUE, STUCK, RETRYING]
        await stage.stop(heir)
        await check(stage, client)


@pytest.mark.parametrize("task", [hold_in_thread, swallow], ids=["thread", "async"])
async def test_a_cancelled_run_that_is_stuck_ends_cancelled_when_its_worker_is_gone(
    stage: Stage, task: Task[..., Any]
) -> None:
    worker = await stage.laneway_worker(grace=0.5, stuck_drain=1)
    async with stage.client() as client:
        stuck = await client.submit(task, {"gate": stage.gate()})
        neighbour = await client.submit(hold, {"gate": stage.gate()})
        for receipt in (stuck, neighbour):
            await stage.started(receipt.run_id)

        asked = await client.cancel(stuck)
        code = await worker.ended()
        worker.write_death()

        assert (asked.state, code) == ("running", 1)
        given_back = await client.get(neighbour)
        assert (given_back.state, given_back.attempt, given_back.crashes) == ("pending", 1, 0)
        assert RELEASED in await kinds(client, neighbour)
        heir = await stage.laneway_worker()
        assert (await client.wait(stuck, 20)).state == "cancelled"
        stage.open_gate()
        await stage.drained(client)
        await stage.stop(heir)
        assert STUCK in await kinds(client, stuck)
        assert len(stage.journal.of(Started, stuck.run_id)) == 1


async def test_a_fleet_replaces_a_worker_whose_handler_is_stuck(stage: Stage) -> None:
    fleet = stage.laneway("worker", "tests.system.load.app:app", "--processes", "1", "--json", grace=0.5, stuck_drain=5)
    async with stage.client() as client:
        stuck = await client.submit(hold_in_thread, {"gate": stage.gate()})
        await stage.started(stuck.run_id)

        await client.cancel(stuck)
        await until(lambda: len(told(fleet, "started")) == 2, "another worker takes its place")

        assert (await client.wait(stuck, 20)).state == "cancelled"
        assert [line["code"] for line in told(fleet, "ended")] == [1]
    fleet.signal(signal.SIGTERM)
    assert await fleet.ended() == 0


async def test_a_signal_during_the_drain_ends_it(stage: Stage) -> None:
    worker = await stage.laneway_worker(grace=0.5, stuck_drain=600)
    async with stage.client() as client:
        stuck = await client.submit(hold_in_thread, {"gate": stage.gate()})
        neighbour = await client.submit(hold, {"gate": stage.gate()})
        for receipt in (stuck, neighbour):
            await stage.started(receipt.run_id)
        await client.cancel(stuck)
        await stage.printed(worker, "takes no new work")
        await until(lambda: is_logged(client, stuck, STUCK), "its log tells that it is stuck")

        shown = stage.laneway("runs", "show", stuck.run_id)
        assert await shown.ended() == 0
        assert "hold_in_thread  ▶ running, cancel requested\n" in shown.stdout
        assert [line.split()[0] for line in shown.stdout.splitlines() if line.endswith("ago)")][3:] == [
            "requested",
            "delivered",
            "stuck",
        ]
        assert ", in hold_in_thread\n" in shown.stdout

        worker.signal(signal.SIGTERM)
        await stage.printed(worker, "stopping: 2 runs")
        worker.signal(signal.SIGTERM)
        code = await worker.ended(within=20)

        assert code == 1
        assert (await client.get(neighbour)).state == "pending"


@pytest.mark.parametrize("task", [hold_in_thread, swallow], ids=["thread", "async"])
async def test_a_handler_whose_run_was_abandoned_does_not_keep_its_worker_from_ending(
    stage: Stage, task: Task[..., Any]
) -> None:
    worker = await stage.laneway_worker()
    async with stage.client() as client:
        run = await client.submit(task, {"gate": stage.gate()})
        await stage.started(run.run_id)

        assert (await client.cancel(run, abandon=True)).state == "cancelled"
        await stage.printed(worker, "is not this worker's any more, taken over or abandoned")
        worker.signal(signal.SIGTERM)

        assert await worker.ended(within=20) == 0
