"""Calls: a run starts another, waits for it without being executed, and goes on with its result."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from laneway import Context, Lane, Run, RunDropped, RunFailed, Scheduler, SessionPolicy
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing import FakeClock, Hand
from tests.support.crashing_store import CrashingStore
from tests.support.invariants import check_invariants
from tests.support.run_logs import kinds_of
from tests.support.scripts import calls as scripts
from tests.support.scripts.runner import AT_ONCE, ScriptRunner
from tests.support.waits import soon


async def children(app: Scheduler, run_id: str) -> list[Run]:
    """Return the runs that a run has called or left behind, oldest first."""
    return [run for run in reversed(await app.runs(limit=1000)) if run.parent == run_id]


async def test_a_call_returns_the_result_of_the_run_that_it_starts(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.calls)

    assert await runner.app.result(run_id) == [[1], {"n": [1]}]
    assert runner.counts == {"starts": 3}
    first, second = await children(runner.app, run_id)
    assert [(run.task, run.lane, run.priority, run.fence) for run in (first, second)] == [
        ("echo", "main", 0, 1),
        ("echo", "team", 5, 1),
    ]
    again = ("called", "returned", "started")
    assert await kinds_of(runner.app, run_id) == ["started", *again, *again, "result", "done"]


async def test_a_called_run_has_its_parents_user_session_and_trace(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.asks_whose, user="ann", session="chat", trace={"traceparent": "00-ab"})

    assert await runner.app.result(run_id) == [run_id, ["ann", "chat", run_id, {"traceparent": "00-ab"}]]
    [child] = await children(runner.app, run_id)
    assert (child.user, child.session) == ("ann", "chat")


async def test_a_called_run_that_fails_raises_in_the_run_that_called_it(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.catches)

    [child] = await children(runner.app, run_id)
    assert await runner.app.result(run_id) == ["failed", child.id, "gave_up", "no luck", 1]


async def test_a_called_run_that_is_cancelled_raises_that(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.catches_cancelled)
    [child] = await children(runner.app, run_id)
    await runner.app.cancel(child.id)
    await runner.drain()

    assert await runner.app.result(run_id) == ["RunCancelled", child.id, None]


async def test_a_run_that_is_tried_again_calls_again_what_failed_and_nothing_else(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.lets_fail)

    assert await runner.app.result(run_id) == ["good", "better", 2]
    called = await children(runner.app, run_id)
    assert [run.state.value for run in called] == ["succeeded", "failed", "succeeded"]


async def test_calls_go_three_generations_deep_and_no_further(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.nests)

    said = "run it is 3 generations deep"
    assert await runner.app.result(run_id) == ["called", "called", "called", said]


async def test_a_run_can_call_ten_runs_and_no_more(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.calls_many)

    assert await runner.app.result(run_id) == [10, "a run can call at most 10 runs (setting max_children)"]


async def test_other_arguments_than_those_that_were_called_with_fail_the_run_for_good(runner: ScriptRunner) -> None:
    run_id, by_name = await runner.submit(scripts.other_arguments), await runner.submit(scripts.other_arguments_by_name)
    await runner.drain()

    run = await runner.app.get(run_id)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "steps_changed", 1)
    assert run.error is not None
    assert "'echo 1' had other arguments in an earlier attempt" in run.error.message
    assert await runner.app.result(by_name) == 1


async def test_what_cannot_be_called_is_an_error_in_the_handler(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.wrong)

    assert await runner.app.result(run_id) == [
        "UnknownTask: unknown task 'ecko'",
        "BadArguments: echo has no argument 'volume'",
        "BadArguments: the arguments of echo are not JSON",
        "BadArguments: the arguments of echo take 300012 bytes as JSON",
        "BadSetting: len is not a task",
        "BadSetting: unknown option of ctx.call 'user'",
        "BadSetting: unknown option of ctx.call 'delay'",
        "BadSetting: priority is 1000",
        f"BadSetting: the name of a call is text of 1 to 200 characters, not '{'x' * 201}'",
    ]
    assert await children(runner.app, run_id) == []


async def test_cancelling_a_run_cancels_all_generations_that_it_called(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.nests_and_asks)
    [child] = await children(runner.app, run_id)
    [grandchild] = await children(runner.app, child.id)
    [last] = await children(runner.app, grandchild.id)
    await runner.app.cancel(run_id)

    runs = [await runner.app.get(run.id) for run in (child, grandchild, last)]
    assert [(run.state.value, run.reason) for run in runs] == [("cancelled", "parent_ended")] * 3


# At once


async def test_runs_may_be_called_at_once(app: Scheduler) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    async def work(*, ctx: Context) -> list[int]:
        return list(await asyncio.gather(*[ctx.call(double, {"n": n}) for n in range(10)]))

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == [2 * n for n in range(10)]
    assert len(await children(app, receipt.run_id)) == 10


async def test_what_fails_beside_a_call_that_goes_on_is_called_again_without_it(app: Scheduler) -> None:
    tries: list[str] = []

    @app.task(retry=None)
    async def once(name: str, *, ctx: Context) -> str:
        tries.append(name)
        if name == "bad" and tries.count("bad") == 1:
            raise ValueError
        return f"{name} {await ctx.ask('?')}" if name == "slow" else name

    @app.task(retry=AT_ONCE)
    async def work(*, ctx: Context) -> list[str]:
        calls = [ctx.call(once, {"name": name}, name=name) for name in ("bad", "slow")]
        return list(await asyncio.gather(*calls))

    receipt = await work.submit()
    await app.drain()
    slow = next(run for run in await app.runs(state="waiting") if run.task == "once")
    await app.answer(slow, "yes")
    await app.drain()

    assert await app.result(receipt) == ["bad", "slow yes"]
    assert sorted(tries) == ["bad", "bad", "slow", "slow"]  # the slow one's second is after its answer


# Slots


async def test_a_call_finishes_where_there_is_one_slot_of_everything(app: Scheduler) -> None:
    await app.lanes.set(Lane("main", limit=1, per_user=1))

    @app.task
    async def child() -> str:
        return "child"

    @app.task
    async def work(*, ctx: Context) -> str:
        return f"{await ctx.call(child)} of {ctx.session}"

    policy = SessionPolicy(max_concurrent=1)
    async with app.running(concurrency=1):
        first = await app.submit(work, user="ann", session="chat", session_policy=policy)
        second = await app.submit(work, user="ann", session="chat")
        results = [await soon(app.result(run)) for run in (first, second)]

    assert results == ["child of chat"] * 2
    await check_invariants(await app.open())


async def test_a_called_run_that_is_dropped_raises_that(app: Scheduler) -> None:
    @app.task(lane="narrow")
    async def child() -> None:
        pass

    @app.task
    async def work(*, ctx: Context) -> Any:
        try:
            return await ctx.call(child)
        except RunDropped as error:
            return error.reason

    await app.lanes.set(Lane("narrow", limit=1, max_pending=1, when_full="drop_old"))
    await app.lanes.pause("narrow")
    receipt = await work.submit()
    await app.drain()
    await child.submit()
    await app.drain()

    assert await app.result(receipt) == "lane_full"


# Crashes


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_worker_that_dies_when_a_run_begins_to_wait_takes_no_result_from_it(
    memory: Store, clock: FakeClock, when: str
) -> None:
    crashing = CrashingStore(memory, Random(0))
    app = Scheduler(store=crashing, clock=clock)
    calls: list[str] = []

    @app.task
    async def child() -> str:
        calls.append("child")
        return "child"

    @app.task
    async def work(*, ctx: Context) -> str:
        calls.append("work")
        return f"{await ctx.call(child)} again"

    crashing.die(when)
    receipt = await work.submit()
    await soon(app.drain())

    called = await children(app, receipt.run_id)
    waited = when == "after"
    assert [run.task for run in crashing.found] == (["work", "child"] if waited else ["work"])
    assert await app.result(receipt) == "child again"
    assert len(called) == 1
    assert calls == (["work", "child", "work"] if waited else ["work", "work", "child", "work"])


async def test_a_run_gets_the_result_of_a_child_whose_worker_died(memory: Store, clock: FakeClock) -> None:
    app = Scheduler(store=memory, clock=clock)

    @app.task
    async def child(*, ctx: Context) -> int:
        return ctx.fence

    @app.task
    async def work(*, ctx: Context) -> Any:
        return await ctx.call(child)

    await app.tasks.pause("child")
    receipt = await work.submit()
    await soon(app.drain())
    await app.tasks.resume("child")
    mortal = await Hand(memory, "mortal", tasks={"child"}).register()
    [dying] = await mortal.claim()
    waiting = await app.get(receipt)
    await memory.leave("mortal")
    await soon(app.drain())

    assert (dying.task, dying.fence, waiting.state) == ("child", 1, RunState.WAITING)
    assert await app.result(receipt) == 2


async def test_a_failed_call_fails_the_run_that_does_not_catch_it(app: Scheduler) -> None:
    @app.task(retry=None)
    async def child() -> None:
        raise ValueError("no luck")

    @app.task(retry=None)
    async def work(*, ctx: Context) -> Any:
        return await ctx.call(child)

    receipt = await work.submit()
    await app.drain()

    [called] = await children(app, receipt.run_id)
    with pytest.raises(RunFailed) as error:
        await app.result(receipt)
    assert error.value.message == f"run {called.id} failed (error: no luck)"
