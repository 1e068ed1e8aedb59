"""Promise 1. Nothing the store acknowledged is lost: a receipt for every submission, one ending for every run."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from laneway import Context, Retry, Scheduler

WORKER = """
import asyncio, sys
from laneway import Context, Scheduler

app = Scheduler(sys.argv[1])

@app.task
async def work(n: int) -> int:
    print("started", flush=True)
    await asyncio.sleep(3600)
    return n

@app.task
async def order(*, ctx: Context):
    await ctx.step("pay", lambda: print("paid", flush=True))
    ctx.submit("work", {"n": 1})
    print("at the end", flush=True)
    await asyncio.sleep(3600)

asyncio.run(app.work())
"""


async def test_every_submission_gets_a_receipt_and_every_run_ends_exactly_once(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(0))
    async def work(n: int, *, ctx: Context) -> int:
        if n % 3 == 0 and ctx.attempt == 1:
            raise ValueError("the first time, a third of them fail")
        return n

    receipts = await asyncio.gather(*(work.submit(n=n) for n in range(100)))
    await app.drain()

    for n, receipt in enumerate(receipts):
        assert await app.result(receipt, timeout=5) == n
        endings = [event async for event in app.events(receipt) if event.kind == "done"]
        assert len(endings) == 1


async def test_what_was_accepted_is_there_after_everything_was_closed(file: str) -> None:
    async with Scheduler(file) as app:
        app.task(name="work")(lambda: "done")
        receipt = await app.submit("work")

    async with Scheduler(file) as later:
        later.task(name="work")(lambda: "done")
        await later.drain()

        assert await later.result(receipt, timeout=5) == "done"


async def test_the_runs_of_a_worker_that_was_killed_are_finished_by_the_next(file: str) -> None:
    async with Scheduler(file) as app:

        @app.task
        async def work(n: int) -> int:
            return n

        receipts = [await work.submit(n=n) for n in range(20)]
        worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, file, stdout=subprocess.PIPE)
        assert worker.stdout is not None
        await worker.stdout.readline()  # it has started a run
        worker.kill()
        await worker.wait()
        held = await app.runs(state="running")
        await app.drain()

        assert held
        assert [await app.result(receipt, timeout=5) for receipt in receipts] == list(range(20))


async def test_a_killed_worker_leaves_what_was_paid_for_paid_and_no_follow_up_twice(file: str) -> None:
    paid: list[str] = []
    async with Scheduler(file) as app:

        @app.task
        async def work(n: int) -> int:
            return n

        @app.task
        async def order(*, ctx: Context) -> str:
            await ctx.step("pay", lambda: paid.append("again"))
            ctx.submit(work, {"n": 1})
            return "ordered"

        receipt = await order.submit()
        worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, file, stdout=subprocess.PIPE)
        assert worker.stdout is not None
        said = [await worker.stdout.readline() for _ in range(2)]
        worker.kill()
        await worker.wait()
        before = await app.runs(task="work")
        await app.drain()

        assert said == [b"paid\n", b"at the end\n"]
        assert paid == []
        assert await app.result(receipt, timeout=5) == "ordered"
        [left] = await app.runs(task="work")
        assert (before, left.parent, left.result) == ([], receipt.run_id, 1)
