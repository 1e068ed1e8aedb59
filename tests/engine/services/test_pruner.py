"""The pruner: what is old goes, in small batches; a clock that steps makes nothing old."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from laneway import Scheduler
from laneway.core.common.instants import SECOND
from laneway.core.records.states import TERMINAL, RunState
from laneway.engine.services import pruner
from laneway.engine.services.pruner import Pruner
from laneway.errors import BadSetting, LeaseLost
from laneway.ports.store import Store
from laneway.ports.upkeep import Old
from laneway.scheduler import store_at
from laneway.settings import Settings
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.support.invariants import all_runs
from tests.support.waits import passes
from tests.support.watched_store import WatchedStore

DAY = 86_400
WEEK = 7 * DAY
KEEP = Settings().kept_for


@pytest_asyncio.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[Store]:
    """A store of each kind in turn."""
    store = store_at(url, clock, Settings())
    await store.open()
    yield store
    await store.close()


async def end(store: Store, *ids: str) -> None:
    """Let runs with these ids succeed now."""
    hand = await Hand(store, f"hand of {ids[0]}").register()
    await store.submit([new_run(run_id) for run_id in ids])
    await hand.succeed(*await hand.claim(len(ids)))
    await hand.leave()


async def left(store: Store) -> list[str]:
    return [run.id for run in await all_runs(store)]


# Settings


def days(retention: Any) -> dict[str, float]:
    kept = Settings.of({"retention": retention}).kept_for
    return {state.value: length / SECOND / DAY for state, length in kept.items()}


def test_runs_are_kept_for_a_week_unless_told_otherwise() -> None:
    assert {state: length / SECOND for state, length in KEEP.items()} == dict.fromkeys(TERMINAL, WEEK)
    assert days(timedelta(days=2)) == days(2 * DAY) == dict.fromkeys(TERMINAL, 2)


@pytest.mark.parametrize("for_ever", [None, 0, timedelta()])
def test_no_retention_keeps_for_ever(for_ever: object) -> None:
    assert days(for_ever) == {}
    assert days({"failed": for_ever}) == {"succeeded": 7, "cancelled": 7, "dropped": 7}


def test_a_state_can_be_kept_for_its_own_time() -> None:
    assert days({"failed": timedelta(days=30), RunState.DROPPED: 3600}) == {
        "succeeded": 7,
        "failed": 30,
        "cancelled": 7,
        "dropped": 3600 / DAY,
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("7d", r"^retention is '7d'; it must be seconds or a timedelta$"),
        (-1, r"^retention is -1; it must be 0 or more \(seconds or a timedelta\)$"),
        (True, r"^retention is True; it must be seconds or a timedelta$"),
        (0.5, r"^retention is 0\.5; the shortest is a minute \(0 and None keep for ever\)$"),
        ({"failed": timedelta(seconds=59)}, r"^retention\['failed'\] is 0:00:59; the shortest is a minute"),
        ({"failed": -1}, r"^retention\['failed'\] is -1; it must be 0 or more"),
        ({"fialed": 1}, r"^unknown state in retention 'fialed', did you mean 'failed'\?$"),
        ({"zzz": 1}, r"^unknown state in retention 'zzz'; it can be cancelled, dropped, failed, succeeded$"),
        ({"pending": 1}, r"^retention\['pending'\] cannot be set: such a run has not ended, so it is kept$"),
        ({7: 1}, r"^unknown state in retention '7'; it can be "),
    ],
    ids=str,
)
def test_a_wrong_retention_is_explained(wrong: object, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        Scheduler("memory://", retention=wrong)


# Pruning


async def test_about_once_a_minute_what_is_old_goes(store: Store, clock: FakeClock) -> None:
    await end(store, "old")
    await clock.advance(WEEK - 30)
    await end(store, "young")
    running = asyncio.create_task(Pruner(store, clock, KEEP, "w1").run())

    await clock.advance(29)
    assert await left(store) == ["old", "young"]
    await passes(clock, 2 * 75)

    assert await left(store) == ["young"]
    running.cancel()


async def test_workers_prune_at_other_times(memory: Store, clock: FakeClock) -> None:
    times: list[float] = []

    class Noting(WatchedStore):
        async def prune(self, old: Old, *, limit: int = 500) -> int:
            times.append(clock.monotonic())
            return await super().prune(old, limit=limit)

    store = Noting(memory)
    pruners = [asyncio.create_task(Pruner(store, clock, KEEP, f"worker {number}").run()) for number in range(20)]
    await clock.advance(80)
    for task in pruners:
        task.cancel()

    assert len(set(times)) == len(times) == 20
    assert min(times) >= 45
    assert max(times) <= 75


async def test_many_go_in_batches_with_a_pause_after_each(
    watched: WatchedStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "BATCH", 10)
    await end(watched, *(f"r{number:02d}" for number in range(25)))
    await clock.advance(WEEK + 1)
    pruning = asyncio.create_task(Pruner(watched, clock, KEEP, "w1").prune())

    seen = []
    for _ in range(3):
        await clock.advance(pruner.PAUSE / 2)
        seen.append(len(await left(watched)))
        await clock.advance(pruner.PAUSE / 2)

    assert seen == [15, 5, 0]
    assert await pruning == 25
    assert watched.calls["prune"] == 3


async def test_nothing_is_asked_of_the_store_when_all_is_kept(watched: WatchedStore, clock: FakeClock) -> None:
    assert await Pruner(watched, clock, {}, "w1").prune() == 0

    assert watched.calls["prune"] == 0


async def test_a_store_out_of_reach_is_asked_again_next_time(
    watched: WatchedStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await end(watched, "a", "b")
    await clock.advance(WEEK + 1)
    one = Pruner(watched, clock, KEEP, "w1")
    watched.fail("prune")
    watched.lose_reply("prune")

    with caplog.at_level(logging.WARNING, "laneway.pruner"):
        assert (await one.prune(), await left(watched)) == (0, ["a", "b"])
        assert (await one.prune(), await left(watched)) == (0, [])
    assert await one.prune() == 0
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "cannot prune: the store was not reached",
        "cannot prune: the store's answer was lost",
    ]


async def test_several_pruners_do_no_harm(store: Store, clock: FakeClock) -> None:
    await store.submit(new_runs(5, "pending", delay=WEEK * 3))
    await end(store, *(f"r{number:02d}" for number in range(30)))
    await clock.advance(WEEK + 1)

    counts = await asyncio.gather(*(Pruner(store, clock, KEEP, f"w{number}").prune() for number in range(4)))

    assert sum(counts) == 30
    assert len(await left(store)) == 5


# Clocks that step


async def test_a_clock_set_ahead_by_a_day_makes_nothing_old(store: Store, clock: FakeClock) -> None:
    await end(store, "six days and a half")
    await clock.advance(WEEK - DAY / 2)
    one = Pruner(store, clock, KEEP, "w1")

    clock.step(DAY)
    assert await one.prune() == 0
    clock.step(-DAY)
    assert await one.prune() == 0

    await clock.advance(DAY / 2 + 1)
    assert await one.prune() == 1


async def test_a_clock_set_back_by_an_hour_makes_nothing_old_either(store: Store, clock: FakeClock) -> None:
    await end(store, "a")
    one = Pruner(store, clock, KEEP, "w1")
    clock.step(-3600)
    await end(store, "b")

    await clock.advance(WEEK + 1)
    assert (await one.prune(), await left(store)) == (1, ["a"])  # by the clock as it is, `a` ended an hour later

    clock.step(3600)
    assert (await one.prune(), await left(store)) == (1, [])


async def test_no_lease_is_reclaimed_for_a_step_of_the_clock(store: Store, clock: FakeClock) -> None:
    worker, other = await Hand(store, "worker").register(), await Hand(store, "other").register()
    await store.submit([new_run("a")])
    [run] = await worker.claim()

    for step in (-3600, DAY, -DAY, 3600):
        clock.step(step)
        for _ in range(5):
            assert (await other.reclaim()).lapsed == []
            assert worker.renew().leases == [(run.number, run.fence)]
            await clock.advance(5)

    assert (await worker.succeed(run)).refused == []
    assert (await store.get("a")).fence == 1


async def test_a_death_is_still_seen_after_a_step_of_the_clock(store: Store, clock: FakeClock) -> None:
    dead, other = await Hand(store, "dead").register(), await Hand(store, "other").register()
    await store.submit([new_run("a")])
    await dead.claim()
    clock.step(-3600)

    lapsed = []
    for _ in range(8):
        other.renew()
        await clock.advance(5)
        lapsed += (await other.reclaim()).lapsed

    assert [run.id for run in lapsed][:1] == ["a"]
    with pytest.raises(LeaseLost):
        dead.renew()
