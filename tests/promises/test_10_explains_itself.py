"""Promise 10. It explains itself: `why(run)` names what a run waits for."""

from __future__ import annotations

import asyncio
from typing import Any

from laneway import Context, Lane, Scheduler
from laneway.core.records.run import Gate
from laneway.testing import FakeClock


async def test_each_gate_is_named_with_who_holds_it_and_when_it_opens(url: str, clock: FakeClock) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    async with Scheduler(url, clock=clock, lanes=[Lane("main", limit=2, per_user=1)]) as app:

        @app.task
        async def work() -> None:
            begun.set()
            await may_end.wait()

        async with app.running():
            first = await work.using(user="ann", session="chat").submit()
            await asyncio.wait_for(begun.wait(), 10)
            behind = await work.using(user="ben", session="chat").submit()
            capped = await work.using(user="ann").submit()
            later = await work.using(delay=60).submit()
            found = {receipt.run_id: await app.why(receipt) for receipt in (first, behind, capped, later)}
            may_end.set()
            for receipt in (behind, capped):
                await app.wait(receipt, timeout=10)

    gates = {
        run_id: [(reason.gate, reason.holder, reason.runs) for reason in reasons] for run_id, reasons in found.items()
    }
    assert gates == {
        first.run_id: [],
        behind.run_id: [(Gate.SESSION_BUSY, "session chat", (first.run_id,))],
        capped.run_id: [(Gate.USER_AT_CAP, "user ann", (first.run_id,))],
        later.run_id: [(Gate.NOT_DUE, None, ())],
    }
    [not_due] = found[later.run_id]
    assert not_due.opens_at is not None
    assert round(not_due.opens_at.timestamp() * 1_000_000) == clock.now() + 60_000_000


async def test_opening_what_it_names_starts_the_run(url: str, clock: FakeClock) -> None:
    async with Scheduler(url, clock=clock) as app:
        app.task(name="work")(lambda: "done")
        await app.lanes.pause("main")
        await app.tasks.pause("work")
        await app.users.pause("ann")
        await app.sessions.pause("chat")
        receipt = await app.submit("work", user="ann", session="chat")

        reasons = await app.why(receipt)
        opened: dict[str, Any] = {
            "lane main": app.lanes,
            "task work": app.tasks,
            "user ann": app.users,
            "session chat": app.sessions,
        }
        for holder, noun in opened.items():
            await app.drain()
            assert (await app.get(receipt)).started_at is None
            await noun.resume(holder.partition(" ")[2])
        await app.drain()

        assert {reason.holder for reason in reasons if reason.gate is Gate.PAUSED} == set(opened)
        assert [reason.gate for reason in reasons if reason.gate is not Gate.PAUSED] == [Gate.NO_WORKER]
        assert await app.result(receipt) == "done"


async def test_a_run_that_waits_names_the_question_or_the_run_it_waits_for(app: Scheduler) -> None:
    @app.task
    async def ask(*, ctx: Context) -> None:
        await ctx.ask("go on?", name="go")

    @app.task
    async def call(*, ctx: Context) -> None:
        await ctx.call(ask)

    receipt = await call.submit()
    await app.drain()
    [child] = await app.runs(task="ask")
    [called], [asked] = await app.why(receipt), await app.why(child)

    assert (called.gate, called.runs) == (Gate.CALL, (child.id,))
    assert (asked.gate, asked.holder) == (Gate.ANSWER, "question go")
