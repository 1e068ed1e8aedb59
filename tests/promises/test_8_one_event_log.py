"""Promise 8. One event log per run: no gap across attempts and workers, readable from any cursor, one `done`."""

from __future__ import annotations

import asyncio

from laneway import Context, Event, Retry, Scheduler


async def test_a_log_counts_on_through_attempts_and_workers_and_ends_with_done(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(0))
    async def work(*, ctx: Context) -> str:
        ctx.progress(0.5, "half way")
        if ctx.fence == 1:
            await app.stop(0)  # the first worker is stopped: the run is given back
            await asyncio.sleep(3600)
        if ctx.attempt == 1:
            raise ValueError("once")
        return "done"

    receipt = await work.submit()
    await app.drain()  # is stopped by the handler
    await app.drain()

    log = [event async for event in app.events(receipt)]
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert [(event.kind, event.attempt) for event in log] == [
        ("started", 1),
        ("progress", 1),
        ("released", 1),
        ("started", 1),
        ("progress", 1),
        ("retrying", 1),
        ("started", 2),
        ("progress", 2),
        ("result", 2),
        ("done", 2),
    ]


async def test_a_reader_who_comes_late_or_comes_back_misses_nothing(app: Scheduler) -> None:
    first_half, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(*, ctx: Context) -> None:
        for n in range(10):
            ctx.emit("step", n)
        first_half.set()
        await go_on.wait()
        for n in range(10, 20):
            ctx.emit("step", n)

    async def read(after: int, count: int) -> list[Event]:
        seen: list[Event] = []
        async for event in app.events(receipt, after):
            seen.append(event)
            if len(seen) == count:
                break
        return seen

    async with app.running():
        receipt = await work.submit()
        await first_half.wait()
        before = await asyncio.wait_for(read(0, 5), 10)  # reads five events, and goes away
        go_on.set()
        after = await asyncio.wait_for(read(before[-1].seq, 1000), 10)  # comes back with its cursor

    log = [*before, *after]
    assert [event.seq for event in log] == list(range(1, 24))
    assert [event.data for event in log if event.kind == "step"] == list(range(20))
    assert [event.kind for event in log].count("done") == 1
