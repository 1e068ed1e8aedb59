"""Promise 2. A late worker can do no harm: every write of a worker carries a fence, and a stale one is refused."""

from __future__ import annotations

import pytest

from laneway import Context, Scheduler
from laneway.errors import LeaseLost
from laneway.testing import FakeClock, Hand


async def test_what_a_worker_writes_after_it_was_taken_for_dead_is_refused(url: str, clock: FakeClock) -> None:
    async with Scheduler(url, clock=clock) as app:

        @app.task
        async def work(*, ctx: Context) -> str:
            return f"written under fence {ctx.fence}"

        receipt = await work.submit()
        store = await app.open()
        frozen = await Hand(store, "frozen", tasks={"work"}).register()
        [lease] = await frozen.claim()
        witness = await Hand(store, "witness").register()
        for _ in range(4):  # twenty seconds in which everybody but the frozen one renews
            await clock.advance(5)
            witness.renew()
        await app.drain()

        with pytest.raises(LeaseLost):
            await frozen.succeed(lease, value="written too late")
        assert lease.fence == 1
        assert await app.result(receipt, timeout=5) == "written under fence 2"
        assert [event.kind async for event in app.events(receipt)] == [
            "started",
            "lapsed",
            "started",
            "result",
            "done",
        ]
