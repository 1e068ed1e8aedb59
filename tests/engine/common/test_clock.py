"""The system's clock: sleeps end in their time, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from laneway.engine.common import clock
from laneway.engine.common.clock import SystemClock


@pytest.fixture(params=["timer", "loop"])
def with_timer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Tell whether there is a timer of the kernel's; else the loop has to do."""
    if request.param == "loop":
        monkeypatch.setattr(clock, "_timer_at", lambda _: None)
    return bool(request.param == "timer")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e-9, 0.0005, 0.0035])
async def test_a_sleep_is_as_long_as_it_is_meant_to_be(seconds: float, *, with_timer: bool) -> None:
    start = time.monotonic()
    await SystemClock().sleep(seconds)
    assert time.monotonic() - start >= seconds - (0 if with_timer else time.get_clock_info("monotonic").resolution)


async def test_many_sleep_at_once(*, with_timer: bool) -> None:
    async def sleep(nth: int) -> bool:
        seconds, begun = 0.003 + nth * 0.004, time.monotonic()
        await SystemClock().sleep(seconds)
        return time.monotonic() - begun >= seconds

    # Not in which order: on a busy machine several are over when the loop looks.
    assert await asyncio.gather(*map(sleep, (3, 1, 4, 0, 2))) == [True] * 5


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
async def test_a_sleep_that_is_cancelled_leaves_no_file_open(*, with_timer: bool) -> None:
    before = open_files()
    sleeping = [asyncio.create_task(SystemClock().sleep(0.0019)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in sleeping:
        task.cancel()
    await asyncio.gather(*sleeping, return_exceptions=True)
    assert open_files() == before


@pytest.mark.wall_clock
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such timers")
async def test_a_timer_wakes_within_less_than_a_loop_rounds_to() -> None:
    late: list[float] = []
    for _ in range(20):
        start = time.monotonic()
        await SystemClock().sleep(0.0031)
        late.append(time.monotonic() - start - 0.0031)
    # The best of many: a machine may be busy. A loop by itself would be 0.9 ms late each time.
    assert min(late) < 0.0005


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such timers")
async def test_a_sleep_ends_though_the_loop_takes_its_file_for_one_that_was_closed() -> None:
    loop = asyncio.get_running_loop()
    one, other = os.pipe()
    loop.add_reader(one, lambda: None)
    os.close(one)  # and the loop is not told, so the timer gets its number
    try:
        done, _ = await asyncio.wait([asyncio.create_task(SystemClock().sleep(0.001))], timeout=2)
    finally:
        loop.remove_reader(one)
        os.close(other)
    assert done


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
async def test_many_who_sleep_take_few_files() -> None:
    before = open_files()
    sleeping = [asyncio.create_task(SystemClock().sleep(0.0019)) for _ in range(200)]
    await asyncio.sleep(0)

    assert open_files() - before <= 16
    await asyncio.gather(*sleeping)
    assert open_files() == before
