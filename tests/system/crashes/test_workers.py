"""Kill -9 of workers at any point: nothing is lost, no slot stays taken, no run is executed twice at once."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from laneway import RunFailed, Submission
from laneway.core.records.events import LAPSED
from tests.system.harness.forms import on_redis_in_chaos, report, seeded, sized, time_limit
from tests.system.harness.process import kill_all
from tests.system.harness.stage import Stage
from tests.system.load.app import linger, poison, stroll
from tests.system.load.mixed_load import load
from tests.system.oracle.check import check, damage
from tests.system.oracle.journal import Accepted

pytestmark = pytest.mark.system


@on_redis_in_chaos
@time_limit()
async def test_workers_killed_at_random_points_lose_nothing(stage: Stage) -> None:
    random, kills = seeded(), sized(12, 400)
    async with stage.client() as client:
        await client.submit_many(load(random, 20 * kills, longest=0.1))

        await _kill_and_replace(stage, random, kills)
        await stage.drained(client, within=sized(60, 600))
        await stage.stop(*stage.living())

        figures = await check(stage, client)
    assert figures.kills == kills
    assert figures.failed == 0


async def _kill_and_replace(stage: Stage, random: Random, kills: int) -> None:
    workers = [stage.worker(concurrency=8), stage.worker(concurrency=8)]
    await stage.ready(*workers)
    for _ in range(kills):
        await stage.progress(random, 40)
        workers.pop(random.randrange(len(workers))).kill()
        workers.append(stage.worker(concurrency=8))


@time_limit()
async def test_all_processes_killed_at_one_blow_leave_a_whole_file(stage: Stage) -> None:
    random, cuts = seeded(), sized(5, 60)
    logs_left = 0

    for cut in range(cuts):
        workers = [stage.worker(concurrency=8), stage.worker(concurrency=8)]
        producer = stage.producer(seed=random.randrange(1000), count=5000, pause=0.01, longest=0.02)
        await stage.ready(*workers)
        await stage.submitting(producer)
        await stage.progress(random, 200)
        kill_all(stage.living())
        logs_left += stage.write_ahead_log().stat().st_size > 0
        if cut % 2:
            # What a power cut leaves in the middle of a write: a frame that is not whole.
            with stage.write_ahead_log().open("ab") as log:
                log.write(random.randbytes(random.randrange(1, 6000)))
        assert damage(stage.file) == []

    heir = stage.worker(concurrency=20)
    async with stage.client() as client:
        took = await stage.drained(client, within=sized(60, 600))
        await stage.stop(heir)
        figures = await check(stage, client)
    acknowledged = len(stage.journal.of(Accepted))
    report(f"{cuts} cuts, {logs_left} logs left to replay, {acknowledged} acknowledged, drained in {took:.1f} s")
    assert figures.failed == 0
    assert acknowledged > 0
    assert logs_left > 0


async def test_a_run_that_kills_its_workers_is_quarantined_and_the_others_finish(stage: Stage) -> None:
    async with stage.client() as client:
        before = await client.submit_many([(stroll, {})] * 20)
        poisoned = await client.submit(poison)
        after = await client.submit_many([(stroll, {})] * 20)

        # Someone always restarts the worker, as a supervisor would.
        for _ in range(3):
            worker = stage.worker(concurrency=4)
            await worker.ended()
        last = stage.worker(concurrency=4)
        await stage.drained(client)
        await stage.stop(last)

        with pytest.raises(RunFailed) as failed:
            await client.result(poisoned)
        assert failed.value.reason == "quarantined"
        run = await client.get(poisoned)
        assert (run.attempt, run.crashes, run.fence) == (1, 3, 3)
        assert [event.kind async for event in client.events(poisoned)].count(LAPSED) == 3
        assert {(await client.get(one)).state.value for one in (*before, *after)} == {"succeeded"}
        await check(stage, client)


@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_a_poison_run_does_not_take_its_neighbours_with_it(stage: Stage) -> None:
    async with stage.client() as client:
        neighbours = await client.submit_many([Submission(linger, {"takes": 1.0})] * 3)
        poisoned = await client.submit(poison)
        runs = [*neighbours, poisoned]

        # All of them are executed when it kills their worker, each time; one on its last chance may have to wait for
        # another one, which takes longer each time, so the number of workers is not known beforehand.
        workers = [stage.worker(concurrency=4)]
        while not all([(await client.get(run)).ended for run in runs]):
            await asyncio.sleep(0.2)
            if not workers[-1].alive:
                workers.append(stage.worker(concurrency=4))
        await stage.stop(workers[-1])

        assert {(await client.get(run)).state.value for run in neighbours} == {"succeeded"}
        assert (await client.get(poisoned)).reason == "quarantined"
        assert len(workers) == 4
