"""Followers cut at random points while workers are killed: received equals the log, no gap, no repeat, one `done`."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

from laneway import Event, Receipt, Scheduler
from laneway.core.records.codec import to_dict
from laneway.core.records.events import DONE, LAPSED
from tests.system.harness.forms import SHORT_LEASE, on_both_stores, report, seeded, sized, time_limit
from tests.system.harness.process import Process, kill_all
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import stream

pytestmark = pytest.mark.system

Log = list[dict[str, Any]]
RUNS = 3


@on_both_stores
@time_limit()
async def test_followers_receive_the_log_whatever_is_killed(stage: Stage) -> None:
    random, kills = seeded(), sized(3, 150)
    async with stage.client() as client, stage.client() as other:
        workers = [stage.worker(**SHORT_LEASE), stage.worker(**SHORT_LEASE)]
        await stage.ready(*workers)
        receipts = await client.submit_many([(stream, {"steps": 20 * kills})] * RUNS)
        heard: list[Event] = []
        killing = asyncio.create_task(_kill(workers, stage, random, kills, heard))
        received = [
            *(
                _followed(each, receipt, Random(random.random()), heard)
                for each in (client, client, other)
                for receipt in receipts
            ),
            *(_followed_by_processes(stage, receipt, Random(random.random())) for receipt in receipts[:2]),
        ]
        logs = await asyncio.wait_for(asyncio.gather(*received), sized(90, 800))
        await killing
        stored = [[to_dict(event) async for event in client.events(receipt)] for receipt in receipts]

    runs = [*range(3)] * 3 + [0, 1]
    cuts = sum(found for _, found in logs)
    lapses = sum(event["kind"] == LAPSED for log in stored for event in log)
    report(f"{kills} kills, {lapses} lapses, {cuts} cuts, {sum(map(len, stored))} events")
    assert lapses > 0
    for log in stored:
        assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
        assert [event["kind"] for event in log].count(DONE) == 1
    for run, (log, _) in zip(runs, logs, strict=True):
        assert log == stored[run]


async def _kill(workers: list[Process], stage: Stage, random: Random, kills: int, heard: list[Event]) -> None:
    """Kill workers at random points, all of them at the first, while the runs go on; replace them."""
    for kill in range(kills):
        goal = len(heard) + random.randrange(1, 300)
        await until(partial(_has, heard, goal), "the runs go on")
        if not _goes_on(heard):
            break
        random.shuffle(workers)
        killed = workers[: 1 if kill else 2]
        kill_all(killed)
        workers = [*workers[len(killed) :], *(stage.worker(**SHORT_LEASE) for _ in killed)]


async def _followed(client: Scheduler, run: Receipt, random: Random, heard: list[Event]) -> tuple[Log, int]:
    """Follow a run from this process with breaks; return the events, and the number of breaks."""
    received: list[Event] = []
    cuts = 0
    while not received or received[-1].kind != DONE:
        left = random.randrange(1, 60)
        async for event in client.events(run, received[-1].seq if received else 0):
            received.append(event)
            heard.append(event)
            left -= 1
            if not left:
                cuts += 1
                break
    return [to_dict(event) for event in received], cuts


async def _followed_by_processes(stage: Stage, run: Receipt, random: Random) -> tuple[Log, int]:
    """Follow a run by the command line, killed and started again from the last whole line it printed."""
    received: Log = []
    cuts = 0
    while True:
        after = str(received[-1]["seq"] if received else 0)
        follower = stage.laneway("runs", "events", run.run_id, "-f", "--json", "--after", after, "--store", stage.url)
        enough = random.randrange(20, 200)
        await until(partial(_is_over, follower, enough), "the follower goes on", within=sized(60, 300))
        ended = follower.exit_code
        follower.kill()
        lines = follower.stdout.splitlines(keepends=True)
        received += [_decoded(line) for line in lines if line.endswith("\n")]
        if ended is not None:
            assert ended == 0, follower.stderr
            return received, cuts
        cuts += 1


def _has(heard: list[Event], so_many: int) -> bool:
    return len(heard) >= so_many or not _goes_on(heard)


def _goes_on(heard: list[Event]) -> bool:
    return len({event.run_id for event in heard if event.kind == DONE}) < RUNS


def _is_over(follower: Process, enough: int) -> bool:
    return not follower.alive or follower.stdout.count("\n") >= enough


def _decoded(line: str) -> dict[str, Any]:
    event: dict[str, Any] = msgspec.json.decode(line)
    return event
