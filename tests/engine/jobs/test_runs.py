"""Runs that a job started: on its terms, and knowing of it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from laneway import Context, Every, Retry, Run, Scheduler
from laneway.core.common.instants import SECOND
from laneway.core.records.states import RunState
from laneway.core.records.status import StuckRun
from laneway.testing import FakeClock, Hand
from tests.engine.conftest import address
from tests.support.jobs import standing
from tests.support.run_logs import kinds_of
from tests.support.scheduler_jobs import MINUTELY, START, add_job, fires_of, recorded
from tests.support.scripts import jobs as scripts
from tests.support.scripts.runner import ScriptRunner, named
from tests.support.waits import as_time_passes, eventually, lingerers, passes, soon, turns, until
from tests.support.watched_store import WatchedStore


async def first_run(app: Scheduler, clock: FakeClock, job: str = "job") -> Run:
    """Let the job fire for the first time, and return the run once it has ended."""

    async def ended() -> Run:
        fires = await eventually(lambda: fires_of(app, job))
        assert fires[0].run_id is not None
        return await app.wait(fires[0].run_id)

    async with app.running():
        return await as_time_passes(clock, ended(), step=1)


async def test_a_handler_knows_which_job_started_it_and_for_what_time(runner: ScriptRunner) -> None:
    args = f'{{"name": "{named(scripts.whose)}", "folder": "{runner.folder}"}}'
    await add_job(runner.app, "digest", MINUTELY, args=args)
    await runner.clock.advance(61)

    await runner.drain()
    by_hand = await runner.run(scripts.whose)

    [run] = [run for run in await runner.app.runs(task="work") if run.job is not None]
    assert run.result == ["digest", "digest", "2026-01-01T00:01:00+00:00"]
    assert await runner.app.result(by_hand) is None


async def test_the_time_out_of_a_job_holds_instead_of_its_tasks(app: Scheduler, clock: FakeClock) -> None:
    @app.task(timeout=3600, retry=Retry(attempts=5))
    async def work() -> None:
        await asyncio.Event().wait()

    await add_job(app, "job", MINUTELY, timeout=7 * SECOND, retry=Retry(attempts=1))

    run = await first_run(app, clock)

    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "timed_out", 1)
    assert run.error is not None
    assert run.error.message == "the handler took longer than 7 s"


async def test_a_job_may_time_out_what_its_task_does_not(app: Scheduler, clock: FakeClock) -> None:
    @app.task
    async def work() -> None:
        await asyncio.Event().wait()

    await add_job(app, "job", MINUTELY, timeout=SECOND, retry=Retry(attempts=1))

    run = await first_run(app, clock)

    assert run.reason == "timed_out"
    assert run.error is not None
    assert run.error.message == "the handler took longer than 1 s"


async def test_a_job_retries_as_it_says_and_without_a_word_as_its_task_does(app: Scheduler, clock: FakeClock) -> None:
    @app.task(retry=Retry.delays(1, 1, 1))
    async def work() -> None:
        raise ValueError("no")

    await add_job(app, "own", MINUTELY, retry=Retry.delays(2))
    await add_job(app, "tasks", MINUTELY)

    own = await first_run(app, clock, "own")
    tasks = await first_run(app, clock, "tasks")

    assert (own.state, own.attempt) == (RunState.FAILED, 2)
    assert (tasks.state, tasks.attempt) == (RunState.FAILED, 4)


async def test_a_run_of_a_job_that_does_not_stop_when_it_is_told_to_is_reported_as_stuck(
    app: Scheduler, clock: FakeClock
) -> None:
    release = threading.Event()
    stuck: list[StuckRun] = []

    @app.task(retry=None)
    def work() -> None:
        release.wait(30)

    await add_job(app, "job", MINUTELY, timeout=SECOND)
    working = asyncio.create_task(app.work(stuck=stuck.append))
    try:
        await as_time_passes(clock, until(lambda: bool(stuck)), step=1)
        while "stuck" not in (kinds := await kinds_of(app, stuck[0].run_id)):
            await passes(clock, 1)
    finally:
        release.set()
        await app.stop()
        await working
    await lingerers()

    assert kinds[-2:] == ["overdue", "stuck"]
    assert (await app.get(stuck[0].run_id)).job is not None


async def test_who_takes_over_an_overdue_run_of_a_job_settles_it_on_the_jobs_terms(app: Scheduler) -> None:
    app.task(name="work", timeout=3600, retry=Retry(attempts=5))(print)
    await add_job(app, "job", MINUTELY, timeout=SECOND, retry=Retry(attempts=1))
    receipt = await app.jobs.run("job")
    dead = await Hand(await app.open(), "dead", tasks={"work"}).register()
    await dead.overdue(*await dead.claim())
    await dead.leave()

    async with app.running():
        run = await soon(app.wait(receipt))

    assert run.state is RunState.FAILED
    assert run.error is not None
    assert run.error.message == "the handler took longer than 1 s"


@pytest.mark.parametrize("ties", [True, False])
async def test_a_context_without_a_job_says_so(app: Scheduler, ties: bool) -> None:
    @app.task
    async def work(*, ctx: Context) -> bool:
        return ctx.job is None

    receipt = await work.using(trace={"a": "b"} if ties else {}).submit()
    await app.drain()

    assert await app.result(receipt) is True


@pytest.mark.checklist("W1-1")
async def test_failures_are_still_counted_after_a_restart(tmp_path, clock: FakeClock) -> None:  # type: ignore[no-untyped-def]
    failures = 0
    for _ in range(3):
        async with Scheduler(address("sqlite", tmp_path), clock=clock) as app:

            @app.task(name="work", retry=None)
            async def work() -> None:
                raise ValueError("no")

            if clock.monotonic() == 0:
                await add_job(app, "job", MINUTELY)
            await clock.advance(60)
            await app.drain()
            failures = (await standing(await app.open(), "job")).state.failures

    assert failures == 3


@pytest.mark.checklist("W4-8")
async def test_a_run_that_a_crash_interrupted_is_executed_again(clock: FakeClock, watched: WatchedStore) -> None:
    dead, heir = Scheduler(store=watched, clock=clock), Scheduler(store=watched, clock=clock)
    begun, ended = asyncio.Event(), asyncio.Event()

    @dead.task(name="work")
    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    @heir.task(name="work")
    async def works() -> None:
        ended.set()

    await add_job(dead, "job", MINUTELY)
    working = asyncio.create_task(dead.work())
    await as_time_passes(clock, begun.wait())
    await watched.leave(watched.incarnations[0])  # as when its process is seen to be gone
    async with heir.running():
        await as_time_passes(clock, ended.wait())
        [record] = await recorded(heir, "job", 1)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert record.run_id is not None
    run = await heir.get(record.run_id)
    assert (run.state, run.fence) == (RunState.SUCCEEDED, 2)


@pytest.mark.checklist("W4-12")
async def test_a_time_out_is_tried_again_only_if_the_job_says_so(app: Scheduler, clock: FakeClock) -> None:
    starts = []

    @app.task(name="work", retry=Retry(attempts=4))
    async def work() -> None:
        starts.append(clock.monotonic())
        await asyncio.Event().wait()

    once = Retry(attempts=4, on_timeout=False)
    await add_job(app, "job", Every(3600, anchor=START), timeout=10 * SECOND, retry=once)
    await clock.advance(3600)

    await as_time_passes(clock, app.drain(), step=1)

    [record] = await fires_of(app, "job")
    assert record.run_id is not None
    assert (await app.get(record.run_id)).reason == "timed_out"
    assert len(starts) == 1


@pytest.mark.checklist("W4-12")
async def test_a_stop_waits_for_a_fire_that_is_executed(app: Scheduler, clock: FakeClock) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work() -> None:
        begun.set()
        await release.wait()

    await add_job(app, "job", MINUTELY)
    async with app.running():
        await clock.advance(60)
        await soon(begun.wait())

        stop = asyncio.create_task(app.stop())
        await turns()
        waits = not stop.done()
        release.set()
        await soon(stop)

    [record] = await fires_of(app, "job")
    assert waits
    assert record.run_id is not None
    assert (await app.get(record.run_id)).state is RunState.SUCCEEDED


@pytest.mark.checklist("W4-12")
async def test_a_stop_does_not_sit_out_a_retry(app: Scheduler, clock: FakeClock) -> None:
    @app.task(name="work", retry=Retry.delays(3600))
    async def work() -> None:
        raise ValueError("no")

    await add_job(app, "job", MINUTELY)
    async with app.running():
        await clock.advance(60)
        [record] = await recorded(app, "job", 1)
        assert record.run_id is not None
        async for event in app.events(record.run_id):
            if event.kind == "retrying":
                break

        await soon(app.stop())

    assert (await app.get(record.run_id)).state is RunState.PENDING
