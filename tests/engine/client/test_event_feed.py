"""Following a run: each follower receives the log, in order, without gap or repeat, whatever the others do."""

from __future__ import annotations

import asyncio
import gc
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway import Context, Event, Receipt, Run, Scheduler, UnknownRun
from laneway.core.records.states import RunState
from laneway.engine.client import event_feed
from laneway.engine.common.clock import SystemClock
from laneway.errors import StoreUnavailable
from laneway.ports.upkeep import OldRuns
from laneway.stores.memory.store import MemoryStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from tests.support.run_logs import log_of
from tests.support.waits import as_time_passes, soon, turns, until
from tests.support.watched_store import WatchedStore


async def receive(app: Scheduler, run: Any, cuts: Random, received: list[Event]) -> None:
    """Follow a run, going away at random points and coming back with the cursor, until it ends."""
    while True:
        after = received[-1].seq if received else 0
        left = cuts.randrange(1, 12)
        events = app.events(run, after)
        try:
            async for event in events:
                received.append(event)
                left -= 1
                if not left:
                    break
            else:
                return
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator


def feeds() -> list[asyncio.Task[Any]]:
    """Return the feeds of this loop."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "laneway-feed"]


async def waiting_run(app: Scheduler) -> Receipt:
    """Return a run that nobody executes."""

    async def some() -> None: ...

    return await app.task(some).submit()


async def work(count: int, pause: float, *, ctx: Context) -> str:
    for n in range(count):
        ctx.emit("tick", n)
        if n % 7 == 0:
            ctx.delta(f"word {n} ")
        if pause:
            await _pause(pause)
    return "done"


async def _pause(seconds: float) -> None:
    await CLOCK[-1].sleep(seconds)


CLOCK: list[FakeClock] = []


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    followers=st.integers(1, 12),
    events=st.integers(0, 90),
    window=st.sampled_from([1, 3, 1000]),
    page=st.sampled_from([2, 5, 1000]),
)
def test_followers_cut_at_random_points_receive_the_log(
    seed: int, followers: int, events: int, window: int, page: int
) -> None:
    async def scene() -> None:
        clock, random = FakeClock(), Random(seed)
        CLOCK.append(clock)
        async with Scheduler(store=MemoryStore(clock), clock=clock) as app:
            app.task(work)
            receipt = await app.submit("work", {"count": events, "pause": 0.004})
            received: list[list[Event]] = [[] for _ in range(followers)]
            async with app.running():
                following_ = [
                    asyncio.create_task(_later(clock, random.random() / 3, app, receipt, Random(random.random()), each))
                    for each in received
                ]
                await as_time_passes(clock, asyncio.gather(*following_), step=0.01)
            log = await log_of(app, receipt)
            assert [event.seq for event in log] == list(range(1, len(log) + 1))
            assert [event.kind for event in log].count("done") == 1
            for each in received:
                assert each == log
            assert not feeds()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_feed, "WINDOW", window)
        patch.setattr(event_feed, "PAGE", page)
        asyncio.run(scene())


async def _later(
    clock: FakeClock, seconds: float, app: Scheduler, run: Any, cuts: Random, received: list[Event]
) -> None:
    await clock.sleep(seconds)
    await receive(app, run, cuts, received)


async def test_followers_of_a_file_receive_the_log_too(tmp_path: Any) -> None:
    app = Scheduler(f"sqlite:///{tmp_path / 'laneway.db'}")

    @app.task
    async def talk(*, ctx: Context) -> None:
        for n in range(150):
            ctx.emit("tick", n)
            ctx.delta("word ")
            await turns(5)

    async with app, app.running():
        receipt = await talk.submit()
        received: list[list[Event]] = [[] for _ in range(10)]
        await soon(asyncio.gather(*(receive(app, receipt, Random(n), each) for n, each in enumerate(received))))
        log = await log_of(app, receipt)

    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert all(each == log for each in received)


async def test_a_thousand_followers_cost_the_store_as_much_as_one(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    go_on = asyncio.Event()

    @lossy.task
    async def talk(*, ctx: Context) -> None:
        await go_on.wait()
        for n in range(10):
            ctx.emit("tick", n)
            await clock.sleep(0.1)

    async with lossy.running():
        receipt = await lossy.submit("talk")
        followers = [asyncio.create_task(log_of(lossy, receipt)) for _ in range(1000)]
        await until(lambda: watched.calls["events"] > 1000)
        await turns(10)
        assert watched.calls["events"] <= 1010  # one question each, and what the feed asks
        watched.calls.clear()
        go_on.set()
        logs = await as_time_passes(clock, asyncio.gather(*followers), step=0.05)

    assert watched.calls["get"] == 0
    assert watched.calls["events"] <= 40  # ten events, an end, and a look each second
    assert all(log == logs[0] for log in logs)
    assert [event.data for event in logs[0] if event.kind == "tick"] == list(range(10))


async def test_the_feed_ends_with_its_last_follower(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    receipt = await waiting_run(lossy)
    one, other = (asyncio.create_task(log_of(lossy, receipt)) for _ in range(2))
    await turns()
    assert len(feeds()) == 1

    one.cancel()
    await turns()
    assert len(feeds()) == 1
    other.cancel()
    await turns()

    assert not feeds()
    watched.calls.clear()
    await clock.advance(5)
    assert watched.calls["events"] == 0


async def test_a_follower_that_just_goes_away_leaves_no_feed(lossy: Scheduler) -> None:
    @lossy.task
    async def talk(*, ctx: Context) -> None:
        await asyncio.Event().wait()

    async def first() -> Event:
        async for event in lossy.events(receipt):
            return event
        raise AssertionError

    async with lossy.running():
        receipt = await lossy.submit("talk")
        assert (await soon(first())).kind == "started"
        gc.collect()
        await turns()

        assert not feeds()
        await lossy.stop(0)


@pytest.mark.parametrize("cursor", [1, 2, 3, 5, 100])
async def test_any_cursor_of_a_run_that_goes_on_can_be_followed(app: Scheduler, clock: FakeClock, cursor: int) -> None:
    go_on, said = asyncio.Event(), asyncio.Event()

    @app.task
    async def talk(*, ctx: Context) -> None:
        ctx.log("one")
        said.set()
        await go_on.wait()
        ctx.log("two")

    async with app.running():
        receipt = await talk.submit()
        await soon(said.wait())
        everything = asyncio.create_task(log_of(app, receipt))
        behind = asyncio.create_task(_from(app, receipt, cursor))
        await clock.advance(0.1)
        go_on.set()
        log, rest = await as_time_passes(clock, asyncio.gather(everything, behind))

    assert [event.kind for event in log] == ["started", "log", "log", "result", "done"]
    assert rest == [event for event in log if event.seq > cursor]


async def _from(app: Scheduler, run: Any, after: int) -> list[Event]:
    return [event async for event in app.events(run, after)]


async def test_a_store_out_of_reach_is_told_to_every_follower(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    receipt = await waiting_run(lossy)
    followers = [asyncio.create_task(log_of(lossy, receipt)) for _ in range(3)]
    await turns()
    for _ in range(4):
        watched.fail("events")

    results = await as_time_passes(clock, asyncio.gather(*followers, return_exceptions=True))

    assert [type(result) for result in results] == [StoreUnavailable] * 3
    assert not feeds()
    again = asyncio.create_task(log_of(lossy, receipt))
    await turns()
    await lossy.cancel(receipt)
    assert [event.kind for event in await as_time_passes(clock, again)] == ["cancel_requested", "done"]


async def test_a_hiccup_of_the_store_is_not_noticed(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    receipt = await waiting_run(lossy)
    following_ = asyncio.create_task(log_of(lossy, receipt))
    await turns()
    for _ in range(3):
        watched.fail("events")
    await lossy.cancel(receipt)

    assert [event.kind for event in await as_time_passes(clock, following_)] == ["cancel_requested", "done"]


async def test_a_run_that_is_deleted_between_two_pages_ends_the_iteration_with_unknown_run(
    app: Scheduler, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "PAGE", 1)

    @app.task
    async def some() -> None: ...

    receipt = await some.submit()
    await app.drain()
    events = app.events(receipt)
    assert (await anext(events)).kind == "started"
    await clock.advance(1)
    await (await app.open()).prune(OldRuns({RunState.SUCCEEDED: 0}))

    with pytest.raises(UnknownRun):
        await anext(events)


async def test_a_run_that_is_deleted_while_it_is_followed_is_unknown_to_all_followers(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    receipt = await waiting_run(lossy)
    followers = [asyncio.create_task(log_of(lossy, receipt)) for _ in range(3)]
    await turns()
    watched.hold_back("events")  # the feed is slow, and so misses the end
    await lossy.cancel(receipt)
    await clock.advance(1)
    await watched.prune(OldRuns({RunState.CANCELLED: 0}))
    watched.let_go("events")

    results = await soon(asyncio.gather(*followers, return_exceptions=True))

    assert [type(result) for result in results] == [UnknownRun] * 3
    assert [str(result) for result in results] == [str(UnknownRun(receipt.run_id))] * 3


async def test_followers_on_several_loops_share_nothing_they_should_not(tmp_path: Any) -> None:
    watched = WatchedStore(SQLiteStore(tmp_path / "laneway.db", SystemClock()))
    app = Scheduler(store=watched)
    go_on = asyncio.Event()

    @app.task
    async def talk(*, ctx: Context) -> None:
        ctx.log("one")
        await go_on.wait()
        ctx.log("two")

    async with app, app.running():
        receipt = await talk.submit()
        here = asyncio.create_task(log_of(app, receipt))
        there = [asyncio.create_task(asyncio.to_thread(lambda: list(app.sync.events(receipt)))) for _ in range(3)]
        elsewhere = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(log_of(app, receipt))))
        await until(lambda: watched.watchers == 3)
        go_on.set()
        logs = await soon(asyncio.gather(here, *there, elsewhere))

    assert all(log == logs[0] for log in logs)
    assert [event.kind for event in logs[0]] == ["started", "log", "log", "result", "done"]
    await asyncio.to_thread(app.sync.close)
    await watched.close()


def event(seq: int, kind: str = "log") -> Event:
    return Event("run", seq, kind, {}, 1, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("then", "heard"),
    [
        ([event(1), event(2, "done")], [1, 2, 3]),
        ([event(1), event(2), event(3), event(4, "done")], [1, 2, 3, 4]),
        ([event(1)], [1, 2, 3, 4]),
        ([], [1, 2, 3, 4]),
    ],
    ids=["it ends before", "it ends behind", "it goes on", "it begins anew"],
)
async def test_who_follows_a_log_that_loses_its_end_is_not_left_waiting(
    app: Scheduler, clock: FakeClock, then: list[Event], heard: list[int]
) -> None:
    """As when a server is replaced by one that lacks the last moments: numbers that were told are told again."""
    log, store, run = [event(1), event(2), event(3)], await app.open(), await app.get(await waiting_run(app))

    async def read(_: str, after: int, limit: int) -> list[Event]:
        return [one for one in log if one.seq > after][:limit]

    async def get(_: str) -> Run:
        return run

    async def follow(received: list[int]) -> None:
        async for one in following.follow("run", 0):
            received.append(one.seq)  # noqa: PERF401 - it is looked at while it grows

    following = event_feed.EventFeeds(store, clock, get, read)
    received: list[list[int]] = [[], []]
    followers = [asyncio.create_task(follow(each)) for each in received]
    await until(lambda: received == [[1, 2, 3]] * 2)
    log[:] = then
    await clock.advance(2 * event_feed.LOOK_BACK_EVERY)
    await turns()
    if not any(one.kind == "done" for one in then):
        log[:] = [event(1), event(2), event(3), event(4, "done")]

    await as_time_passes(clock, asyncio.gather(*followers), step=1)

    assert received == [heard] * 2
    assert not feeds()
