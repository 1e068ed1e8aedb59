"""Runs that a job started: on its terms, and knowing of it."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from laneway import Context, Every, Retry, Run, Scheduler
from laneway.core.common.instants import SECOND
from laneway.core.records.job_tie import JobTie
from laneway.core.records.run import Claimed, Ties
from laneway.core.records.states import RunState
from laneway.core.records.status import StuckRun
from laneway.testing import FakeClock
from tests.engine.stories import jobs as story
from tests.engine.support import add_job, as_time_passes, fires_of, kinds_of, lingerers, passes, until
from tests.engine.telling import Teller, named

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTELY = Every(60, anchor=START)


async def first_run(app: Scheduler, clock: FakeClock, job: str = "job") -> Run:
    """Let the job fire for the first time, and return the run once it has ended."""

    async def ended() -> Run:
        while not (fires := await fires_of(app, job)):  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
        assert fires[0].run_id is not None
        return await app.wait(fires[0].run_id)

    async with app.running():
        return await as_time_passes(clock, ended(), step=1)


async def test_a_handler_knows_which_job_started_it_and_for_what_time(teller: Teller) -> None:
    args = f'{{"name": "{named(story.whose)}", "folder": "{teller.folder}"}}'
    await add_job(teller.app, "digest", MINUTELY, args=args)
    await teller.clock.advance(61)

    await teller.drain()
    by_hand = await teller.run(story.whose)

    [run] = [run for run in await teller.app.runs(task="work") if run.job is not None]
    assert run.result == ["digest", "digest", "2026-01-01T00:01:00+00:00"]
    assert await teller.app.result(by_hand) is None


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
    tie = JobTie(id="j", name="job", at=0, timeout=SECOND, retry=Retry(attempts=1))
    lease = (1, "run", "work", "{}", 1, 1, 0, "main", None, None, 0, "dead")
    lapsed = Claimed(*lease, lapsed=True, timed_out=True, ties=Ties(job=tie))

    async with app.running():
        assert app._working.worker is not None
        executions = app._working.worker._executions
        executions.take_over([lapsed])
        [result] = executions.take_results()

    assert result.settlement.state is RunState.FAILED
    assert result.settlement.failure is not None
    assert result.settlement.failure.message == "the handler took longer than 1 s"


@pytest.mark.parametrize("ties", [True, False])
async def test_a_context_without_a_job_says_so(app: Scheduler, ties: bool) -> None:
    @app.task
    async def work(*, ctx: Context) -> bool:
        return ctx.job is None

    receipt = await work.using(trace={"a": "b"} if ties else {}).submit()
    await app.drain()

    assert await app.result(receipt) is True
