"""`app.status()`: how a scheduler at work is doing."""

from __future__ import annotations

import asyncio
import threading

from laneway import Scheduler
from laneway.core.records.status import Status
from tests.support.waits import IN_TIME, soon


async def test_a_scheduler_that_works_says_what_it_executes_and_that_its_services_are_alive(app: Scheduler) -> None:
    started, release = asyncio.Semaphore(0), asyncio.Event()

    @app.task
    async def hold() -> None:
        started.release()
        await release.wait()

    assert app.status() == Status(running=False)
    async with app.running():
        for _ in range(2):
            await hold.submit()
            await soon(started.acquire())
        status = app.status()
        release.set()

    assert status.healthy
    assert status.tasks == {"hold": 2}
    assert [(service.name, service.alive, service.restarts) for service in status.services] == [
        ("watchdog", True, 0),
        ("ticker", True, 0),
        ("file", True, 0),
        ("renewer", True, 0),
        ("reclaimer", True, 0),
        ("pruner", True, 0),
    ]
    assert app.status() == Status(running=False)


async def test_the_status_can_be_asked_while_the_loop_stands_still(app: Scheduler) -> None:
    asked: list[Status] = []

    def ask(done: threading.Event) -> None:
        while not asked or asked[-1].loop_lag.now < 0.3:
            asked.append(app.status())
            done.wait(0.01)
        done.set()

    @app.task
    async def hog() -> None:
        done = threading.Event()
        threading.Thread(target=ask, args=(done,), daemon=True).start()
        assert done.wait(IN_TIME)

    async with app.running():
        receipt = await hog.submit()
        await soon(app.result(receipt))

    assert asked[-1].tasks == {"hog": 1}
    assert asked[-1].loop_lag.worst >= 0.3
