"""Idle workers on a Redis store: what they cost, and how soon they start a new run."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import pytest

from laneway import Scheduler
from laneway.core.records.liveness import RENEW_EVERY
from laneway.testing.servers import valkey_server
from tests.system.faults.proxy import proxy_to
from tests.system.harness.forms import report, sized, time_limit
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import linger
from tests.system.oracle.check import check

pytestmark = [pytest.mark.system, time_limit()]

SECOND = 1_000_000_000


async def test_a_resting_worker_asks_at_most_one_thing_a_second(stage: Stage) -> None:
    workers, seconds = 2, sized(5, 60)
    with valkey_server() as server, proxy_to(server.port) as proxy:
        stage.url = proxy.url
        fleet = [stage.worker() for _ in range(workers)]
        await stage.ready(*fleet)
        async with Scheduler(server.url, lanes=None) as client:
            store = await client.open()
            registered = {one.incarnation.id: one.renewed_at for one in await store.workers()}

            async def all_have_renewed() -> bool:
                since = [one.renewed_at - registered[one.incarnation.id] for one in await store.workers()]
                return min(since) > RENEW_EVERY / 2

            # By then all connections are made, and all scripts known.
            await until(all_have_renewed, "the workers have renewed in their turn")
        before = proxy.requests

        await asyncio.sleep(seconds)

        asked = proxy.requests - before
        await stage.stop(*fleet)
    rate = asked / seconds / workers
    report(f"{rate:.2f} commands a second for each of {workers} resting workers, over {seconds} s")
    assert rate <= 1


async def test_work_starts_at_once_though_the_wake_ups_line_was_cut(stage: Stage) -> None:
    waits = []
    with valkey_server() as server:
        stage.url = server.url
        worker = stage.worker()
        await stage.ready(worker)
        async with stage.client() as client:
            store = await client.open()

            async def everybody_rests() -> bool:
                return all(one.idle for one in await store.workers())

            for _ in range(sized(5, 50)):
                await until(everybody_rests, "the worker rests")
                server.command("CLIENT", "KILL", "TYPE", "pubsub")
                began = time.monotonic_ns()
                receipt = await client.submit(linger, {"takes": 0})
                waits.append((await stage.started(receipt.run_id) - began) / SECOND)
                await client.result(receipt, timeout=10)
            await stage.stop(worker)
            await check(stage, client)
    report(f"started within {median(waits):.2f} s of the cut (median)")
    assert median(waits) < 0.4, "a worker that polls once a second takes 0.5 s"
