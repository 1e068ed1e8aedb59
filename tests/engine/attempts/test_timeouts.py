"""Time-outs: one sweep stops what runs too long; such an attempt is `timed_out`, whatever its handler makes of it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from laneway import Context, Retry, RunFailed, Scheduler
from laneway.core.lifecycle.step import Step, StepReply
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.engine.attempts.deadlines import Deadlines
from laneway.engine.attempts.running_attempt import RunningAttempt, Stop
from laneway.engine.handlers.task import Task
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.waits import as_time_passes, soon, turns
from tests.support.watched_store import WatchedStore

ONCE = Retry(attempts=1)


async def test_a_handler_that_takes_too_long_is_stopped_and_the_attempt_is_timed_out(
    app: Scheduler, clock: FakeClock
) -> None:
    stopped = []

    @app.task(timeout=30, retry=ONCE)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(clock.monotonic())
            raise

    receipt = await slow.submit()
    async with app.running():
        run = await as_time_passes(clock, app.wait(receipt))

    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "timed_out", 1)
    assert run.error is not None
    assert (run.error.kind, run.error.type) == ("timed_out", "TimeoutError")
    assert run.error.message == "the handler took longer than 30 s"
    assert len(stopped) == 1
    assert stopped[0] >= 30


async def test_a_timed_out_attempt_is_tried_again_by_policy(app: Scheduler, clock: FakeClock) -> None:
    @app.task(timeout=1, retry=Retry.delays(5))
    async def slow(*, ctx: Context) -> str:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return "quick this time"

    receipt = await slow.submit()
    async with app.running():
        value = await as_time_passes(clock, app.result(receipt))

    assert value == "quick this time"
    assert (await app.get(receipt)).attempt == 2


async def test_with_on_timeout_false_a_timed_out_run_fails_at_once(app: Scheduler, clock: FakeClock) -> None:
    @app.task(timeout=1, retry=Retry(attempts=5, on_timeout=False))
    async def slow() -> None:
        await asyncio.Event().wait()

    receipt = await slow.submit()
    async with app.running():
        with pytest.raises(RunFailed) as caught:
            await as_time_passes(clock, app.result(receipt))

    assert (caught.value.reason, caught.value.message) == ("timed_out", "the handler took longer than 1 s")
    assert (await app.get(receipt)).attempt == 1


@pytest.mark.parametrize("ending", ["returns", "raises", "raises a cancellation of its own"])
async def test_a_handler_that_swallows_the_stop_is_timed_out_all_the_same(
    app: Scheduler, clock: FakeClock, ending: str
) -> None:
    @app.task(timeout=1, retry=ONCE)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ending == "raises":
                raise ValueError("in the way") from None
            if ending != "returns":
                raise asyncio.CancelledError("mine") from None
        return "as if nothing had happened"

    receipt = await stubborn.submit()
    async with app.running():
        run = await as_time_passes(clock, app.wait(receipt))

    assert (run.state, run.reason, run.result) == (RunState.FAILED, "timed_out", None)


async def test_a_handler_that_ends_in_time_is_left_alone(app: Scheduler, clock: FakeClock) -> None:
    @app.task(timeout=10)
    async def quick() -> str:
        await clock.sleep(9)
        return "in time"

    async with app.running():
        receipt = await quick.submit()
        value = await as_time_passes(clock, app.result(receipt))
        await clock.advance(60)

    assert value == "in time"
    assert (await app.get(receipt)).attempt == 1


async def test_a_slow_neighbour_of_a_timed_out_handler_is_left_alone(app: Scheduler, clock: FakeClock) -> None:
    @app.task(timeout=1, retry=ONCE)
    async def strict() -> None:
        await asyncio.Event().wait()

    @app.task
    async def patient() -> str:
        await clock.sleep(20)
        return "still here"

    receipts = [await strict.submit(), await patient.submit()]
    async with app.running():
        runs = await as_time_passes(clock, asyncio.gather(*map(app.wait, receipts)))

    assert [run.state for run in runs] == [RunState.FAILED, RunState.SUCCEEDED]


# The sweep itself


async def endless() -> None:
    await asyncio.Event().wait()


class Stopwatch:
    """Executions whose handlers never end, and when each was stopped."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.deadlines = clock, Deadlines(clock)
        self.stopped: dict[int, tuple[float, Stop | None]] = {}

    def add(self, number: int, seconds: float) -> RunningAttempt:
        run = Claimed(number, str(number), "endless", "{}", 1, 1, 0, "main", None, None, 0, "w")
        policy = TaskPolicy()
        task = Task("endless", endless, policy, lambda *_, **__: asyncio.sleep(0))  # type: ignore[arg-type]  # nobody submits
        execution = RunningAttempt(run, task, policy)
        execution.handle = asyncio.get_running_loop().create_task(self._watched(execution))
        self.deadlines.add(execution, seconds, lambda late: late.stop(Stop.TIMED_OUT))
        return execution

    async def _watched(self, execution: RunningAttempt) -> None:
        try:
            await endless()
        finally:
            self.stopped[execution.run.number] = (self.clock.monotonic(), execution.stopped)


