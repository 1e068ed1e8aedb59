"""Handlers in child processes are stopped and killed, and nothing of them is left when they are closed."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.codec import RESULT_LIMIT
from laneway.engine.children import process
from laneway.engine.children.pool import ChildPool
from laneway.engine.common.clock import SystemClock
from laneway.testing import FakeClock
from tests.support.children import handlers as tasks
from tests.support.children.runner import ChildRunner, is_gone, is_running
from tests.support.waits import IN_TIME, turns

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")

# Stopping


async def test_a_plain_handler_can_look_whether_it_shall_stop(child_runner: ChildRunner) -> None:
    execution, ending = await child_runner.ready(tasks.look_for_cancel)

    execution.stop(soft=60, hard=60)

    assert await ending == Succeeded('"stopped by myself"')


async def test_an_async_handler_is_cancelled_and_its_child_goes_on(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)
    execution, ending = await child_runner.ready(tasks.wait_for_cancel)

    execution.stop(soft=60, hard=60)

    assert await ending is None
    assert child_runner.lines == ["ready", "cleaned up"]
    assert await child_runner.value(tasks.pid) == pid


async def test_a_handler_that_does_not_listen_is_unwound_by_sigterm(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)
    execution, ending = await child_runner.ready(tasks.wait_for_term)

    execution.stop(soft=0, hard=60)

    assert await ending is None
    assert child_runner.lines == ["ready", "cleaned up"]
    assert not is_running(pid)  # a signal that came too late for it would have hit the next attempt
    assert await child_runner.value(tasks.pid) != pid


async def test_a_sigterm_that_the_worker_did_not_send_stops_nothing(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)
    os.kill(pid, signal.SIGTERM)
    execution, ending = await child_runner.ready(tasks.look_for_cancel)
    os.kill(pid, signal.SIGTERM)

    execution.stop(soft=60, hard=60)

    assert await ending == Succeeded('"stopped by myself"')
    assert await child_runner.value(tasks.pid) == pid


async def test_a_child_that_gets_sigterm_before_it_can_begin_begins(
    child_runner: ChildRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = f"import os; os.kill(os.getpid(), {signal.SIGTERM:d}); {process.START}"
    monkeypatch.setattr(process, "START", early)

    assert await child_runner.value(tasks.add.function, a=1, b=2) == 3


async def test_sigterm_unwinds_an_async_handler_that_swallows_its_cancellation(child_runner: ChildRunner) -> None:
    execution, ending = await child_runner.ready(tasks.swallow_cancel)

    execution.stop(soft=0.2, hard=60)

    assert await ending is None
    assert "swallowed" in child_runner.lines


async def test_a_handler_that_ignores_sigterm_is_killed_when_its_time_is_up() -> None:
    clock = FakeClock()
    child_runner = ChildRunner(ChildPool(clock, RESULT_LIMIT))
    pid = await child_runner.value(tasks.pid)
    execution, ending = await child_runner.ready(tasks.ignore_everything)

    execution.stop(soft=5, hard=10)
    await clock.advance(9)
    await child_runner.emitted("log", {"text": "ignored"})
    alive = is_running(pid)
    await clock.advance(1)

    assert alive
    assert await ending is None
    assert not is_running(pid)
    await child_runner.children.close()


async def test_what_a_handler_started_is_killed_with_it(child_runner: ChildRunner) -> None:
    execution = child_runner.begin(tasks.start_another)
    ending = asyncio.create_task(execution.outcome())
    another = await child_runner.emitted("another")

    execution.kill()

    assert await ending is None
    assert await is_gone(another)


async def test_an_attempt_stopped_before_it_has_a_child_is_not_begun(child_runner: ChildRunner) -> None:
    execution = child_runner.begin(tasks.ignore_everything)
    ending = asyncio.create_task(execution.outcome())
    await turns(1)

    execution.stop(soft=60, hard=60)

    assert await asyncio.wait_for(ending, IN_TIME) is None
    assert child_runner.drafts == []


async def test_cancelling_the_call_kills_the_child(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)
    _, ending = await child_runner.ready(tasks.ignore_everything)

    ending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await ending
    assert not is_running(pid)


# Closing, and dying with the worker


def open_files() -> set[str]:
    return {file.name for file in Path("/proc/self/fd").iterdir()}


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_closing_leaves_no_process_no_thread_and_no_open_file() -> None:
    await turns(1)
    gc.collect()
    before, threads = open_files(), set(threading.enumerate())
    child_runner = ChildRunner(ChildPool(SystemClock(), RESULT_LIMIT))
    pids = await asyncio.gather(*[child_runner.value(tasks.pid) for _ in range(2)])
    _, ending = await child_runner.ready(tasks.ignore_everything)
    await child_runner.failure(tasks.kill_myself)

    await child_runner.children.close()

    assert await ending is None
    assert open_files() == before
    # Other tests may have handed children on.
    for thread in [each for each in threading.enumerate() if each.name == "laneway-child" and each not in threads]:
        thread.join(5)  # its last act was to tell us
        assert not thread.is_alive()
    assert not any(map(exists, pids))  # not even as a zombie


async def test_children_can_be_used_again_after_closing(child_runner: ChildRunner) -> None:
    before = await child_runner.value(tasks.pid)
    await child_runner.children.close()

    assert await child_runner.value(tasks.pid) != before
