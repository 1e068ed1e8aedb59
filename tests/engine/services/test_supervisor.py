"""A service that crashes is started again, reported, and never silently dead."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from laneway.core.common.instants import SECOND, instant
from laneway.core.records.liveness import Incarnation
from laneway.core.records.status import LoopLag, ServiceHealth, Status, StuckRun
from laneway.engine.common.processes import mark
from laneway.engine.common.threads import on_thread
from laneway.engine.services.lease_clock import LeaseClock
from laneway.engine.services.reclaimer import Reclaimer
from laneway.engine.services.renewer import Renewer
from laneway.engine.services.supervisor import Supervisor
from laneway.errors import LeaseLost
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.waits import soon, turns, until
from tests.support.watched_store import WatchedStore


async def forever() -> None:
    await asyncio.Event().wait()


class Service:
    """A service whose lives end as it is told: by an error for each, then it lives for ever."""

    def __init__(self, *ends: BaseException | None, lives_for: Callable[[], Awaitable[None]] | None = None) -> None:
        self.ends, self.lives = list(ends), 0
        self._lives_for = lives_for

    async def run(self) -> None:
        self.lives += 1
        if not self.ends:
            await forever()
        if self._lives_for is not None:
            await self._lives_for()
        if (end := self.ends.pop(0)) is not None:
            raise end


async def test_a_service_that_crashes_is_reported_and_started_again(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[ServiceHealth] = []
    supervisor, service = Supervisor(clock, told.append), Service(ValueError("no luck"))
    began = instant(clock.now())

    supervisor.add("pruner", service.run)
    await turns()

    dead = ServiceHealth(name="pruner", alive=False, since=began, last_error="ValueError: no luck")
    assert supervisor.health() == told == [dead]
    assert supervisor.last_error == "ValueError: no luck"
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "service pruner crashed; it is started again in 0.1 s"
    assert record.exc_info is not None

    await clock.advance(0.1)

    [health] = supervisor.health()
    assert (health.alive, health.restarts, health.since) == (True, 1, began + timedelta(seconds=0.1))
    assert service.lives == 2
    await supervisor.stop()


async def test_the_wait_doubles_up_to_30_s_and_is_short_again_after_a_good_minute(clock: FakeClock) -> None:
    service = Service(*[OSError("down")] * 12, lives_for=lambda: clock.sleep(1 if service.lives < 12 else 60))
    supervisor = Supervisor(clock)
    lives: list[float] = []

    async def run() -> None:
        lives.append(clock.monotonic())
        await service.run()

    supervisor.add("pruner", run)
    await clock.advance(500)

    waits = [later - earlier for earlier, later in itertools.pairwise(lives)]
    assert waits == pytest.approx([1.1, 1.2, 1.4, 1.8, 2.6, 4.2, 7.4, 13.8, 26.6, 31, 31, 60.1])
    await supervisor.stop()


async def test_a_service_that_returns_or_lets_a_stray_cancellation_escape_has_crashed(clock: FakeClock) -> None:
    supervisor, service = Supervisor(clock), Service(None, asyncio.CancelledError())

    supervisor.add("pruner", service.run)
    await turns()
    [returned] = supervisor.health()
    await clock.advance(0.1)
    [cancelled] = supervisor.health()
    await clock.advance(0.2)

    assert returned.last_error == "RuntimeError: it returned, and a service has no end"
    assert cancelled.last_error == "CancelledError"
    assert [health.alive for health in supervisor.health()] == [True]
    await supervisor.stop()


async def test_a_lost_lease_ends_the_service_for_good_and_is_no_crash(clock: FakeClock) -> None:
    told: list[ServiceHealth] = []
    supervisor, service = Supervisor(clock, told.append), Service(LeaseLost("incarnation a is lost"))

    supervisor.add("renewer", service.run)
    await clock.advance(120)

    [health] = supervisor.health()
    assert (health.alive, health.restarts, health.last_error) == (False, 0, "LeaseLost: incarnation a is lost")
    assert (service.lives, told, supervisor.last_error) == (1, [], None)
    supervisor.add("renewer", forever)  # the next incarnation's
    await turns()
    assert [health.alive for health in supervisor.health()] == [True]
    await supervisor.stop()


async def test_stop_ends_all_services_or_those_it_names(clock: FakeClock) -> None:
    supervisor = Supervisor(clock)
    for name in ("renewer", "reclaimer", "pruner"):
        supervisor.add(name, forever)
    with pytest.raises(ValueError, match="service 'pruner' is there already"):
        supervisor.add("pruner", forever)
    await turns()

    await supervisor.stop("renewer", "reclaimer")
    first = [health.alive for health in supervisor.health()]
    await supervisor.stop()
    await supervisor.stop()

    assert first == [False, False, True]
    assert [health.alive for health in supervisor.health()] == [False, False, False]


@pytest.mark.parametrize("begun", [True, False])
async def test_a_service_that_swallows_its_cancellation_is_not_started_again(clock: FakeClock, begun: bool) -> None:
    lives = 0

    async def stubborn() -> None:
        nonlocal lives
        lives += 1
        try:
            await forever()
        except asyncio.CancelledError:
            return

    supervisor = Supervisor(clock)
    supervisor.add("stubborn", stubborn)
    if begun:
        await turns()

    await supervisor.stop()

    assert lives == begun
    assert [health.alive for health in supervisor.health()] == [False]


async def test_a_service_that_is_waiting_to_be_started_again_can_be_stopped(clock: FakeClock) -> None:
    supervisor, service = Supervisor(clock), Service(OSError("down"))
    supervisor.add("pruner", service.run)
    await turns()

    await soon(supervisor.stop())
    await clock.advance(60)

    assert service.lives == 1


async def test_whoever_is_told_of_a_crash_may_crash_too(clock: FakeClock) -> None:
    def crash(_: ServiceHealth) -> None:
        raise KeyError

    supervisor, service = Supervisor(clock, crash), Service(OSError("down"))

    supervisor.add("pruner", service.run)
    await clock.advance(1)

    assert service.lives == 2
    await supervisor.stop()


async def test_the_end_of_a_thread_is_the_end_of_its_service(clock: FakeClock) -> None:
    ends = [StopIteration(), SystemExit(3), OSError("no more threads")]
    supervisor, errors = Supervisor(clock, lambda health: errors.append(health.last_error)), list[str | None]()

    def work(stopped: threading.Event) -> None:
        if ends:
            raise ends.pop(0)
        stopped.wait()

    supervisor.add("thread", lambda: on_thread("laneway-test", work))
    for crashes in (1, 2, 3):
        await until(lambda crashes=crashes: len(errors) >= crashes)  # type: ignore[misc]  # a default of its own
        await clock.advance(1)

    assert errors == [
        "RuntimeError: StopIteration ended the thread laneway-test",
        "RuntimeError: SystemExit ended the thread laneway-test",
        "OSError: no more threads",
    ]
    await supervisor.stop()


# With the real services


async def registered(store: Store, incarnation: str) -> None:
    await store.register(
        Incarnation(id=incarnation, host="here", process=mark(), tasks=frozenset(), lease=15 * SECOND), lambda: None
    )


async def test_the_renewer_and_the_reclaimer_live_through_crashes(watched: WatchedStore, clock: FakeClock) -> None:
    await registered(watched, "a")
    lost: list[object] = []
    supervisor = Supervisor(clock)
    held = [RuntimeError("dictionary changed size during iteration")]

    def hold() -> set[tuple[int, int]]:
        if held:
            raise held.pop()
        return set()

    renewals = LeaseClock(clock, 15)
    renewer = Renewer(watched, "a", 0.01, renewals, hold, lost.append)
    reclaimer = Reclaimer(watched, clock, "a", renewals, lambda _: None, lambda: None)
    supervisor.add("renewer", renewer.run)
    supervisor.add("reclaimer", reclaimer.run)

    await until(lambda: not all(health.alive for health in supervisor.health()))
    assert [health.alive for health in supervisor.health()] == [False, True]
    await clock.advance(0.1)
    await until(lambda: watched.calls["renew"] >= 3)

    assert [(health.name, health.alive, health.restarts) for health in supervisor.health()] == [
        ("renewer", True, 1),
        ("reclaimer", True, 0),
    ]
    assert lost == []

    await watched.leave("a")
    await until(lambda: not supervisor.health()[0].alive)
    await clock.advance(5)  # the reclaimer looks once a second, and asks the store now and then
    assert lost == [None]
    assert [(health.alive, health.restarts) for health in supervisor.health()] == [(False, 1), (False, 0)]
    await supervisor.stop()


def test_a_status_counts_handlers_by_task_and_says_whether_all_is_well() -> None:
    alive = ServiceHealth(name="renewer", alive=True, since=instant(0))
    stuck = StuckRun(run_id="a", task="add", seconds=12, stack="...")

    well = Status.of(services=[alive], executing=["add", "add"], loop_lag=LoopLag(0.1, 0.2))
    unwell = Status.of(services=[alive], executing=[], stuck=[stuck], last_error="OSError: down")

    assert (well.healthy, well.tasks, well.loop_lag) == (True, {"add": 2}, LoopLag(0.1, 0.2))
    assert (unwell.healthy, unwell.stuck, unwell.last_error) == (False, (stuck,), "OSError: down")
    assert not Status(running=False).healthy
