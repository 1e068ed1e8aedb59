"""A loop that stands still is reported once per stall, with its stack; and the watchdog is watched itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from laneway import Scheduler
from laneway.core.records.status import LoopLag, ServiceHealth
from laneway.engine.common import stacks
from laneway.engine.common.clock import SystemClock
from laneway.engine.services import watchdog
from laneway.engine.services.supervisor import Supervisor
from laneway.engine.services.watchdog import Stall, Watchdog
from tests.support.waits import IN_TIME, soon, until

STALL_AFTER = 0.1


class Alarm:
    """Hears of stalls, on the watchdog's thread; of those that are a test's own, for a busy machine has others."""

    def __init__(self) -> None:
        self.stalls: list[Stall] = []
        self._heard = threading.Event()

    def hear(self, stall: Stall) -> None:
        if not stall.stack or "in block_until_heard" in stall.stack:
            self.stalls.append(stall)
            self._heard.set()

    def block_until_heard(self) -> None:
        """Block the loop, as a handler should not, until that was noticed."""
        assert self._heard.wait(IN_TIME), "nobody noticed"
        self._heard.clear()


@asynccontextmanager
async def watching(dog: Watchdog) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(SystemClock())
    supervisor.add("watchdog", dog.run)
    try:
        await until(lambda: dog.lag.worst > 0)  # it has asked once, and so is there
        yield supervisor
    finally:
        await supervisor.stop()


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


async def test_a_stall_is_reported_once_with_the_stack_and_the_run_and_again_for_the_next_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alarm = Alarm()
    handlers: dict[asyncio.Task[Any], str] = {}
    dog = Watchdog(STALL_AFTER, handlers.get, alarm.hear)

    async def handler() -> None:
        alarm.block_until_heard()
        # Longer than it takes to report: it must not happen twice for one stall.
        threading.Event().wait(4 * STALL_AFTER)

    async with watching(dog):
        for name in ("run-1", "run-2"):
            task = asyncio.create_task(handler())
            handlers[task] = name
            await task
            ends = len(alarm.stalls)
            await until(lambda ends=ends: len(messages(caplog, logging.WARNING)) >= ends)  # type: ignore[misc]

    assert [stall.run_id for stall in alarm.stalls] == ["run-1", "run-2"]
    for stall in alarm.stalls:
        assert stall.seconds >= STALL_AFTER
        assert "in block_until_heard" in stall.stack
        assert len(stall.stack) <= stacks.LIMIT
    [first, second] = [line for line in messages(caplog, logging.ERROR) if "in block_until_heard" in line]
    assert "standing still" in first
    assert "the handler of run run-1 is on it" in first
    assert "in block_until_heard" in second
    assert all("the event loop goes on after" in line for line in messages(caplog, logging.WARNING))


class Report(logging.Handler):
    """Keeps what the watchdog of a worker reports, from its thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self._came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "in hog" in record.getMessage():
            self.lines.append(record.getMessage())
            self._came.set()

    def wait(self) -> None:
        assert self._came.wait(IN_TIME), "nobody noticed"


async def test_the_run_whose_handler_blocks_a_real_worker_is_named(url: str) -> None:
    report = Report()
    log = logging.getLogger("laneway.watchdog")
    log.addHandler(report)
    try:
        async with Scheduler(url, stall_after=STALL_AFTER) as app:

            @app.task
            async def hog() -> None:
                report.wait()

            async with app.running():
                receipt = await hog.submit()
                await soon(app.wait(receipt))
    finally:
        log.removeHandler(report)

    [line] = report.lines
    assert f"the handler of run {receipt.run_id} is on it" in line


async def test_a_callback_that_stalls_belongs_to_no_run(caplog: pytest.LogCaptureFixture) -> None:
    alarm = Alarm()

    async with watching(Watchdog(STALL_AFTER, lambda _: "a run", alarm.hear)):
        asyncio.get_running_loop().call_soon(alarm.block_until_heard)
        await until(lambda: len(messages(caplog, logging.WARNING)) >= 1)

    [stall] = alarm.stalls
    assert stall.run_id is None
    assert "in block_until_heard" in stall.stack


