"""A Redis store whose server is replaced under load: the work goes on within seconds, and nothing hangs.

Replication is asynchronous, so what was acknowledged in the last moment may not have reached the new master.
`loss_rules` has what must hold then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from laneway.testing.servers import ValkeyServer, valkey_server
from laneway.testing.servers.endpoint import Endpoint
from laneway.testing.servers.single import HOST
from tests.system.harness.forms import report, seeded, sized, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import linger
from tests.system.oracle.check import check_after_loss
from tests.system.oracle.journal import Started

pytestmark = [pytest.mark.system, time_limit()]

SECRET = "secret"
SOON = 30  # seconds: a worker whose calls fail waits for 5 of them at most, a client for 8; a machine may be busy


async def _under_load(stage: Stage, seed: int) -> tuple[list[Process], Process]:
    fleet = [stage.worker(concurrency=8) for _ in range(2)]
    producer = stage.producer(seed=seed, count=sized(200, 5000), pause=0.02, longest=0.05)
    await stage.ready(*fleet)
    await stage.submitting(producer)
    return fleet, producer


async def _fail_over(stage: Stage, fail_over: Callable[[], object]) -> tuple[float, float]:
    """Kill the master; return the seconds until the servers had another, and those until the work went on then."""
    began = time.monotonic()
    fail_over()
    chosen = time.monotonic()
    before = len(stage.journal.of(Started))
    await until(lambda: len(stage.journal.of(Started)) > before, "the work goes on")
    return chosen - began, time.monotonic() - chosen


def _cut_off_replicas(master: ValkeyServer) -> None:
    """Stop replication: the replicas cannot connect to their master again."""
    master.command("CONFIG", "SET", "requirepass", SECRET)
    Endpoint(HOST, master.port, password=SECRET).ask("CLIENT", "KILL", "TYPE", "replica")


async def _at_rest(stage: Stage, fleet: list[Process], producer: Process) -> int:
    """Wait until all runs have ended, and check them; return how many acknowledged runs are gone."""
    assert await producer.ended(sized(60, 600)) == 0
    async with stage.client() as client:
        await stage.drained(client, within=sized(60, 600))
        for receipt in await client.submit_many([(linger, {"takes": 0})] * 10):
            await client.result(receipt, timeout=20)
        await stage.stop(*fleet)
        return await check_after_loss(stage, client)


@pytest.mark.parametrize(
    "losing", [pytest.param(True, id="behind"), pytest.param(False, id="in step", marks=pytest.mark.chaos)]
)
async def test_sentinels_choose_a_new_master_and_the_work_goes_on(stage: Stage, losing: bool) -> None:
    random = seeded()
    with valkey_server("sentinel") as servers:
        stage.url = servers.url
        fleet, producer = await _under_load(stage, random.randrange(1000))
        took = []
        for _ in range(sized(1, 10)):
            await stage.progress(random, 60)
            if losing:
                _cut_off_replicas(servers.master())
                await stage.progress(random, 30)
            took.append(await _fail_over(stage, servers.fail_over))
            servers.restart()
        gone = await _at_rest(stage, fleet, producer)
    _tell(took, gone)


async def test_a_cluster_promotes_a_replica_and_the_work_goes_on(stage: Stage) -> None:
    random = seeded()
    with valkey_server("cluster") as cluster:
        stage.url = cluster.url
        fleet, producer = await _under_load(stage, random.randrange(1000))
        took = []
        for _ in range(sized(1, 10)):
            await stage.progress(random, 60)
            took.append(await _fail_over(stage, partial(cluster.fail_over, "{default}")))
            cluster.restart()
        gone = await _at_rest(stage, fleet, producer)
    _tell(took, gone)


def _tell(took: Sequence[tuple[float, float]], gone: int) -> None:
    chosen, went_on = map(max, zip(*took, strict=True))
    report(f"another master after {chosen:.1f} s; went on {went_on:.1f} s later; {gone} acknowledged runs gone")
    assert went_on < SOON
