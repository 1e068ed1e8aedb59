"""Adaptive concurrency: a session whose window fills gets one run at a time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from laneway import BadSetting, Scheduler, SessionPolicy
from laneway.core.records.load import throttled
from laneway.testing import FakeClock
from tests.support.waits import soon, turns, until

GROUP = SessionPolicy(max_concurrent=3)


class Talk:
    """A session of three at a time, and how many were active at once."""

    def __init__(self, app: Scheduler) -> None:
        self.active = self.most = 0
        self.may_end = asyncio.Event()

        @app.task
        async def speak() -> None:
            self.active += 1
            self.most = max(self.most, self.active)
            await self.may_end.wait()
            self.active -= 1

        self.task = speak.using(session="group", session_policy=GROUP)


@pytest.mark.parametrize(
    ("load", "most"),
    [((60, 100), 1), ((59, 100), 3), (0.6, 1), (0.1, 3), ((5, 0), 3), (None, 3)],
)
async def test_from_sixty_per_cent_on_one_at_a_time(url: str, clock: FakeClock, load: Any, most: int) -> None:
    async with Scheduler(url, clock=clock, load=lambda _: load) as app:
        talk = Talk(app)
        receipts = [await talk.task.submit() for _ in range(4)]
        async with app.running():
            await until(lambda: talk.active == most)
            talk.may_end.set()
            await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert talk.most == most


async def test_the_load_is_asked_again_when_a_run_ends(url: str, clock: FakeClock) -> None:
    loads = {"group": 0.9}
    async with Scheduler(url, clock=clock, load=loads.get) as app:
        talk = Talk(app)
        receipts = [await talk.task.submit() for _ in range(4)]
        async with app.running():
            await until(lambda: talk.active == 1)
            before = talk.most
            loads["group"] = 0.1
            talk.may_end.set()
            await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

        assert before == 1
        assert (await app.sessions.get("group")).throttled is False


async def test_a_message_for_later_brings_no_load_of_long_ago(url: str, clock: FakeClock) -> None:
    loads = {"group": 0.1}
    async with Scheduler(url, clock=clock, load=loads.get) as app:
        talk = Talk(app)
        await talk.task.using(delay=10).submit()
        loads["group"] = 0.9
        receipts = [await talk.task.submit() for _ in range(3)]
        async with app.running():
            await until(lambda: talk.active == 1)
            await clock.advance(11)
            while (found := await app.sessions.get("group")).queued < 3 and found.throttled:
                await turns()
            assert found.throttled is True
            talk.may_end.set()
            await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert talk.most == 1


def _raises(session: str) -> float:
    raise ValueError("cannot count")


async def _is_async(session: str) -> float:
    return 0.9


@pytest.mark.parametrize("load", [_raises, _is_async, lambda _: "much", lambda _: (1, 2, 3), lambda _: -1])
async def test_a_load_that_fails_is_reported_and_holds_nobody_up(
    url: str, clock: FakeClock, load: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with Scheduler(url, clock=clock, load=load) as app:
        talk = Talk(app)
        talk.may_end.set()
        with caplog.at_level(logging.WARNING):
            receipt = await talk.task.submit()
        await app.drain()
        run = await app.get(receipt)

    assert run.state.value == "succeeded"
    assert any("the load of session group is not known" in record.message for record in caplog.records)


async def test_numbers_can_be_set_on_the_session_instead(app: Scheduler) -> None:
    talk = Talk(app)
    receipts = [await talk.task.submit() for _ in range(3)]
    await app.sessions.set("group", load=(80_000, 100_000))
    async with app.running():
        await until(lambda: talk.active == 1)
        await turns()
        before = talk.most
        await app.sessions.set("group", load=(10_000, 100_000))
        await until(lambda: talk.active == 3)
        talk.may_end.set()
        await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert before == 1


@pytest.mark.parametrize("load", ["much", (1,), (1, "x"), -0.5, True, float("nan")])
def test_nonsense_is_no_load(load: Any) -> None:
    with pytest.raises(BadSetting, match=r"a load is a share of the window \(0\.6\), or \(used, window\), not"):
        throttled(load)
