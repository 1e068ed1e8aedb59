"""Promise 4. Order holds: a session's runs start in the order they became due (without a delay: were accepted)."""

from __future__ import annotations

import asyncio

from laneway import Context, Retry, Scheduler, SessionPolicy
from laneway.testing import FakeClock


async def test_a_conversation_is_answered_in_the_order_it_was_written(app: Scheduler) -> None:
    answered: dict[str | None, list[int]] = {"chat-1": [], "chat-2": []}

    @app.task
    async def answer(message: int, *, ctx: Context) -> None:
        answered[ctx.session].append(message)
        await asyncio.sleep(0)

    policy = SessionPolicy(cap=20)
    for message in range(20):
        for session in answered:
            urgent = 100 if message % 4 == 3 else 0  # priority moves no run past another of its session
            await app.submit(answer, {"message": message}, session=session, priority=urgent, session_policy=policy)
    await app.drain()

    assert answered == {"chat-1": list(range(20)), "chat-2": list(range(20))}


async def test_a_message_that_has_to_be_tried_again_is_not_overtaken(app: Scheduler) -> None:
    answered: list[int] = []

    @app.task(retry=Retry.delays(0.01))
    async def answer(message: int, *, ctx: Context) -> None:
        if message == 0 and ctx.attempt == 1:
            raise ConnectionError("the model is busy")
        answered.append(message)

    receipts = [await app.submit(answer, {"message": message}, session="chat") for message in range(3)]
    async with app.running():
        await asyncio.gather(*(app.wait(receipt, timeout=10) for receipt in receipts))

    assert answered == [0, 1, 2]


async def test_a_delayed_message_takes_its_place_when_it_is_due(url: str, clock: FakeClock) -> None:
    answered: list[str] = []

    async with Scheduler(url, clock=clock) as app:

        @app.task
        async def answer(message: str) -> None:
            answered.append(message)

        await app.submit(answer, {"message": "accepted first, due last"}, session="chat", delay=10)
        await app.submit(answer, {"message": "due at once"}, session="chat")
        await clock.advance(5)
        await app.submit(answer, {"message": "due in between"}, session="chat")
        await clock.advance(5)
        await app.drain()

    assert answered == ["due at once", "due in between", "accepted first, due last"]


async def test_whoever_asks_or_calls_keeps_its_place_and_its_child_waits_for_nobody(app: Scheduler) -> None:
    answered: list[str] = []

    @app.task
    async def look_up(*, ctx: Context) -> str:
        answered.append(f"looked up in {ctx.session}")
        return "found"

    @app.task
    async def answer(message: str, *, ctx: Context) -> None:
        if message == "first":
            await ctx.call(look_up)
            await ctx.ask("is that what you want?")
        answered.append(message)

    policy = SessionPolicy(while_waiting="queue")
    for message in ("first", "second"):
        await app.submit(answer, {"message": message}, session="chat", session_policy=policy)
    await app.drain()
    before = list(answered)
    [asking] = await app.runs(state="waiting")
    await app.answer(asking, "yes")
    await app.drain()

    assert before == ["looked up in chat"]
    assert answered == ["looked up in chat", "first", "second"]