async def test_a_stall_that_held_the_watchdog_too_is_reported_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alarm = Alarm()

    def wait_as_long_as_it_takes(probe: watchdog._Probe, _: float) -> bool:
        # As if SIGSTOP, or code that lets no other thread run, had stopped this thread with the loop's.
        return probe._done.wait(IN_TIME)  # noqa: SLF001 - as above

    # No test can stop all threads of its own process.
    monkeypatch.setattr(watchdog._Probe, "wait", wait_as_long_as_it_takes)  # noqa: SLF001 - as above
    async with watching(Watchdog(STALL_AFTER, stalled=alarm.hear)):
        threading.Event().wait(4 * STALL_AFTER)
        await until(lambda: bool(alarm.stalls))

    stall = alarm.stalls[-1]
    assert (stall.stack, stall.run_id) == ("", None)
    assert stall.seconds > STALL_AFTER
    assert any("perhaps the whole process stood still" in line for line in messages(caplog, logging.ERROR))


def test_a_loop_that_closes_while_it_stands_still_does_not_go_on(caplog: pytest.LogCaptureFixture) -> None:
    alarm = Alarm()
    watchers: list[threading.Thread] = []

    async def stand_still_to_the_end() -> None:
        watched = asyncio.create_task(Watchdog(STALL_AFTER, stalled=alarm.hear).run())
        await asyncio.sleep(0)
        watchers.extend(thread for thread in threading.enumerate() if thread.name == "laneway-watchdog")
        alarm.block_until_heard()
        watched.cancel()
        loop.stop()  # at once: it never comes to answer

    loop = asyncio.new_event_loop()
    loop.call_soon(loop.create_task, stand_still_to_the_end())
    loop.run_forever()
    loop.close()
    for watcher in watchers:
        watcher.join(IN_TIME)

    assert len(alarm.stalls) == 1
    _, _, after = caplog.text.partition("in block_until_heard")  # a busy machine may have stalls of its own before
    assert "goes on" not in after


async def test_a_loop_that_turns_is_not_reported_and_its_lag_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alarm = Alarm()
    dog = Watchdog(STALL_AFTER, stalled=alarm.hear)
    assert dog.lag == LoopLag(0, 0)

    async with watching(dog):
        calm = dog.lag
        alarm.block_until_heard()
        during = dog.lag
        await until(lambda: dog.lag.now < STALL_AFTER)
        after = dog.lag
        monkeypatch.setattr(watchdog, "MEMORY", 0.0)
        forgotten = dog.lag

    assert calm.now < STALL_AFTER
    assert during.now >= STALL_AFTER
    assert after.worst >= during.now
    assert forgotten.worst < STALL_AFTER
    assert len(alarm.stalls) == 1


async def test_a_watchdog_whose_thread_dies_is_started_again_and_health_says_so() -> None:
    alarm = Alarm()
    health: list[ServiceHealth] = []
    wrong = [RuntimeError("the watchdog's own bug")]

    def hear(stall: Stall) -> None:
        alarm.hear(stall)
        if wrong:
            raise wrong.pop()

    dog = Watchdog(STALL_AFTER, stalled=hear)
    async with watching(dog) as supervisor:
        alarm.block_until_heard()
        await until(lambda: supervisor.health()[0].restarts == 1)
        health.extend(supervisor.health())
        alarm.block_until_heard()
        count = len(alarm.stalls)

    assert [(one.name, one.alive, one.restarts) for one in health] == [("watchdog", True, 1)]
    assert health[0].last_error == "RuntimeError: the watchdog's own bug"
    assert count == 2


async def test_a_task_s_stack_shows_where_it_waits() -> None:
    gate = asyncio.Event()

    async def inner() -> None:
        await gate.wait()

    async def outer() -> None:
        await inner()

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    shown = stacks.of_task(task)
    gate.set()
    await task

    assert [word in shown for word in ("in outer", "in inner", "in wait")] == [True, True, True]
    assert shown.index("in outer") < shown.index("in inner")
    assert stacks.of_task(task) == ""
    assert stacks.of_thread(None) == ""
