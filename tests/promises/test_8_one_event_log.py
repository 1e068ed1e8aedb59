"""Promise 8. One event log per run: no gap across attempts and workers, readable from any cursor, one `done`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from random import Random

import msgspec

from laneway import Context, Event, Retry, Scheduler

WORKER = """
import asyncio, sys
from laneway import Context, Scheduler

app = Scheduler(sys.argv[1])

@app.task
async def book(trip, *, ctx: Context):
    price = await ctx.step("price", lambda: 120)
    ctx.log(f"asking about {price}")
    answer = await ctx.ask({"trip": trip, "price": price})
    ctx.progress(1.0, f"they said {answer}")
    return answer

asyncio.run(app.work())
"""

FOLLOWER = """
import asyncio, sys, msgspec
from laneway import Scheduler

async def main():
    async with Scheduler(sys.argv[1]) as app:
        async for event in app.events(sys.argv[2]):
            print(msgspec.json.encode(event).decode(), flush=True)

asyncio.run(main())
"""


async def test_a_log_counts_on_through_attempts_and_workers_and_ends_with_done(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(0))
    async def work(*, ctx: Context) -> str:
        ctx.progress(0.5, "half way")
        if ctx.fence == 1:
            await app.stop(0)  # the first worker is stopped: the run is given back
            await asyncio.Event().wait()
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


async def test_followers_cut_at_random_points_receive_the_log_whatever_happens_to_its_workers(app: Scheduler) -> None:
    random, steps = Random(8), 60

    @app.task
    async def work(*, ctx: Context) -> None:
        for step in range(ctx.state or 0, steps):
            ctx.delta(f"word {step} ")
            with ctx.tool("look", step) as tool:
                tool.output = step
            await ctx.checkpoint(step + 1)
            if step % 20 == 10:
                await app.stop(0)  # its worker is stopped, and another goes on

    async def follow(cuts: Random) -> list[Event]:
        received: list[Event] = []
        while not received or received[-1].kind != "done":
            left = cuts.randrange(1, 30)
            async for event in app.events(receipt, received[-1].seq if received else 0):
                received.append(event)
                left -= 1
                if not left:
                    break
        return received

    receipt = await work.submit()
    followers = [asyncio.create_task(follow(Random(random.random()))) for _ in range(10)]
    while not (await app.get(receipt)).ended:
        await app.drain()
    received = await asyncio.wait_for(asyncio.gather(*followers), 20)

    log = [event async for event in app.events(receipt)]
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert [event.kind for event in log].count("started") == 4
    assert [event.kind for event in log].count("done") == 1
    assert received == [log] * 10


async def test_a_run_is_answered_from_another_process_and_a_third_one_sees_the_whole_log(file: str) -> None:
    def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", program, file, *arguments], stdout=subprocess.PIPE)

    async with Scheduler(file) as app:
        app.task(name="book")(lambda trip: None)
        receipt = await app.submit("book", {"trip": "Rome"})
        worker, follower = start(WORKER), start(FOLLOWER, receipt.run_id)
        log: list[Event] = []

        async def follow() -> None:
            async for event in app.events(receipt):
                log.append(event)
                if event.kind == "question":
                    await app.answer(receipt, {"agreed": event.data["question"]["price"]})

        await asyncio.wait_for(follow(), 50)
        seen, _ = await asyncio.to_thread(follower.communicate)
        worker.kill()
        worker.communicate()

        assert await app.result(receipt) == {"agreed": 120}
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    kinds = ["started", "log", "question", "answered", "started", "log", "progress", "result", "done"]
    assert [event.kind for event in log] == kinds
    assert [msgspec.json.decode(line, type=Event) for line in seen.splitlines()] == log
