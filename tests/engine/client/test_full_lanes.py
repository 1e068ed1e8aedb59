"""Lanes that are full: what callers of `submit` see."""

from __future__ import annotations

import asyncio

import pytest

from laneway import BadSetting, Lane, Scheduler, SessionPolicy, Submission
from laneway.core.records.run import ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.waits import as_time_passes, soon, turns, until
from tests.support.watched_store import WatchedStore

ACCEPTED, REFUSED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.REFUSED


async def narrow(app: Scheduler, when_full: str, most: int = 2) -> None:
    """Bound the main lane, and register a task."""
    app.task(name="work")(lambda: "done")
    await app.lanes.set(Lane("main", limit=1, max_pending=most, when_full=when_full))


async def test_a_lane_that_refuses_says_so_and_stores_nothing(app: Scheduler) -> None:
    await narrow(app, "refuse")

    receipts = [await app.submit("work") for _ in range(3)]

    assert [receipt.outcome for receipt in receipts] == [ACCEPTED, ACCEPTED, REFUSED]
    assert (receipts[2].reason, receipts[2].accepted) == ("lane_full", False)
    assert len(await app.runs()) == 2
    assert (await app.lanes.get("main")).counts == {"refused lane_full": 1}


async def test_a_lane_that_drops_the_old_keeps_the_new(app: Scheduler) -> None:
    await narrow(app, "drop_old")

    receipts = [await app.submit("work") for _ in range(4)]
    await app.drain()

    states = [(await app.get(receipt)).state for receipt in receipts]
    assert [receipt.outcome for receipt in receipts] == [ACCEPTED] * 4
    assert states == [RunState.DROPPED] * 2 + [RunState.SUCCEEDED] * 2
    assert (await app.get(receipts[0])).reason == "lane_full"


async def test_a_lane_that_lets_callers_wait_takes_them_when_there_is_room(app: Scheduler) -> None:
    await narrow(app, "wait")
    for _ in range(2):
        await app.submit("work")

    waiting = asyncio.create_task(app.submit("work"))
    await turns()
    before = waiting.done()
    async with app.running():
        receipt = await soon(waiting)
        result = await app.result(receipt, timeout=10)

    assert not before
    assert (receipt.outcome, result) == (ACCEPTED, "done")
    assert (await app.lanes.get("main")).counts == {}


async def test_who_has_waited_long_enough_is_refused_and_counted_once(url: str, clock: FakeClock) -> None:
    async with Scheduler(url, clock=clock, submit_timeout=5) as app:
        await narrow(app, "wait", most=1)
        await app.submit("work")
        began = clock.monotonic()

        receipt = await as_time_passes(clock, app.submit("work"))

        # Time goes on while a thread waits for the disk, and on a busy machine that takes some of the clock's steps.
        assert 5 <= clock.monotonic() - began < 10
        assert (receipt.outcome, receipt.reason) == (REFUSED, "lane_full")
        assert (await app.lanes.get("main")).counts == {"refused lane_full": 1}


async def test_many_at_once_trickle_in_and_each_gets_its_receipt(app: Scheduler) -> None:
    await narrow(app, "wait")

    async with app.running():
        receipts = await soon(app.submit_many([Submission("work") for _ in range(20)]))
        for receipt in receipts:
            await app.wait(receipt, timeout=10)

    assert [receipt.outcome for receipt in receipts] == [ACCEPTED] * 20
    assert len({receipt.run_id for receipt in receipts}) == 20


async def test_a_refused_submission_has_no_run_to_wait_for(app: Scheduler) -> None:
    await narrow(app, "refuse", most=1)
    await app.submit("work")
    receipt = await app.submit("work")

    with pytest.raises(BadSetting, match=r"the submission was refused \(lane_full\): there is no run"):
        await app.result(receipt)


async def test_retries_are_not_refused_by_a_full_lane(app: Scheduler, clock: FakeClock) -> None:
    attempts = []

    @app.task(retry=2)
    async def fails() -> None:
        attempts.append(1)
        raise ConnectionError("busy")

    await app.lanes.set(Lane("main", max_pending=1, when_full="refuse"))
    receipt = await app.submit(fails)
    async with app.running():
        await until(lambda: len(attempts) == 1)
        await app.submit(fails)
        run = await as_time_passes(clock, app.wait(receipt))

    assert run.attempt == 2
    assert len(attempts) >= 2


async def test_an_interrupt_is_not_kept_out_by_what_it_drops(app: Scheduler) -> None:
    begun = asyncio.Event()

    @app.task
    async def answer(text: str) -> str:
        if text == "a":
            begun.set()
            await asyncio.Event().wait()
        return text

    await app.lanes.set(Lane("main", limit=5, max_pending=2, when_full="refuse"))
    chat = answer.using(session="chat")
    async with app.running():
        await chat.submit(text="a")
        await soon(begun.wait())
        queued = [await chat.submit(text=text) for text in "bc"]
        assert (await chat.submit(text="d")).reason == "lane_full"

        receipt = await answer.using(session="chat", session_policy=SessionPolicy(mode="interrupt")).submit(text="e")

        assert receipt.outcome == "accepted"
        assert await app.result(receipt, timeout=10) == "e"
    assert [(await app.get(run)).reason for run in queued] == ["interrupted"] * 2


async def test_callers_that_wait_for_a_full_lane_come_back_together(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    work = lossy.task(name="work")(lambda n: n)
    await lossy.lanes.set(Lane("main", max_pending=1))
    await work.submit(n=0)
    waiting = [asyncio.ensure_future(work.submit(n=n)) for n in range(100)]
    await turns()
    before = watched.calls["submit"]

    # It takes no one in, and it wakes all of them.
    await lossy.lanes.set(Lane("main", max_pending=1, per_user=7))
    await turns()

    assert watched.calls["submit"] - before <= 2
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert (await watched.depths()).runs == {"pending": 1}
