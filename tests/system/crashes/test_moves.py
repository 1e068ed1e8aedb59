"""A store is moved while producers and workers are at it, and mover and workers are killed: lost 0, doubled 0."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import permutations
from random import Random

import pytest

from laneway.scheduler import place_of
from tests.system.harness.forms import report, seeded, sized, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.oracle.check import check

pytestmark = pytest.mark.system

KINDS = ("sqlite", "redis", "postgres")
RING = {
    ("sqlite", "redis"),
    ("redis", "postgres"),
    ("postgres", "sqlite"),
}  # in the short form, each kind once each way


@dataclass(frozen=True)
class Places:
    """Where a move begins, and where it ends."""

    source: str
    target: str


@pytest.fixture(
    params=[
        pytest.param(pair, id="-to-".join(pair), marks=() if pair in RING else pytest.mark.chaos)
        for pair in permutations(KINDS, 2)
    ]
)
def places(request: pytest.FixtureRequest) -> Places:
    # Before the stage: that has a folder of its own for temporary files, where servers cannot be started.
    servers = {"redis": "redis_url", "postgres": "postgres_place"}
    urls = {kind: request.getfixturevalue(servers[kind]) for kind in request.param if kind in servers}
    stage: Stage = request.getfixturevalue("stage")
    source, target = (urls.get(kind, stage.url) for kind in request.param)
    return Places(source, target)


@time_limit()
async def test_a_store_moves_under_load_with_kills(places: Places, stage: Stage) -> None:
    random, kills = seeded(), sized(1, 12)
    stage.url = places.source
    workers = [await stage.laneway_worker(concurrency=8, lease=3, renew_every=1) for _ in range(2)]
    producer = stage.producer(seed=random.randrange(1000), count=sized(150, 4000), pause=0.005, longest=0.05)
    await stage.submitting(producer)
    await stage.progress(random, 60)

    workers.pop().kill()
    movers = await _moved(stage, places, random, kills)

    assert await producer.ended() == 0
    for worker in workers:
        assert await worker.ended() == 5
        assert f"this store has moved to {place_of(places.target)}; use that address" in worker.stderr

    stage.url = places.target
    later = stage.producer(seed=random.randrange(1000), count=sized(20, 1000), pause=0.005, longest=0.05)
    await stage.laneway_worker(concurrency=8)
    assert await later.ended() == 0
    async with stage.client() as client:
        await stage.drained(client, within=sized(60, 300))
        await stage.stop(*stage.living())
        figures = await check(stage, client)
        assert await (await client.open()).check() == []
    report(f"{movers} movers were killed; {figures}")


async def _moved(stage: Stage, places: Places, random: Random, kills: int) -> int:
    """Move it, with the mover killed at random points, and given up once; return how many were killed."""
    killed = 0
    for nth in range(kills):
        mover = _mover(stage, places)
        await asyncio.sleep(0.3 + random.random() * sized(1, 2))
        if mover.alive:
            mover.kill()
            killed += 1
        if nth == 0:
            # Refused if it was done already, or had not begun.
            assert await stage.laneway("move", places.source, places.target, "--abort").ended() in (0, 5)
    assert await _mover(stage, places).ended(within=90) == 0
    return killed


def _mover(stage: Stage, places: Places) -> Process:
    return stage.laneway("move", places.source, places.target, "--wait", "60")


@time_limit()
async def test_a_move_waits_for_those_who_execute_and_gives_up_in_time(stage: Stage, redis_url: str) -> None:
    worker = await stage.laneway_worker()
    async with stage.client() as client:
        receipt = await client.submit("hold", {"gate": stage.gate()})
        await stage.started(receipt.run_id)

        refused = stage.laneway("move", stage.url, redis_url, "--wait", "0.5")

        assert await refused.ended() == 7
        assert "1 run is still executed in sqlite:///" in refused.stderr
        going_on = stage.laneway("move", stage.url, redis_url)
        await until(lambda: "waiting for runs" in going_on.stderr, "it waits")
        stage.open_gate()
        assert await worker.ended() == 5
        assert await going_on.ended() == 0
        assert (await client.get(receipt)).ended
