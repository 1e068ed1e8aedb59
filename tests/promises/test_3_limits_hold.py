"""Promise 3. Limits hold across all processes: lane, user, session; no crash can leak a slot."""

from __future__ import annotations

import asyncio
from collections import Counter

from laneway import Context, Lane, Scheduler, SessionPolicy, Submission
from laneway.testing import FakeClock, Hand
from tests.support.waits import turns

LANES = [Lane("narrow", limit=3, per_user=2)]


async def test_no_lane_user_or_session_is_ever_over_its_limit_however_many_workers_there_are(file: str) -> None:
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def work(*, ctx: Context) -> None:
        names = ["lane", f"user {ctx.user}", f"session {ctx.session}"]
        inside.update(names)
        for name in names:
            most[name] = max(most[name], inside[name])
        await turns()
        inside.subtract(names)

    async with Scheduler(file, lanes=LANES) as one, Scheduler(file, lanes=LANES) as other:
        for app in (one, other):
            app.task(name="work", lane="narrow")(work)
        policy = SessionPolicy(cap=60)
        messages = [Submission("work", user=f"{n % 2}", session=f"{n % 5}", session_policy=policy) for n in range(60)]
        receipts = await one.submit_many(messages)
        async with one.running(), other.running():
            await asyncio.gather(*(other.wait(receipt, timeout=20) for receipt in receipts))

    assert most["lane"] == 3
    assert max(most["user 0"], most["user 1"]) == 2
    assert [most[f"session {n}"] for n in range(5)] == [1] * 5


async def test_the_slot_of_a_worker_that_died_is_free_again(url: str, clock: FakeClock) -> None:
    async with Scheduler(url, clock=clock, lanes=[Lane("main", limit=1)]) as app:
        app.task(name="work")(lambda: "done")
        receipts = [await app.submit("work"), await app.submit("work")]
        store = await app.open()
        dead = await Hand(store, "dead", tasks={"work"}).register()
        await dead.claim()
        witness = await Hand(store, "witness").register()
        for _ in range(4):
            await clock.advance(5)
            witness.renew()

        await app.drain()

        assert [await app.result(receipt, timeout=5) for receipt in receipts] == ["done", "done"]


async def test_a_run_that_waits_for_an_answer_or_a_call_holds_no_slot(url: str) -> None:
    async with Scheduler(url, lanes=[Lane("narrow", limit=1, per_user=1)]) as app:

        @app.task(lane="narrow")
        async def ask(*, ctx: Context) -> str:
            return str(await ctx.ask("go on?"))

        @app.task(lane="narrow")
        async def call(*, ctx: Context) -> str:
            return str(await ctx.call(ask))

        parent = await call.using(user="ann").submit()
        other = await ask.using(user="ann").submit()
        await app.drain()

        waiting = await app.runs(state="waiting")
        [lane] = [state for state in await app.lanes.list() if state.lane.name == "narrow"]
        for run in waiting:
            if run.task == "ask":
                await app.answer(run, "yes")
        await app.drain()

        assert len(waiting) == 3
        assert lane.active == 0
        assert [await app.result(receipt, timeout=5) for receipt in (parent, other)] == ["yes", "yes"]
