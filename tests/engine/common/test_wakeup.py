"""The bell: anybody rings, one waits, many rings before the wait are one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from laneway.engine.common.wakeup import Bell
from tests.engine.support import soon, turns


async def test_a_ring_wakes_the_waiter() -> None:
    bell = Bell()
    waiting = asyncio.create_task(bell.wait())
    await turns()
    early = waiting.done()

    bell.ring()

    await soon(waiting)
    assert not early


async def test_many_rings_before_the_wait_are_one() -> None:
    bell = Bell()
    for _ in range(3):
        bell.ring()

    await soon(bell.wait())
    second = asyncio.create_task(bell.wait())
    await turns()

    assert not second.done()
    bell.ring()
    await soon(second)


async def test_a_ring_between_two_waits_is_not_lost() -> None:
    bell = Bell()
    rounds = 0

    async def listener() -> None:
        nonlocal rounds
        while rounds < 10:
            await bell.wait()
            rounds += 1
            await asyncio.sleep(0)

    listening = asyncio.create_task(listener())
    while rounds < 10:
        bell.ring()
        await asyncio.sleep(0)

    await soon(listening)


async def test_a_thread_can_ring() -> None:
    bell = Bell()
    waiting = asyncio.create_task(bell.wait())

    threading.Thread(target=bell.ring_from_thread).start()

    await soon(waiting)


async def test_hush_forgets_the_rings_so_far() -> None:
    bell = Bell()
    bell.ring()
    bell.hush()

    waiting = asyncio.create_task(bell.wait())
    await turns()

    assert not waiting.done()
    bell.ring()
    await soon(waiting)


async def test_a_waiter_that_is_cancelled_leaves_the_bell_usable() -> None:
    bell = Bell()
    first = asyncio.create_task(bell.wait())
    await turns()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    bell.ring()

    await soon(bell.wait())


def test_ringing_after_the_loop_has_closed_is_harmless() -> None:
    async def make() -> Bell:
        return Bell()

    bell = asyncio.run(make())

    bell.ring_from_thread()


def test_a_bell_belongs_to_a_running_loop() -> None:
    with pytest.raises(RuntimeError):
        Bell()
