"""Promise 9. The same meaning on every store. The proof is the contract suite; this is what it comes to for a user."""

from __future__ import annotations

from typing import Any

from laneway import Context, Lane, Retry, Scheduler
from laneway.testing import FakeClock


async def a_day_at_work(url: str) -> list[Any]:
    """Return everything a user can see of a few runs, without ids."""
    clock = FakeClock()
    seen: list[Any] = []
    async with Scheduler(url, clock=clock, lanes=[Lane("main", limit=2, per_user=1)]) as app:

        @app.task(retry=Retry.delays(5))
        async def work(n: int, *, ctx: Context) -> dict[str, int]:
            seen.append(("start", n, ctx.attempt, ctx.user, ctx.session))
            ctx.log(f"working on {n}")
            if n == 3:
                raise ValueError("never works")
            if n == 4 and ctx.attempt == 1:
                raise ValueError("works later")
            return {"n": n}

        receipts = [
            await app.submit(work, {"n": n}, user=f"user {n % 3}", session=f"chat {n % 2}", priority=n % 4)
            for n in range(8)
        ]
        receipts.append(await app.submit(work, {"n": 8}, delay=7, lane="nowhere"))
        for _ in range(4):
            await app.drain(concurrency=1)
            await clock.advance(5)

        for receipt in receipts:
            run = await app.get(receipt)
            seen.append((receipt.outcome, receipt.reason, receipt.position))
            seen.append(
                (
                    run.number,
                    run.lane,
                    run.state,
                    run.attempt,
                    run.fence,
                    run.result,
                    run.reason,
                    run.error and run.error.message,
                )
            )
            seen.append((run.accepted_at, run.due_at, run.started_at, run.ended_at))
            seen.append([(e.seq, e.kind, e.attempt, e.at) async for e in app.events(receipt)])
    return seen


async def test_a_file_means_what_memory_means(file: str) -> None:
    in_memory = await a_day_at_work("memory://")
    in_a_file = await a_day_at_work(file)

    assert in_a_file == in_memory
