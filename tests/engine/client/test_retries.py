"""Client calls that get no answer: repeated three times, 1 to 8 seconds apart, and nothing is doubled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway import Receipt, Scheduler, StoreUnavailable
from laneway.engine.client.client import REPEAT_AFTER
from laneway.engine.client.submit_batcher import BATCH
from laneway.testing import FakeClock
from tests.support.waits import as_time_passes, turns
from tests.support.watched_store import WatchedStore

TRIES = 1 + len(REPEAT_AFTER)


@pytest.fixture
def lossy(lossy: Scheduler) -> Scheduler:
    @lossy.task
    def work(n: int = 0) -> int:
        return n

    return lossy


async def test_a_lost_answer_doubles_nothing(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    watched.lose_reply("submit", times=TRIES - 1)

    receipt = await as_time_passes(clock, lossy.submit("work"))

    assert watched.calls["submit"] == TRIES
    assert [run.id for run in await lossy.runs()] == [receipt.run_id]


async def test_a_call_that_did_not_arrive_is_repeated(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    watched.fail("submit", times=TRIES - 1)

    receipt = await as_time_passes(clock, lossy.submit("work"))

    assert [run.id for run in await lossy.runs()] == [receipt.run_id]


async def test_repeats_come_one_to_eight_seconds_apart(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    watched.fail("get", times=TRIES)
    receipt = await lossy.submit("work")
    call = asyncio.create_task(lossy.get(receipt))

    seen = []
    for wait in REPEAT_AFTER:
        await clock.advance(wait - 0.001)
        seen.append(watched.calls["get"])
        await clock.advance(0.001)
    await turns()

    assert list(REPEAT_AFTER) == [1, 3, 8]
    assert seen == [1, 2, 3]
    assert watched.calls["get"] == TRIES
    with pytest.raises(StoreUnavailable):
        await call


@pytest.mark.parametrize(
    ("faults", "maybe_done"),
    [
        ("....", False),
        ("???.", True),
        ("?...", True),
        ("...?", True),
    ],
)
async def test_who_gives_up_says_whether_it_may_have_happened(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock, faults: str, maybe_done: bool
) -> None:
    for fault in faults:
        watched.lose_reply("submit") if fault == "?" else watched.fail("submit")

    with pytest.raises(StoreUnavailable) as caught:
        await as_time_passes(clock, lossy.submit("work"))

    assert caught.value.maybe_done is maybe_done
    assert watched.calls["submit"] == TRIES
    assert len(await lossy.runs()) == int(maybe_done)


async def test_every_caller_of_a_batch_hears_that_it_failed(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    watched.fail("submit", times=TRIES)

    calls = asyncio.gather(*(lossy.submit("work") for _ in range(3)), return_exceptions=True)
    answers = await as_time_passes(clock, calls)

    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    assert await lossy.runs() == []


async def test_after_an_outage_the_next_call_works(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    watched.fail("submit", times=TRIES)
    with pytest.raises(StoreUnavailable):
        await as_time_passes(clock, lossy.submit("work"))

    receipt = await lossy.submit("work")

    assert [run.id for run in await lossy.runs()] == [receipt.run_id]


@pytest.mark.parametrize("verb", ["get", "runs", "events"])
async def test_reading_is_repeated_too(lossy: Scheduler, watched: WatchedStore, clock: FakeClock, verb: str) -> None:
    receipt = await lossy.submit("work", {"n": 7})
    await lossy.drain()
    watched.fail(verb, times=2)
    watched.lose_reply(verb)

    run = await as_time_passes(clock, lossy.get(receipt))
    runs = await as_time_passes(clock, lossy.runs())
    value = await as_time_passes(clock, lossy.result(receipt))
    first = await as_time_passes(clock, anext(lossy.events(receipt)))

    assert watched.faults == 3
    assert (run.id, [run.id for run in runs], value, first.kind) == (receipt.run_id, [run.id], 7, "started")


async def test_many_submissions_on_a_bad_line_all_arrive_once(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    async def one(n: int) -> Receipt:
        await asyncio.sleep(0) if n % 3 else await turns(2)
        return await lossy.submit("work", {"n": n})

    await lossy.open()
    watched.chance = 0.2
    calls = asyncio.gather(*(one(n) for n in range(200)))
    receipts = await as_time_passes(clock, calls)
    watched.chance = 0.0

    runs = await lossy.runs(limit=1000)
    assert {run.id for run in runs} == {receipt.run_id for receipt in receipts}
    assert sorted(run.args["n"] for run in runs) == list(range(200))


async def test_submit_many_that_fails_half_way_says_that_something_was_stored(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    await lossy.open()
    first_part = watched.submit

    async def only_the_first_part(batch: Any) -> Any:
        if watched.batches:
            watched.fail("submit")
        return await first_part(batch)

    watched.submit = only_the_first_part  # type: ignore[method-assign]  # for this one test
    with pytest.raises(StoreUnavailable) as caught:
        await as_time_passes(clock, lossy.submit_many([("work", {}) for _ in range(BATCH + 100)]))

    assert len(await lossy.runs(limit=2 * BATCH)) == BATCH
    assert caught.value.maybe_done
