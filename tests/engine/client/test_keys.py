"""Idempotency keys: the same submission twice is one run."""

from __future__ import annotations

import pytest

from laneway import KeyConflict, Scheduler, Submission
from laneway.core.records.run import ReceiptOutcome
from laneway.core.records.states import RunState


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
