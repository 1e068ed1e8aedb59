"""Workers on a PostgreSQL server that is killed, frozen or cut off: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from laneway import StoreUnavailable
from laneway.testing.servers import postgres_server
from tests.system.faults.postgres_proxy import postgres_proxy_to
from tests.system.harness.forms import LONG, SHORT_LEASE, report, seeded, sized, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.load.app import hold, hold_in_thread, stroll
from tests.system.oracle.check import check
from tests.system.oracle.journal import Accepted, Ended, Ending, Unanswered

pytestmark = [pytest.mark.system, time_limit(short=180)]

HASTY = "?timeout=1"  # so that calls to a frozen server end soon


async def _fleet(stage: Stage, size: int = 2, **settings: float) -> list[Process]:
    workers = [stage.worker(concurrency=8, **settings) for _ in range(size)]
    await stage.ready(*workers)
    return workers


def _producer(stage: Stage, random: Random, count: int) -> Process:
    return stage.producer(seed=random.randrange(1000), count=count, pause=0.02, longest=0.05)


async def test_a_server_killed_under_load_loses_and_doubles_nothing(stage: Stage) -> None:
    random, kills = seeded(), sized(3, 60)
    with postgres_server(fsync=True) as server:
        stage.url = server.url
        fleet, producer = await _fleet(stage), _producer(stage, random, 80 * kills)
        await stage.submitting(producer)
        for _ in range(kills):
            await stage.progress(random, 100)
            server.kill()
            server.restart()
        assert await producer.ended(sized(90, 600)) == 0
        async with stage.client() as client:
            took = await stage.drained(client, within=sized(90, 600))
            await stage.stop(*fleet)
            figures = await check(stage, client)
    acknowledged, unsure = len(stage.journal.of(Accepted)), len(stage.journal.of(Unanswered))
    report(f"{kills} kills of the server, {acknowledged} acknowledged, {unsure} unsure; drained in {took:.1f} s")
    assert (figures.failed, figures.taken_over, figures.twice, unsure) == (0, 0, 0, 0)
    assert acknowledged == figures.runs == 80 * kills


@pytest.mark.parametrize("seconds", [pytest.param(60, marks=pytest.mark.chaos)] if LONG else [10])
async def test_nobody_loses_a_lease_to_a_server_that_stands_still(stage: Stage, seconds: float) -> None:
    # In both forms a lease is shorter than the time for which the server is frozen.
    lease = {} if LONG else SHORT_LEASE
    with postgres_server() as server:
        stage.url = server.url + HASTY
        fleet = await _fleet(stage, **lease)
        async with stage.client() as client:
            held = [await client.submit(task, {"gate": stage.gate()}) for task in (hold, hold_in_thread) * 4]
            for receipt in held:
                await stage.started(receipt.run_id)

            server.freeze()
            submitting = asyncio.create_task(client.submit_many([(stroll, {})] * 10))
            await asyncio.sleep(seconds)
            server.thaw()
            [answer] = await asyncio.gather(submitting, return_exceptions=True)
            await client.submit_many([(stroll, {})] * 10)
            took = await stage.drained(client, but=len(held))
            stage.open_gate()
            await stage.drained(client)

            await stage.stop(*fleet)
            figures = await check(stage, client)
            fences = {(await client.get(receipt)).fence for receipt in held}
    # A call that is given up before its COMMIT was sent has done nothing; after that, nobody knows.
    given_up = isinstance(answer, StoreUnavailable)
    unsure = isinstance(answer, StoreUnavailable) and answer.maybe_done
    fate = "answered late" if not given_up else "given up, and maybe done" if unsure else "given up, and not done"
    report(f"stood still for {seconds} s; drained {took:.1f} s later; a submission meanwhile was {fate}")
    assert given_up or isinstance(answer, list), answer
    assert figures.runs - len(held) in ((10, 20) if unsure else (10,) if given_up else (20,))
    assert fences == {1}
    assert (figures.taken_over, figures.twice) == (0, 0)
    assert {line.how for line in stage.journal.of(Ended)} == {Ending.RETURNED}


async def test_lines_cut_at_random_and_workers_killed_lose_nothing(stage: Stage) -> None:
    random, kills = seeded(), sized(3, 60)
    with postgres_server() as server, postgres_proxy_to(server.port, random) as proxy:
        stage.url = proxy.url_of("postgres")
        fleet, producer = await _fleet(stage), _producer(stage, random, 80 * kills)
        await stage.submitting(producer)
        proxy.chance = 0.08
        for _ in range(kills):
            await stage.progress(random, 100)
            fleet.pop(random.randrange(2)).kill()
            fleet.append(stage.worker(concurrency=8))
        assert await producer.ended(sized(120, 600)) == 0
        stage.url = server.url  # this process does not repeat its calls
        async with stage.client() as client:
            await stage.drained(client, within=sized(90, 600))
            proxy.chance = 0
            await stage.stop(*fleet)
            figures = await check(stage, client)
    report(f"{proxy.cuts} of {proxy.calls} transactions cut off")
    assert (figures.failed, figures.kills) == (0, kills)
    assert figures.runs == 80 * kills
    assert proxy.cuts > 2 * kills  # the busier the machine, the fewer transactions do it all
