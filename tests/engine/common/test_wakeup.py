"""The wake-up event: anybody sets it, one waits, several before the wait are one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from laneway.engine.common.wakeup import Wakeup
from tests.support.waits import soon, turns


async def test_setting_wakes_the_waiter() -> None:
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait_and_clear())
    await turns()
    early = waiting.done()

    wakeup.set()

    await soon(waiting)
    assert not early


async def test_setting_many_times_before_the_wait_counts_once() -> None:
    wakeup = Wakeup()
    for _ in range(3):
        wakeup.set()

    await soon(wakeup.wait_and_clear())
    second = asyncio.create_task(wakeup.wait_and_clear())
    await turns()

    assert not second.done()
    wakeup.set()
    await soon(second)


async def test_setting_between_two_waits_is_not_lost() -> None:
    wakeup = Wakeup()
    rounds = 0

    async def listener() -> None:
        nonlocal rounds
        while rounds < 10:
            await wakeup.wait_and_clear()
            rounds += 1
            await asyncio.sleep(0)

    listening = asyncio.create_task(listener())
    while rounds < 10:
        wakeup.set()
        await asyncio.sleep(0)

    await soon(listening)


async def test_a_thread_can_set_it() -> None:
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait_and_clear())

    threading.Thread(target=wakeup.set_from_thread).start()

    await soon(waiting)


async def test_clear_forgets_what_was_set_so_far() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.clear()

    waiting = asyncio.create_task(wakeup.wait_and_clear())
    await turns()

    assert not waiting.done()
    wakeup.set()
    await soon(waiting)


async def test_a_waiter_that_is_cancelled_leaves_the_wakeup_usable() -> None:
    wakeup = Wakeup()
    first = asyncio.create_task(wakeup.wait_and_clear())
    await turns()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    wakeup.set()

    await soon(wakeup.wait_and_clear())


def test_setting_after_the_loop_has_closed_is_harmless() -> None:
    async def make() -> Wakeup:
        return Wakeup()

    wakeup = asyncio.run(make())

    wakeup.set_from_thread()


def test_a_wakeup_belongs_to_a_running_loop() -> None:
    with pytest.raises(RuntimeError):
        Wakeup()