@pytest.fixture
def watch(clock: FakeClock) -> Stopwatch:
    return Stopwatch(clock)


async def test_deadlines_are_met_in_their_order_whatever_the_order_they_were_set_in(
    watch: Stopwatch, clock: FakeClock
) -> None:
    for number, seconds in ((1, 5), (2, 1), (3, 3), (4, 3)):
        watch.add(number, seconds)
    await turns()

    await clock.advance(10)

    assert watch.stopped == {
        2: (1, Stop.TIMED_OUT),
        3: (3, Stop.TIMED_OUT),
        4: (3, Stop.TIMED_OUT),
        1: (5, Stop.TIMED_OUT),
    }


async def test_a_nearer_deadline_brings_the_sweep_forward(watch: Stopwatch, clock: FakeClock) -> None:
    watch.add(1, 100)
    await clock.advance(1)
    watch.add(2, 1)

    await clock.advance(2)

    assert watch.stopped == {2: (2, Stop.TIMED_OUT)}
    watch.deadlines.close()
    await clock.advance(0)


async def test_all_deadlines_share_one_sleeper(watch: Stopwatch, clock: FakeClock) -> None:
    for number in range(50):
        watch.add(number, 10 + number)
    await turns()

    assert clock.sleepers == 1
    await clock.advance(100)
    assert len(watch.stopped) == 50
    assert clock.sleepers == 0


async def test_after_all_have_passed_a_new_deadline_starts_the_sweep_again(watch: Stopwatch, clock: FakeClock) -> None:
    watch.add(1, 1)
    await clock.advance(2)
    watch.add(2, 1)

    await clock.advance(2)

    assert sorted(watch.stopped) == [1, 2]


async def test_an_execution_that_has_ended_is_not_stopped(watch: Stopwatch, clock: FakeClock) -> None:
    execution = watch.add(1, 1)
    await turns()
    assert execution.handle is not None
    execution.handle.cancel()
    await turns()

    await clock.advance(2)

    assert execution.stopped is None


async def test_after_close_nobody_is_stopped(watch: Stopwatch, clock: FakeClock) -> None:
    execution = watch.add(1, 1)
    await turns()

    watch.deadlines.close()
    await clock.advance(5)

    assert watch.stopped == {}
    assert execution.handle is not None
    execution.handle.cancel()
    await soon(asyncio.gather(execution.handle, return_exceptions=True))


async def test_a_handler_that_is_stopped_before_its_first_turn_is_settled_too(memory: Store, clock: FakeClock) -> None:
    class StopsAfterClaim(WatchedStore):
        async def step(self, step: Step) -> StepReply:
            reply = await super().step(step)
            if reply.claimed:
                asyncio.get_running_loop().call_soon(self.time_out)
            return reply

        def time_out(self) -> None:
            # As the sweep does when another handler blocked the loop for longer than this one's time-out.
            worker = app._lifecycle.worker  # noqa: SLF001 - nothing public stops a handler before its first turn
            assert worker is not None
            for attempt in worker._attempts._running.values():  # noqa: SLF001 - as above
                attempt.stop(Stop.TIMED_OUT)

    app = Scheduler(store=StopsAfterClaim(memory), clock=clock)

    @app.task(timeout=1, retry=None)
    async def work() -> None: ...

    receipt = await work.submit()
    working = asyncio.create_task(app.work())
    await turns()
    await app.stop(0)
    await soon(working)

    # Its task was cancelled before it began, so nobody settled the run; its slot, its lease and the renewer of the
    # stopped worker would stay for as long as the process lives.
    run = await app.get(receipt)
    assert run.state is not RunState.RUNNING


async def test_a_retry_at_the_very_same_instant_does_not_end_the_worker(app: Scheduler) -> None:
    @app.task(timeout=60, retry=Retry.delays(0))
    async def work(*, ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("once")
        return ctx.attempt

    receipt = await work.submit()
    await soon(app.drain())

    assert await app.result(receipt) == 2


async def test_executions_that_have_ended_are_not_kept_until_their_deadline(lossy: Scheduler) -> None:
    @lossy.task(timeout=3600)
    async def work() -> None: ...

    async with lossy.running():
        receipts = await lossy.submit_many([("work", {}) for _ in range(500)])
        await soon(asyncio.gather(*map(lossy.wait, receipts)))
        gc.collect()
        kept = sum(isinstance(each, RunningAttempt) for each in gc.get_objects())

    assert kept < 100
