"""The system's clock: a sleep is as long as it is meant to be."""

from __future__ import annotations

import asyncio
import time

import pytest

from laneway.engine.common.clock import SystemClock

EARLY = time.get_clock_info("monotonic").resolution  # a loop may end a sleep so much too early


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e-9, 0.0005, 0.0035])
async def test_a_sleep_is_as_long_as_it_is_meant_to_be(seconds: float) -> None:
    start = time.monotonic()
    await SystemClock().sleep(seconds)
    assert time.monotonic() - start >= seconds - EARLY


async def test_many_sleep_at_once() -> None:
    async def sleep(nth: int) -> bool:
        seconds, begun = 0.003 + nth * 0.004, time.monotonic()
        await SystemClock().sleep(seconds)
        return time.monotonic() - begun >= seconds - EARLY

    # Not in which order: on a busy machine several are over when the loop looks.
    assert await asyncio.gather(*map(sleep, (3, 1, 4, 0, 2))) == [True] * 5
