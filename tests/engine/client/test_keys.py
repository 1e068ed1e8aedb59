"""Idempotency keys: the same submission twice is one run."""

from __future__ import annotations

import asyncio

import pytest

from laneway import Context, KeyConflict, Scheduler, SessionPolicy, Submission
from laneway.core.records.run import ReceiptOutcome
from laneway.core.records.states import RunState
from tests.support.waits import soon, until


async def test_the_same_key_returns_what_it_made_and_how_that_stands(app: Scheduler) -> None:
    @app.task
    async def charge(amount: int, note: str = "") -> int:
        return amount

    first = await charge.using(user="ann", key="order-7").submit(amount=5, note="x")
    again = await charge.using(user="ann", key="order-7").submit(note="x", amount=5)
    await app.drain()
    later = await charge.using(user="ann", key="order-7").submit(amount=5, note="x")

    assert (again.outcome, again.run_id, again.state) == (ReceiptOutcome.EXISTING, first.run_id, RunState.PENDING)
    assert later.state is RunState.SUCCEEDED
    assert await app.result(later) == 5
    assert len(await app.runs()) == 1


async def test_a_key_with_other_arguments_raises_and_stores_nothing(app: Scheduler) -> None:
    @app.task
    async def charge(amount: int) -> None: ...

    first = await charge.using(key="order-7").submit(amount=5)

    with pytest.raises(KeyConflict, match="key 'order-7' was used with other arguments") as caught:
        await charge.using(key="order-7").submit(amount=6)

    assert caught.value.run_id == first.run_id
    assert len(await app.runs()) == 1


async def test_keys_of_other_users_and_tasks_are_other_keys(app: Scheduler) -> None:
    app.task(name="one")(lambda: None)
    app.task(name="two")(lambda: None)

    receipts = [await app.submit(task, user=user, key="k") for task in ("one", "two") for user in ("ann", "ben", None)]

    assert len({receipt.run_id for receipt in receipts}) == 6


async def test_one_bad_item_of_many_does_not_fail_its_neighbours(app: Scheduler) -> None:
    @app.task
    async def charge(amount: int) -> None: ...

    receipts = await app.submit_many([Submission(charge, {"amount": n % 3}, key=f"k{n % 2}") for n in range(4)])

    outcomes = [(receipt.outcome.value, receipt.reason) for receipt in receipts]
    assert outcomes == [
        ("accepted", None),
        ("accepted", None),
        ("refused", "key_conflict"),
        ("refused", "key_conflict"),
    ]
    assert len(await app.runs()) == 2


STEER = SessionPolicy(mode="steer")


async def test_a_message_that_was_dropped_unread_frees_its_key(app: Scheduler) -> None:
    begun = asyncio.Event()

    @app.task
    async def answer(text: str, *, ctx: Context) -> str:
        begun.set()
        if text == "a":
            await asyncio.Event().wait()
        return text

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        first = await chat.submit(text="a")
        await soon(begun.wait())
        assert (await chat.using(key="k").submit(text="b")).outcome == "steered"
        await app.sessions.stop_all("chat")
        await soon(app.wait(first))  # until then the handler may still read it

        again = await chat.using(key="k").submit(text="b")

        assert again.outcome == "accepted"


async def test_the_key_of_a_message_left_unread_stands_for_the_run_it_became(app: Scheduler) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def answer(text: str, *, ctx: Context) -> str:
        begun.set()
        await may_end.wait()
        return text

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        await chat.submit(text="a")
        await soon(begun.wait())
        await chat.using(key="k").submit(text="b")
        may_end.set()
        await soon(app.stop(timeout=5))

    again = await chat.using(key="k").submit(text="b")
    await app.drain()

    assert again.outcome == "existing"
    assert await soon(app.result(again)) == "b"


@pytest.mark.checklist("W4-6")
async def test_two_runs_of_one_task_with_the_same_arguments_are_told_apart(app: Scheduler) -> None:
    may_end, begun = asyncio.Event(), []

    @app.task
    async def digest(day: str, *, ctx: Context) -> str:
        begun.append(ctx.run_id)
        await may_end.wait()
        return ctx.run_id

    async with app.running():
        one, other = [await app.submit(digest, {"day": "today"}) for _ in range(2)]
        await until(lambda: len(begun) == 2)
        await app.cancel(one)
        cancelled = await soon(app.wait(one))
        may_end.set()

        assert await soon(app.result(other)) == other.run_id
    assert cancelled.state is RunState.CANCELLED
    assert sorted(begun) == sorted([one.run_id, other.run_id])
