"""Workers on a Redis server that is killed, frozen or cut off: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from laneway import StoreUnavailable
from laneway.testing.servers import ValkeyServer, valkey_server
from tests.system.faults.proxy import proxy_to
from tests.system.harness.forms import LONG, SHORT_LEASE, report, seeded, sized, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.load.app import hold, hold_in_thread, linger, stroll
from tests.system.oracle.check import check, check_after_loss
from tests.system.oracle.journal import Accepted, Ended, Ending, Unanswered

pytestmark = [pytest.mark.system, time_limit()]

SYNCED = {"appendonly": "yes", "appendfsync": "always"}
BY_THE_SECOND = {"appendonly": "yes", "appendfsync": "everysec"}
HASTY = "?timeout=0.5"  # so that calls to a frozen server end soon


async def _fleet(stage: Stage, size: int = 2, **settings: float) -> list[Process]:
    workers = [stage.worker(concurrency=8, **settings) for _ in range(size)]
    await stage.ready(*workers)
    return workers


def _producer(stage: Stage, random: Random, count: int) -> Process:
    return stage.producer(seed=random.randrange(1000), count=count, pause=0.02, longest=0.05)


async def test_a_server_killed_under_load_loses_nothing_that_it_has_synced(stage: Stage) -> None:
    random, kills = seeded(), sized(3, 60)
    with valkey_server(config=SYNCED) as server:
        stage.url = server.url
        fleet, producer = await _fleet(stage), _producer(stage, random, 100 * kills)
        await stage.submitting(producer)
        for _ in range(kills):
            await stage.progress(random, 100)
            server.kill()
            server.restart()
        assert await producer.ended(sized(60, 600)) == 0
        async with stage.client() as client:
            took = await stage.drained(client, within=sized(60, 600))
            await stage.stop(*fleet)
            figures = await check(stage, client)
    acknowledged, unsure = len(stage.journal.of(Accepted)), len(stage.journal.of(Unanswered))
    report(f"{kills} kills of the server, {acknowledged} acknowledged, {unsure} unsure; drained in {took:.1f} s")
    assert (figures.failed, figures.taken_over, figures.twice, unsure) == (0, 0, 0, 0)
    assert acknowledged == figures.runs == 100 * kills


async def test_a_power_cut_takes_the_last_moment_with_it_and_leaves_the_rest_whole(stage: Stage) -> None:
    """A server that syncs once a second may lose the last second or two in a power cut.

    Then runs are gone that somebody has a receipt of, and what was executed in that moment is executed again. What is
    left agrees with itself, comes to its end, and no lease is executed twice at once.
    """
    random, cuts = seeded(), sized(2, 40)
    with valkey_server(config=BY_THE_SECOND) as server:
        stage.url = server.url
        fleet, producer = await _fleet(stage), _producer(stage, random, 150 * cuts)
        await stage.submitting(producer)
        lost = 0
        for _ in range(cuts):
            await stage.progress(random, 100)
            server.kill()
            lost += _lose_the_end(server, random)
            server.restart()
        assert await producer.ended(sized(60, 600)) == 0
        async with stage.client() as client:
            await stage.drained(client, within=sized(60, 600))
            # New runs are executed as always.
            for receipt in await client.submit_many([(linger, {"takes": 0})] * 10):
                await client.result(receipt, timeout=20)
            await stage.stop(*fleet)
            gone = await check_after_loss(stage, client)
    report(f"{cuts} power cuts, {lost} bytes of the log lost; {gone} acknowledged runs gone")


def _lose_the_end(server: ValkeyServer, random: Random) -> int:
    """Cut off the end of the server's log, as if it had not reached the disk; return how many bytes."""
    [log] = Path(server.directory, "appendonlydir").glob("*.incr.aof")
    lost = min(random.randrange(1, 100_000), log.stat().st_size // 2)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - lost)
    return lost


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(10, marks=pytest.mark.chaos), pytest.param(60, marks=pytest.mark.chaos)]
    if LONG
    else [pytest.param(5, id="longer than a lease")],
)
async def test_nobody_loses_a_lease_to_a_server_that_stands_still(stage: Stage, seconds: float) -> None:
    lease = {} if LONG else SHORT_LEASE
    with valkey_server() as server:
        stage.url = server.url + HASTY
        fleet = await _fleet(stage, **lease)
        async with stage.client() as client:
            held = [await client.submit(task, {"gate": stage.gate()}) for task in (hold, hold_in_thread) * 4]
            for receipt in held:
                await stage.started(receipt.run_id)

            server.stop()
            submitting = asyncio.create_task(client.submit_many([(stroll, {})] * 10))
            await asyncio.sleep(seconds)
            server.cont()
            [answer] = await asyncio.gather(submitting, return_exceptions=True)
            await client.submit_many([(stroll, {})] * 10)
            took = await stage.drained(client, but=len(held))
            stage.open_gate()
            await stage.drained(client)

            await stage.stop(*fleet)
            figures = await check(stage, client)
            fences = {(await client.get(receipt)).fence for receipt in held}
    # A call is given up after some seconds. It may have been done: the server finds it in its socket when it goes on.
    given_up = isinstance(answer, StoreUnavailable) and answer.maybe_done
    fate = "given up" if given_up else "answered late"
    report(f"stood still for {seconds} s; drained {took:.1f} s later; a submission meanwhile was {fate}")
    assert given_up or isinstance(answer, list)
    assert given_up == (seconds > 12)
    assert figures.runs - len(held) in ((10, 20) if given_up else (20,))
    assert fences == {1}
    assert (figures.taken_over, figures.twice) == (0, 0)
    assert {line.how for line in stage.journal.of(Ended)} == {Ending.RETURNED}


async def test_lines_cut_at_random_and_workers_killed_lose_nothing(stage: Stage) -> None:
    random, kills = seeded(), sized(3, 60)
    with valkey_server() as server, proxy_to(server.port, random) as proxy:
        stage.url = proxy.url
        fleet, producer = await _fleet(stage), _producer(stage, random, 100 * kills)
        await stage.submitting(producer)
        proxy.chance = 0.05
        for _ in range(kills):
            await stage.progress(random, 100)
            fleet.pop(random.randrange(2)).kill()
            fleet.append(stage.worker(concurrency=8))
        assert await producer.ended(sized(60, 600)) == 0
        stage.url = server.url  # this process does not repeat its calls
        async with stage.client() as client:
            await stage.drained(client, within=sized(60, 600))
            proxy.chance = 0
            await stage.stop(*fleet)
            figures = await check(stage, client)
    report(f"{proxy.cuts} of {proxy.calls} calls cut off")
    assert (figures.failed, figures.kills) == (0, kills)
    assert figures.runs == 100 * kills
    assert proxy.cuts > 10
