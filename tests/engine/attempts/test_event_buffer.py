"""A handler's events: stored within 50 ms or 64 of them and by settle, in order and numbered without a gap."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from laneway import BadArguments, BadSetting, Context, Retry, Scheduler
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of, log_of
from tests.support.waits import as_time_passes, soon, turns
from tests.support.watched_store import WatchedStore


async def test_what_a_handler_reports_is_in_the_log_in_order_before_its_result(app: Scheduler) -> None:
    @app.task
    async def work(*, ctx: Context) -> str:
        ctx.progress(0)
        ctx.progress(0.5, "half way")
        ctx.log("a line")
        ctx.emit("chunk", {"text": "abc"})
        ctx.emit("tick")
        return "done"

    receipt = await work.submit()
    await app.drain()

    log = await log_of(app, receipt)
    assert [event.seq for event in log] == list(range(1, 8))
    assert [(event.kind, event.data) for event in log[1:]] == [
        ("progress", {"fraction": 0.5, "text": "half way"}),
        ("log", {"text": "a line"}),
        ("chunk", {"text": "abc"}),
        ("tick", None),
        ("result", {"value": "done"}),
        ("done", {"state": "succeeded"}),
    ]
    assert {event.run_id for event in log} == {receipt.run_id}


async def test_an_event_is_stored_soon_and_what_follows_it_waits_for_company(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    @lossy.task
    async def work(*, ctx: Context) -> None:
        for n in range(4):
            ctx.log(str(n))
            await clock.sleep(0.02)
        await asyncio.Event().wait()

    seen = []
    receipt = await lossy.submit("work")
    async with lossy.running():
        for seconds in (0.004, 0.001, 0.049, 0.001):
            await clock.advance(seconds)
            seen.append((await kinds_of(lossy, receipt)).count("log"))
        await lossy.stop(0)

    # At 5 ms what was said at 0; at 55 ms what was said at 20 and 40.
    assert seen == [0, 1, 1, 3]


async def test_nothing_waits_longer_than_fifty_milliseconds(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    said: list[float] = []

    @lossy.task
    async def work(*, ctx: Context) -> None:
        for n in range(80):
            said.append(clock.monotonic())
            ctx.emit("tick", n)
            await clock.sleep(0.001 * (n * 7 % 61))
        await asyncio.Event().wait()

    receipt = await lossy.submit("work")
    async with lossy.running():
        while len(said) < 80:
            await clock.advance(0.001)
            stored = (await kinds_of(lossy, receipt)).count("tick")
            assert all(clock.monotonic() - at <= 0.0501 for at in said[stored:])
        await lossy.stop(0)


async def test_sixty_four_events_are_stored_at_once(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    @lossy.task
    async def work(*, ctx: Context) -> None:
        for n in range(64):
            ctx.emit("tick", n)
        await asyncio.Event().wait()

    receipt = await lossy.submit("work")
    async with lossy.running():
        await turns()
        stored = await kinds_of(lossy, receipt)
        moved = clock.monotonic()
        await lossy.stop(0)

    assert stored == ["started"] + ["tick"] * 64
    assert moved == 0


async def test_a_run_that_goes_on_talking_is_heard_in_growing_batches(lossy: Scheduler, watched: WatchedStore) -> None:
    @lossy.task
    async def work(*, ctx: Context) -> None:
        for n in range(1000):
            ctx.emit("tick", n)
            await asyncio.sleep(0)

    receipt = await lossy.submit("work")
    await lossy.drain()

    sizes = [len(emitted.drafts) for step in watched.steps for emitted in step.emitted]
    assert sizes[0] == 64
    assert sizes == sorted(sizes)
    assert max(sizes) <= 256 + 8
    assert len(watched.steps) <= 20
    assert [event.data for event in await log_of(lossy, receipt) if event.kind == "tick"] == list(range(1000))


async def test_a_thousand_events_cost_few_steps(lossy: Scheduler, watched: WatchedStore) -> None:
    @lossy.task
    async def work(*, ctx: Context) -> None:
        for n in range(1000):
            ctx.emit("tick", n)
            if n % 100 == 0:
                await asyncio.sleep(0)

    receipt = await lossy.submit("work")
    await lossy.drain()

    ticks = [event.data for event in await log_of(lossy, receipt) if event.kind == "tick"]
    assert ticks == list(range(1000))
    assert len(watched.steps) <= 15


async def test_events_of_a_thread_are_stored_while_it_runs_and_in_its_order(app: Scheduler, clock: FakeClock) -> None:
    go_on = threading.Event()

    @app.task
    def work(*, ctx: Context) -> None:
        for n in range(100):
            ctx.emit("tick", n)
        go_on.wait(5)
        for n in range(100, 110):
            ctx.emit("tick", n)

    async def hundred(receipt: Any) -> None:
        async for event in app.events(receipt):
            if event.data == 99:
                return

    receipt = await work.submit()
    async with app.running():
        await as_time_passes(clock, hundred(receipt), step=0.05)
        go_on.set()
        await as_time_passes(clock, app.wait(receipt))

    log = await log_of(app, receipt)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert [event.data for event in log if event.kind == "tick"] == list(range(110))


async def test_several_threads_of_one_handler_lose_no_event(app: Scheduler) -> None:
    @app.task
    def work(*, ctx: Context) -> None:
        def talk(name: int) -> None:
            for n in range(200):
                ctx.emit("tick", [name, n])

        threads = [threading.Thread(target=talk, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    receipt = await work.submit()
    await soon(app.drain())

    log = await log_of(app, receipt)
    ticks = [event.data for event in log if event.kind == "tick"]
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert [[n for name, n in ticks if name == one] for one in range(4)] == [list(range(200))] * 4


async def test_events_of_a_failed_attempt_stay_and_the_next_one_counts_on(app: Scheduler, clock: FakeClock) -> None:
    @app.task(retry=Retry.delays(1))
    async def work(*, ctx: Context) -> None:
        ctx.log(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError("no")

    receipt = await work.submit()
    async with app.running():
        await as_time_passes(clock, app.wait(receipt))

    log = await log_of(app, receipt)
    assert [event.seq for event in log] == list(range(1, 8))
    assert [(event.kind, event.attempt) for event in log] == [
        ("started", 1),
        ("log", 1),
        ("retrying", 1),
        ("started", 2),
        ("log", 2),
        ("result", 2),
        ("done", 2),
    ]


async def test_data_over_8_kib_is_cut_and_marked_but_a_result_never(app: Scheduler) -> None:
    long = "x" * 20_000

    @app.task
    async def work(*, ctx: Context) -> str:
        ctx.emit("chunk", long)
        return long

    receipt = await work.submit()
    await app.drain()

    [_, chunk, result, _] = await log_of(app, receipt)
    assert chunk.data == {"cut": 20_002, "head": '"' + "x" * 3_999}
    assert result.data == {"value": long}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda ctx: ctx.emit("Not OK"),
            "event kind 'Not OK': use small letters, digits, '.', '_' and '-', a letter first, at most 64",
        ),
        (
            lambda ctx: ctx.emit(5),
            "event kind 5: use small letters, digits, '.', '_' and '-', a letter first, at most 64",
        ),
        (lambda ctx: ctx.emit("done"), "event kind 'done' is the engine's own; use another name"),
        (lambda ctx: ctx.emit("result", 5), "event kind 'result' is the engine's own; use another name"),
        (lambda ctx: ctx.progress(1.5), "progress 1.5: it is a share of the whole, 0 to 1"),
        (lambda ctx: ctx.progress(-0.1), "progress -0.1: it is a share of the whole, 0 to 1"),
        (lambda ctx: ctx.progress(float("nan")), "progress nan: it is a share of the whole, 0 to 1"),
        (lambda ctx: ctx.progress("half"), "progress 'half': it is a share of the whole, 0 to 1"),
        (lambda ctx: ctx.progress(True), "progress True: it is a share of the whole, 0 to 1"),
        (
            lambda ctx: ctx.emit("x", object()),
            "the data of event 'x' is not JSON: Encoding objects of type object is unsupported",
        ),
        (
            lambda ctx: ctx.emit("x", {"body": b"hello"}),
            (
                "the data of event 'x' is not JSON: body is bytes; JSON has only text: decode it, or write it as text,"
                " such as base64"
            ),
        ),
    ],
)
async def test_a_wrong_event_is_refused_in_the_handler_and_nothing_of_it_is_stored(
    app: Scheduler, call: Callable[[Any], None], message: str
) -> None:
    heard = []

    @app.task
    async def work(*, ctx: Context) -> None:
        with pytest.raises((BadSetting, BadArguments)) as caught:
            call(ctx)
        heard.append(str(caught.value))

    receipt = await work.submit()
    await app.drain()

    assert heard == [message]
    assert [event.kind for event in await log_of(app, receipt)] == ["started", "result", "done"]


async def test_what_is_reported_after_the_end_changes_nothing(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    kept: list[Context] = []

    @lossy.task
    async def work(*, ctx: Context) -> None:
        kept.append(ctx)

    async with lossy.running():
        receipt = await lossy.submit("work")
        await soon(lossy.wait(receipt))
        kept[0].log("too late")
        await clock.advance(1)

    assert [event.kind for event in await log_of(lossy, receipt)] == ["started", "result", "done"]
    assert (await lossy.get(receipt)).state is RunState.SUCCEEDED


async def test_events_of_many_runs_share_steps(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    async def talk(*, ctx: Context) -> None:
        for n in range(10):
            ctx.emit("tick", n)
            await clock.sleep(0.1)

    lossy.task(name="talk")(talk)
    receipts = await lossy.submit_many([("talk", {}) for _ in range(20)])
    async with lossy.running():
        await as_time_passes(clock, asyncio.gather(*map(lossy.wait, receipts)), step=0.05)

    # Two hundred events; each handler says one every tenth of a second.
    assert len([step for step in watched.steps if step.emitted]) <= 11
    for receipt in receipts:
        log = await log_of(lossy, receipt)
        assert [event.data for event in log if event.kind == "tick"] == list(range(10))


async def test_odd_text_can_be_logged(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(*, ctx: Context) -> str:
        ctx.log(b"caf\xe9".decode(errors="surrogateescape"))  # what another program printed
        ctx.progress(0.5, "\ud800")
        return "done"

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == "done"


async def test_an_event_that_is_no_number_is_refused_like_arguments_are(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(*, ctx: Context) -> None:
        ctx.emit("measured", float("nan"))

    receipt = await work.submit()
    await app.drain()

    assert (await app.get(receipt)).state is RunState.FAILED


async def test_a_line_of_log_costs_no_step_of_its_own(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    @lossy.task
    async def work(*, ctx: Context) -> None:
        ctx.log("quickly")

    async with lossy.running():
        await turns()
        watched.calls.clear()
        await soon(lossy.wait(await lossy.submit("work")))
        await clock.advance(0.5)
        steps = watched.calls["step"]

    assert steps == 2
