"""Several workers and several producers, each a process, on one file."""

from __future__ import annotations

import pytest

from laneway import Submission
from tests.support.invariants import all_runs
from tests.system.harness.forms import report, seeded, sized, time_limit
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import LANES, hold
from tests.system.oracle.check import check
from tests.system.oracle.grouped import grouped
from tests.system.oracle.journal import Accepted, Started, Unanswered

pytestmark = pytest.mark.system


@time_limit()
@pytest.mark.parametrize("workers", [2, 3])
async def test_workers_share_one_file_and_keep_every_limit(stage: Stage, workers: int) -> None:
    random, count = seeded(), sized(150, 5000)
    full = sum(lane.limit for lane in LANES)
    # As many as fill the lanes together, and one less of them would not: so each of them has something to do.
    fleet = [stage.worker(concurrency=-(-full // workers)) for _ in range(workers)]
    await stage.ready(*fleet)
    async with stage.client() as client:
        # Enough to fill every lane at first: so the limits are what holds runs back.
        filling = [
            Submission(hold, {"gate": stage.gate()}, lane=lane.name, user=user)
            for lane in LANES
            for user in "abcdef" * 3
        ]
        await client.submit_many(filling)
        await until(lambda: len(stage.journal.of(Started)) == full, "the lanes are full")

        producers = [stage.producer(seed=random.randrange(1000), count=count) for _ in range(2)]
        for producer in producers:
            assert await producer.ended(within=sized(30, 600)) == 0
        assert len(stage.journal.of(Started)) == full
        stage.open_gate()

        await stage.drained(client, within=sized(60, 600))
        await stage.stop(*fleet)
        figures = await check(stage, client)
    report(f"attempts {dict(figures.by_process)}, at once {figures.peaks}")
    assert set(figures.by_process) == {worker.name for worker in fleet}
    assert figures.peaks == {lane.name: lane.limit for lane in LANES}
    assert figures.runs == 2 * count + len(filling)
    assert (figures.taken_over, figures.failed, figures.twice) == (0, 0, 0)


@time_limit()
async def test_calls_whose_replies_are_lost_are_repeated_and_nothing_doubles(stage: Stage) -> None:
    random, count = seeded(), sized(100, 3000)
    fleet = [stage.worker(concurrency=8, lossy=0.1) for _ in range(2)]
    await stage.ready(*fleet)

    producers = [stage.producer(seed=random.randrange(1000), count=count, lossy=0.2) for _ in range(2)]
    for producer in producers:
        assert await producer.ended(within=sized(60, 600)) == 0

    async with stage.client() as client:
        await stage.drained(client, within=sized(60, 600))
        await stage.stop(*fleet)
        figures = await check(stage, client)
    accepted, unsure = stage.journal.of(Accepted), stage.journal.of(Unanswered)
    report(f"{len(accepted)} acknowledged, {len(unsure)} unsure, {figures.runs} there")
    assert len({line.run for line in accepted}) == len(accepted) == 2 * count - len(unsure)
    assert len(accepted) <= figures.runs <= 2 * count
    assert (figures.taken_over, figures.failed, figures.twice) == (0, 0, 0)


@time_limit()
async def test_a_producer_killed_in_the_middle_of_submits_leaves_what_was_acknowledged(stage: Stage) -> None:
    random, kills, batch = seeded(), sized(8, 150), 20
    for kill in range(kills):
        producer = stage.producer(
            seed=random.randrange(1000), count=5000, batch=batch if kill % 2 else 0, pause=0.01, longest=0.01
        )
        await stage.submitting(producer)
        await stage.progress(random, 60)
        producer.kill()

    worker = stage.worker(concurrency=20)
    async with stage.client() as client:
        await stage.drained(client, within=sized(60, 900))
        await stage.stop(worker)
        figures = await check(stage, client)
        runs = await all_runs(await client.open())
    batches = grouped((run for run in runs if "batch" in (run.user or "")), lambda run: run.user)
    accepted = len(stage.journal.of(Accepted))
    report(f"{accepted} acknowledged, {figures.runs} there; {len(batches)} batches, all whole")
    assert {len(of_batch) for of_batch in batches.values()} == {batch}
    assert accepted <= figures.runs
