"""Jobs changed by one process and fired by another: a change by the command line holds at once for running workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway import Scheduler
from laneway.core.jobs.record import FireKind
from tests.system.harness.forms import report, time_limit
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.oracle.fire_rules import fired_twice, read_jobs, runs_of

pytestmark = [pytest.mark.system, time_limit()]

OFTEN = "every 200ms"


async def _laneway(stage: Stage, *arguments: str) -> Any:
    """Call the command line; return the JSON that it prints."""
    process = stage.laneway(*arguments, "--json", "--store", stage.url)
    assert await process.ended() == 0, process.stderr
    return json.loads(process.stdout or "null")


async def _fired(client: Scheduler, name: str) -> int:
    return (await client.jobs.get(name)).fired


async def _lateness(client: Scheduler, name: str) -> float:
    """Return by how many seconds the handler of a job's first fire began after its nominal time."""
    fire = (await client.jobs.runs(name, limit=1000))[-1]
    assert fire.kind is FireKind.FIRED
    assert fire.started_at is not None
    return (fire.started_at - fire.first_at).total_seconds()


async def test_what_is_said_of_a_job_holds_at_once_for_workers_that_run(stage: Stage) -> None:
    worker = await stage.laneway_worker()
    async with stage.client() as client:

        async def more(name: str, by: int = 2) -> None:
            before = await _fired(client, name)

            async def fires_on() -> bool:
                return await _fired(client, name) >= before + by

            await until(fires_on, f"{name} fires")

        late = []
        for name in ("a", "b", "c"):
            await _laneway(stage, "jobs", "add", name, OFTEN, "stroll")
            await more(name)
            late.append(await _lateness(client, name))
        report(f"added by another process, fired late by {', '.join(f'{seconds * 1000:.0f}' for seconds in late)} ms")
        assert min(late) < 1

        await _laneway(stage, "jobs", "edit", "a", "--schedule", "every 100ms", "--args", '{"takes": 0.01}')
        await more("a", 5)
        [newest] = [job for job in await read_jobs(await client.open()) if job.name == "a"]
        assert newest.runs[-1].args == {"takes": 0.01}

        await _laneway(stage, "jobs", "disable", "b")
        disabled = await _fired(client, "b")
        removed = (await client.jobs.get("c")).id
        await _laneway(stage, "jobs", "remove", "c")
        gone = len(await runs_of(await client.open(), removed))
        await more("a", 10)
        assert await _fired(client, "b") == disabled
        assert len(await runs_of(await client.open(), removed)) == gone

        await _laneway(stage, "jobs", "enable", "b")
        await more("b")
        await stage.stop(worker)
        assert [line for job in await read_jobs(await client.open()) for line in fired_twice(job)] == []
