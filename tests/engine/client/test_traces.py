"""Traces: texts that are given with a submission go along with the run, and with all that it leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway import BadSetting, Context, Scheduler, Submission
from laneway.engine.handlers.context import carried
from tests.support.scripts import follow_ups as scripts
from tests.support.scripts.runner import AT_ONCE, ScriptRunner

TRACE = {"traceparent": "00-ab-cd-01", "baggage": "a=ü"}


async def test_a_trace_reaches_the_handler_what_it_calls_and_what_it_leaves_behind(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.traces, trace=TRACE)

    assert await runner.app.result(run_id) == [TRACE, TRACE, TRACE]
    [behind] = [run for run in await runner.app.runs(task="whose") if run.ties and run.ties.call is None]
    assert (behind.parent, behind.result[3]) == (run_id, TRACE)


async def test_a_run_without_a_trace_has_an_empty_one(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.traces)

    assert await runner.app.result(run_id) == [{}, {}, {}]


async def test_what_is_carried_where_a_run_is_submitted_is_its_trace(app: Scheduler) -> None:
    @app.task
    async def look(*, ctx: Context) -> dict[str, str]:
        return dict(ctx.trace)

    before = carried.set(TRACE)
    one = await look.submit()
    [two] = await app.submit_many([(look, {})])
    other = await look.using(trace={"traceparent": "another"}).submit()
    none = await look.using(trace={}).submit()
    carried.reset(before)
    await app.drain()

    assert [await app.result(run) for run in (one, two, other, none)] == [
        TRACE,
        TRACE,
        {"traceparent": "another"},
        {},
    ]


async def test_a_handler_that_submits_plainly_passes_its_trace_on(app: Scheduler) -> None:
    @app.task
    async def look(*, ctx: Context) -> dict[str, str]:
        return dict(ctx.trace)

    @app.task
    async def work() -> str:
        return (await look.submit()).run_id

    receipt = await work.using(trace=TRACE).submit()
    await app.drain()

    assert await app.result(await app.result(receipt)) == TRACE


async def test_before_start_is_traced_as_its_handler_is(app: Scheduler) -> None:
    seen: list[Any] = []

    async def hook(args: dict[str, Any], ctx: Context) -> None:
        seen.append((dict(ctx.trace), dict(carried.get())))

    @app.task(before_start=hook)
    async def work() -> dict[str, str]:
        return dict(carried.get())

    receipt = await work.using(trace=TRACE).submit()
    await app.drain()

    assert seen == [(TRACE, TRACE)]
    assert await app.result(receipt) == TRACE


async def test_runs_beside_each_other_keep_their_traces_apart(app: Scheduler) -> None:
    @app.task(retry=AT_ONCE)
    async def look(n: int, *, ctx: Context) -> list[Any]:
        await asyncio.sleep(0)
        if ctx.attempt == 1:
            raise ValueError
        return [n, carried.get()["n"], ctx.trace["n"]]

    runs = await app.submit_many([Submission(look, {"n": n}, trace={"n": str(n)}) for n in range(20)])
    await app.drain()

    assert [await app.result(run) for run in runs] == [[n, str(n), str(n)] for n in range(20)]
    assert dict(carried.get()) == {}


async def test_a_follow_up_of_then_has_the_trace_of_the_run_before_it(app: Scheduler) -> None:
    @app.task
    async def look(*, ctx: Context) -> dict[str, str]:
        return dict(ctx.trace)

    receipt = await look.using(trace=TRACE, then=Submission(look, then="look")).submit()
    await app.drain()

    runs = await app.runs()
    assert len(runs) == 3
    assert [run.result for run in runs] == [TRACE] * 3
    assert runs[-1].id == receipt.run_id


async def test_a_run_that_is_submitted_once_more_keeps_its_trace(app: Scheduler) -> None:
    @app.task
    async def look(*, ctx: Context) -> dict[str, str]:
        return dict(ctx.trace)

    receipt = await look.using(trace=TRACE).submit()
    await app.drain()
    again = await app.retry(receipt)
    await app.drain()

    assert await app.result(again) == TRACE


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        ("00-ab", "it must be a dict of texts by name"),
        ({"a": 1}, "it must be a dict of texts by name"),
        ({1: "a"}, "it must be a dict of texts by name"),
        ({"a": "x" * 5000}, "trace takes 5008 bytes as JSON; at most 4096 are allowed"),
        ({"a": "\ud800"}, "trace"),
    ],
    ids=["text", "number", "name", "large", "surrogate"],
)
async def test_what_is_no_trace_is_refused(app: Scheduler, trace: Any, says: str) -> None:
    @app.task
    async def look() -> None:
        pass

    with pytest.raises(BadSetting, match=says):
        await look.using(trace=trace).submit()

    assert await app.runs() == []


async def test_what_is_carried_and_too_large_is_refused_as_well(app: Scheduler) -> None:
    @app.task
    async def look() -> None:
        pass

    before = carried.set({"a": "x" * 5000})
    with pytest.raises(BadSetting, match="trace takes 5008 bytes"):
        await look.submit()
    carried.reset(before)
