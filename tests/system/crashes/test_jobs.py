"""Jobs fired by processes that are killed all the time: one run per nominal time, none passed over in silence."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from laneway import Every, Scheduler
from laneway.core.jobs.record import FireKind
from tests.system.harness.forms import report, seeded, sized, time_limit
from tests.system.harness.process import Process, kill_all
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import plod, stroll
from tests.system.oracle import fire_rules
from tests.system.oracle.check import checked
from tests.system.oracle.fire_rules import JobFires, read_jobs, runs_of
from tests.system.oracle.journal import Ended, Started

pytestmark = pytest.mark.system

JOBS = sized(12, 32)
FIRES = sized(500, 10_000)  # that made a run
KILLS = sized(5, 150)
RULES: list[dict[str, Any]] = [
    {"overlap": "skip"},
    {"overlap": "queue"},
    {"overlap": "allow", "misfire": "all"},
    {"overlap": "skip", "misfire": "skip"},
]
ENDLESS = ("end-0", "end-1")
LONG_FORMS = (("redis", 5), ("postgres", 5))


@pytest.mark.parametrize(
    ("stage", "size"),
    [
        ("sqlite", 2),
        ("sqlite", 5),
        ("redis", 2),
        *(pytest.param(*more, marks=pytest.mark.chaos) for more in LONG_FORMS),
    ],
    indirect=["stage"],
)
@time_limit(short=150, long=1800)
async def test_each_nominal_time_makes_one_run_whoever_is_killed(stage: Stage, size: int) -> None:
    random = seeded()
    async with stage.client() as client:
        workers = [stage.worker(concurrency=8) for _ in range(size)]
        await stage.ready(*workers)
        await _make_jobs(client, random)

        await _kill_and_replace(stage, client, random, workers)
        removed = await _remove_one(client)
        await stage.ready(*workers)
        await stage.stop(*workers)
        found = await _come_to_rest(stage, client)

        await checked(stage, client)
        assert len(await runs_of(await client.open(), removed.job.id)) == len(removed.runs)
    _tell(found, size)
    assert sum(len(job.runs) for job in (*found, removed)) >= stage.some_of(FIRES)
    assert [job.name for job in found if not job.runs] == []


@time_limit(short=120, long=900)
async def test_a_fire_whose_answer_is_lost_is_fired_once(stage: Stage) -> None:
    random, goal = seeded(), sized(150, 3_000)
    async with stage.client() as client:
        workers = [stage.worker(concurrency=8, lossy=0.1) for _ in range(2)]
        await stage.ready(*workers)
        await _make_jobs(client, random)

        async def enough() -> bool:
            return sum([job.fired for job in await client.jobs.list()]) >= goal

        await until(enough, "the jobs fire", within=sized(60, 600))
        kill_all(workers)
        found = await _come_to_rest(stage, client)

        await checked(stage, client)
    _tell(found, 2)
    assert sum(len(job.runs) for job in found) >= goal


async def test_a_machine_that_slept_catches_up_by_each_jobs_rule(stage: Stage) -> None:
    async with stage.client() as client:
        workers = [stage.worker(concurrency=8) for _ in range(2)]
        await stage.ready(*workers)
        for misfire in ("once", "all"):
            await client.jobs.create(misfire, Every(0.1), stroll, lane="cron", misfire=misfire)
        await until(lambda: len(stage.journal.of(Ended)) > 6, "the jobs fire")

        for worker in workers:
            await worker.freeze()
        await asyncio.sleep(3)  # there is no event for what must not happen
        for worker in workers:
            worker.thaw()
        asleep = len(stage.journal.of(Started))
        await until(lambda: len(stage.journal.of(Started)) > asleep + 40, "the jobs are fired again")
        await stage.stop(*workers)
        found = {job.name: job for job in await _come_to_rest(stage, client)}

        await checked(stage, client)
    _tell(list(found.values()), 2)
    assert max(record.count for record in found["once"].records if record.kind is FireKind.MISSED) >= 25
    assert fire_rules.count([found["all"]])[FireKind.MISSED] == 0


@pytest.mark.parametrize("jump", [-5.0, 20.0])
async def test_a_clock_that_jumps_neither_doubles_nor_stops_a_job(stage: Stage, jump: float) -> None:
    clock = stage.folder / "clock"
    clock.write_text("0")
    async with stage.client() as client:
        workers = [stage.worker(concurrency=8, clock=str(clock)) for _ in range(2)]
        await stage.ready(*workers)
        await client.jobs.create("job", Every(0.2), stroll, lane="cron")
        await until(lambda: len(stage.journal.of(Ended)) > 5, "the job fires")

        (stage.folder / "new").write_text(str(jump))
        (stage.folder / "new").rename(clock)
        before = len(stage.journal.of(Ended))
        took = await until(lambda: len(stage.journal.of(Ended)) > before + 5, "the job goes on firing", within=60)
        await stage.stop(*workers)
        [found] = await read_jobs(await client.open())
    report(f"{jump:+g} s: went on within {took:.1f} s; {dict(fire_rules.count([found]))}")
    assert list(fire_rules.fired_twice(found)) == []
    assert len(found.runs) < 100


async def _make_jobs(client: Scheduler, random: Random) -> None:
    """Make jobs of every rule, some of which take longer than their period."""
    for number in range(JOBS):
        options = RULES[number % len(RULES)]
        takes = 0 if options["overlap"] == "allow" else random.choice((0, 0.02, 0.3))
        rule, task = Every(random.choice((0.05, 0.1, 0.15, 0.2))), random.choice((stroll, plod))
        await client.jobs.create(f"job-{number}", rule, task, {"takes": takes}, lane="cron", **options)
    for name in (*ENDLESS, "removed"):
        await client.jobs.create(name, Every(0.1, after="end"), stroll, {"takes": 0.02}, lane="cron")


async def _kill_and_replace(stage: Stage, client: Scheduler, random: Random, workers: list[Process]) -> None:
    kills = 0
    enough, goal = stage.some_of(KILLS), stage.some_of(FIRES)
    while kills < enough or sum([job.fired for job in await client.jobs.list()]) < goal:
        await stage.progress(random, 60)
        workers.pop(random.randrange(len(workers))).kill()
        workers.append(stage.worker(concurrency=8))
        kills += 1


async def _remove_one(client: Scheduler) -> JobFires:
    """Remove a job while it fires; return what it had fired when it was gone."""
    [job] = [job for job in await read_jobs(await client.open()) if job.name == "removed"]
    await client.jobs.remove("removed")
    return JobFires(job.job, job.records, await runs_of(await client.open(), job.job.id))


async def _come_to_rest(stage: Stage, client: Scheduler) -> list[JobFires]:
    """Check jobs that nobody fires any more, then let their runs end without firing others; return what was found."""
    before = await read_jobs(await client.open())
    for job in before:
        await client.jobs.disable(job.job.id)
    worker = stage.worker(concurrency=20)
    await stage.ready(worker)
    await stage.drained(client, within=sized(60, 300))
    await stage.stop(worker)
    after = await read_jobs(await client.open())
    wrong = fire_rules.wrong(before) + fire_rules.wrong(after)
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])
    assert [len(job.runs) for job in after] == [len(job.runs) for job in before], "a disabled job has fired"
    assert [job.name for job in before if job.job.state.next_at is None and not _goes_on(job)] == []
    return after


def _goes_on(job: JobFires) -> bool:
    """Tell whether a run of the job has not ended: its end will plan the next fire."""
    return any(not run.ended for run in job.runs)


def _tell(found: list[JobFires], size: int) -> None:
    kinds = fire_rules.count(found)
    told = ", ".join(f"{kinds[kind]} {kind.value}" for kind in FireKind)
    runs = sum(len(job.runs) for job in found)
    report(
        f"{len(found)} jobs, {size} processes, {runs} runs; on record: {told}; fired twice 0, passed over in silence 0"
    )
