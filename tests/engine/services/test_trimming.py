"""Trimming as users meet it: the setting, the service, and a follower with an old cursor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from laneway import BadSetting, Context, Event, Scheduler
from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.events import deltas
from laneway.engine.services import pruner
from laneway.engine.services.pruner import Pruner
from laneway.ports.store import Store
from laneway.scheduler import store_at
from laneway.settings import Settings
from laneway.testing import FakeClock, Hand, new_runs
from tests.support.invariants import check_numbers
from tests.support.run_logs import log_of
from tests.support.waits import as_time_passes, passes
from tests.support.watched_store import WatchedStore

HOUR = 3600 * SECOND


@pytest_asyncio.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[Store]:
    """A store of each kind in turn."""
    store = store_at(url, clock, Settings())
    await store.open()
    yield store
    await store.close()


async def streamed(store: Store, count: int, name: str = "run") -> None:
    """Let so many runs stream something, and end."""
    hand = await Hand(store, f"hand of {name}").register()
    await store.submit(new_runs(count, name))
    runs = await hand.claim(count)
    await hand.step(results=[hand.result(run, Succeeded("1"), (*deltas("a"), *deltas("b"))) for run in runs])
    await hand.leave()


@pytest.mark.parametrize(
    ("given", "kept"), [(3600, HOUR), (timedelta(minutes=1), 60 * SECOND), (0, None), (None, None), (0.5, SECOND // 2)]
)
def test_deltas_are_kept_as_long_as_the_setting_says(given: timedelta | float | None, kept: int | None) -> None:
    assert Settings.of({"keep_deltas": given}).deltas_kept_for == kept
    assert Settings().deltas_kept_for == HOUR


@pytest.mark.parametrize("wrong", [-1, "1h", True])
def test_a_wrong_setting_is_explained(wrong: object) -> None:
    with pytest.raises(BadSetting, match=r"^keep_deltas is "):
        Scheduler("memory://", keep_deltas=wrong)


async def test_what_is_old_is_trimmed_in_batches_with_a_pause_after_each(
    watched: WatchedStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "TRIMMED", 4)
    await streamed(watched, 10)
    await clock.advance(3601)
    trimming = asyncio.create_task(Pruner(watched, clock, {}, "w1", HOUR).trim())

    await clock.advance(pruner.PAUSE * 3)

    assert await trimming == 10
    assert watched.calls["prune"] == 3


async def test_nothing_is_asked_of_the_store_when_deltas_are_kept(watched: WatchedStore, clock: FakeClock) -> None:
    assert await Pruner(watched, clock, {}, "w1").trim() == 0

    assert watched.calls["prune"] == 0


async def test_a_clock_set_ahead_makes_no_delta_old(store: Store, clock: FakeClock) -> None:
    await streamed(store, 1)
    one = Pruner(store, clock, {}, "w1", HOUR)
    clock.step(86_400)
    assert await one.trim() == 0

    await clock.advance(3601)

    assert await one.trim() == 1


async def test_a_store_out_of_reach_is_asked_again_next_time(
    watched: WatchedStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await streamed(watched, 1)
    await clock.advance(3601)
    one = Pruner(watched, clock, {}, "w1", HOUR)
    watched.fail("prune")

    with caplog.at_level(logging.WARNING, "laneway.pruner"):
        assert await one.trim() == 0
    assert await one.trim() == 1
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "cannot trim: the store was not reached",
    ]


async def test_several_workers_trim_each_run_once(store: Store, clock: FakeClock) -> None:
    await streamed(store, 30)
    await clock.advance(3601)

    trimming = asyncio.gather(*(Pruner(store, clock, {}, f"w{number}", HOUR).trim() for number in range(4)))
    counts = await as_time_passes(clock, trimming)

    assert sum(counts) == 30


async def test_a_worker_trims_and_whoever_comes_back_with_an_old_cursor_sees_what_is_gone(
    app: Scheduler, clock: FakeClock
) -> None:
    @app.task
    async def work(*, ctx: Context) -> str:
        for n in range(3):
            for _ in range(3):
                ctx.delta(f"word {n} ")
                await clock.sleep(0.1)
            ctx.log(f"line {n}")
        return "result"

    receipt = await work.submit()
    async with app.running():
        await passes(clock, 2, step=0.1)
        before = await log_of(app, receipt)
        await passes(clock, 80 * 60, step=60)
        after = await log_of(app, receipt)
        pages = {cursor: [e async for e in app.events(receipt, cursor)] for cursor in range(before[-1].seq + 1)}

    assert "delta" in {event.kind for event in before}
    assert "delta" not in {event.kind for event in after}
    kept = [event for event in before if event.kind != "delta"]
    assert [event for event in after if event.kind != "trimmed"] == kept
    for cursor, page in pages.items():
        check_numbers(page, cursor)
        assert page == _behind(after, cursor)


def _behind(log: list[Event], cursor: int) -> list[Event]:
    return [event for event in log if event.seq > cursor]
