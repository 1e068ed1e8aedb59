"""Reading: results, waiting, lists, and events from any cursor, live and afterwards."""

from __future__ import annotations

import asyncio

import pytest

from laneway import BadSetting, Context, Event, RunCancelled, RunDropped, RunFailed, Scheduler, StoreUnavailable
from laneway.core.records.states import RunState
from laneway.errors import RunEnded
from laneway.testing import FakeClock
from tests.support.run_logs import log_of
from tests.support.waits import as_time_passes, soon, stores_answered, turns
from tests.support.watched_store import WatchedStore

# Results


async def test_a_result_is_there_for_whoever_asks_before_and_after_the_end(app: Scheduler) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    receipt = await work.submit(n=5)
    before = asyncio.create_task(app.result(receipt))
    await app.drain()

    assert await soon(before) == 5
    assert await app.result(receipt) == 5
    assert await app.result(receipt.run_id) == 5
    assert await app.result(await app.get(receipt)) == 5


async def test_many_may_wait_for_one_run(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        return "for all"

    receipt = await work.submit()
    waiting = [asyncio.create_task(app.result(receipt)) for _ in range(20)]
    await turns()
    await app.drain()

    assert await soon(asyncio.gather(*waiting)) == ["for all"] * 20


@pytest.mark.parametrize("ask", ["result", "wait"])
async def test_a_run_that_does_not_end_in_time_raises_timeout_error_and_goes_on(
    app: Scheduler, clock: FakeClock, ask: str
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def work() -> str:
        await go_on.wait()
        return "later"

    async with app.running():
        receipt = await work.submit()
        await until_started(app, receipt.run_id)
        with pytest.raises(TimeoutError) as caught:
            await as_time_passes(clock, getattr(app, ask)(receipt, timeout=2.5))
        go_on.set()
        value = await soon(app.result(receipt, timeout=5))

    assert value == "later"
    assert str(caught.value) == f"run {receipt.run_id} has not ended in 2.5 s; it is running"
    assert clock.monotonic() >= 2.5


async def until_started(app: Scheduler, run: str) -> None:
    async for event in app.events(run):
        if event.kind == "started":
            return


async def test_wait_returns_the_run_however_it_ended(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(fail: bool) -> str:
        if fail:
            raise ValueError("no")
        return "yes"

    receipts = [await work.submit(fail=fail) for fail in (False, True)]
    await app.drain()

    runs = [await app.wait(receipt, timeout=1) for receipt in receipts]
    assert [(run.state, run.result) for run in runs] == [(RunState.SUCCEEDED, "yes"), (RunState.FAILED, None)]
    assert all(run.ended_at is not None for run in runs)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RunFailed("r1", "error", "no such doc"), "run r1 failed (error: no such doc)"),
        (RunFailed("r1", "timed_out"), "run r1 failed (timed_out)"),
        (RunCancelled("r1"), "run r1 was cancelled"),
        (RunDropped("r1", "interrupted"), "run r1 was dropped (interrupted)"),
    ],
)
def test_an_ending_says_how_and_why(error: RunEnded, message: str) -> None:
    assert str(error) == message
    assert error.run_id == "r1"


async def test_whoever_stops_waiting_leaves_no_trace(lossy: Scheduler, watched: WatchedStore) -> None:
    @lossy.task
    async def work() -> None: ...

    receipt = await lossy.submit("work")
    waiting = [asyncio.create_task(lossy.result(receipt)) for _ in range(5)]
    await turns()
    listening = watched.watchers
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert listening == 5
    assert watched.watchers == 0


async def test_waiting_finds_the_end_within_a_second_when_the_hint_is_lost(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    watched.watch = lambda changed: lambda: None  # type: ignore[method-assign]  # no hint ever comes

    @lossy.task
    async def work() -> str:
        return "found"

    receipt = await lossy.submit("work")
    waiting = asyncio.create_task(lossy.result(receipt))
    await turns()
    await lossy.drain()
    await turns()
    early = waiting.done()
    await clock.advance(1)

    assert not early
    assert await soon(waiting) == "found"


async def test_waiting_asks_the_store_about_once_a_second_and_not_more(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    @lossy.task
    async def work() -> None: ...

    receipt = await lossy.submit("work")
    waiting = asyncio.create_task(lossy.result(receipt))
    await turns()
    asked = watched.calls["get"]
    await clock.advance(10)

    assert watched.calls["get"] - asked == 10
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


# Events


async def follow(app: Scheduler, run: str, after: int = 0) -> list[Event]:
    return [event async for event in app.events(run, after)]


async def test_events_are_followed_live_from_another_task_up_to_done(app: Scheduler, clock: FakeClock) -> None:
    go_on = asyncio.Event()

    @app.task
    async def work(*, ctx: Context) -> str:
        ctx.log("one")
        await go_on.wait()
        ctx.log("two")
        return "end"

    seen: list[str] = []

    async def reader(run_id: str) -> None:
        async for event in app.events(run_id):
            seen.append(event.kind)
            if event.kind == "log":
                go_on.set()

    receipt = await work.submit()
    following = asyncio.create_task(reader(receipt.run_id))
    async with app.running():
        await as_time_passes(clock, following, step=0.05)

    assert seen == ["started", "log", "log", "result", "done"]


@pytest.mark.parametrize("after", range(8))
async def test_events_are_read_from_any_cursor_after_the_end(app: Scheduler, after: int) -> None:
    @app.task
    async def work(*, ctx: Context) -> None:
        for n in range(3):
            ctx.emit("tick", n)

    receipt = await work.submit()
    await app.drain()

    log = await soon(follow(app, receipt.run_id, after))
    assert [event.seq for event in log] == list(range(after + 1, 7))


async def test_a_cursor_beyond_done_yields_nothing_and_ends(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()
    ahead = asyncio.create_task(follow(app, receipt.run_id, 1000))
    await turns()
    await app.drain()

    assert await soon(ahead) == []
    assert await soon(follow(app, receipt.run_id, 1000)) == []


async def test_a_long_log_is_read_page_by_page_without_a_gap(app: Scheduler) -> None:
    @app.task
    async def work(*, ctx: Context) -> None:
        for n in range(2500):
            ctx.emit("tick", n)

    receipt = await work.submit()
    await app.drain()

    log = await soon(follow(app, receipt.run_id))
    assert [event.seq for event in log] == list(range(1, 2504))
    assert [event.data for event in log if event.kind == "tick"] == list(range(2500))


async def test_several_readers_each_see_everything(app: Scheduler) -> None:
    @app.task
    async def work(*, ctx: Context) -> None:
        for n in range(10):
            ctx.emit("tick", n)
            await asyncio.sleep(0)

    receipt = await work.submit()
    readers = [asyncio.create_task(follow(app, receipt.run_id, after)) for after in (0, 0, 5)]
    await turns()
    await app.drain()

    logs = await soon(asyncio.gather(*readers))
    assert [[event.seq for event in log] for log in logs] == [[*range(1, 14)], [*range(1, 14)], [*range(6, 14)]]


async def test_a_reader_may_leave_early(lossy: Scheduler, watched: WatchedStore) -> None:
    @lossy.task
    async def work() -> None: ...

    receipt = await lossy.submit("work")
    await lossy.drain()
    async for event in lossy.events(receipt):
        assert event.kind == "started"
        break
    await turns()

    assert watched.watchers == 0


async def test_events_may_be_asked_for_by_the_beginning_of_an_id(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()
    await app.drain()

    assert [event.kind for event in await log_of(app, receipt.run_id[:12])] == ["started", "result", "done"]


# Lists


async def test_runs_are_listed_newest_first_in_pages(app: Scheduler) -> None:
    @app.task
    async def work(n: int) -> None: ...

    await app.submit_many([(work, {"n": n}) for n in range(25)])

    listed: list[int] = []
    before = None
    while page := await app.runs(limit=10, before=before):
        listed += [run.args["n"] for run in page]
        before = page[-1].number
    assert listed == list(reversed(range(25)))


async def test_runs_are_filtered_by_what_is_known_of_them(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    @app.task(retry=None, lane="cron")
    async def fail() -> None:
        raise ValueError

    await work.using(user="ann", session="chat").submit()
    await work.using(user="ben").submit()
    await fail.using(user="ann").submit()
    await app.drain()
    pending = await work.using(delay=5).submit()

    async def tasks(**wanted: str) -> list[str]:
        return [run.task for run in await app.runs(**wanted)]  # type: ignore[arg-type]  # strings only

    assert await tasks(state="succeeded") == ["work", "work"]
    assert await tasks(state="failed") == ["fail"]
    assert await tasks(user="ann") == ["fail", "work"]
    assert await tasks(user="ann", task="work") == ["work"]
    assert await tasks(session="chat") == ["work"]
    assert await tasks(lane="cron") == ["fail"]
    assert await tasks(user="nobody") == []
    assert [run.id for run in await app.runs(state=RunState.PENDING)] == [pending.run_id]


async def test_a_run_tells_its_times(app: Scheduler, clock: FakeClock) -> None:
    @app.task
    async def work() -> None:
        await clock.sleep(3)

    receipt = await work.using(delay=10).submit()
    before = await app.get(receipt)
    async with app.running():
        run = await as_time_passes(clock, app.wait(receipt))

    assert before.started_at is before.ended_at is None
    assert (before.due_at - before.accepted_at).total_seconds() == 10
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.due_at <= run.started_at
    assert (run.ended_at - run.started_at).total_seconds() >= 3


async def test_waiting_by_the_beginning_of_an_id_goes_on_when_another_run_begins_so(app: Scheduler) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    receipt = await work.submit(n=1)
    waiting = asyncio.create_task(app.result(receipt.run_id[:8]))
    await stores_answered()
    await work.submit(n=2)
    await app.drain()

    assert await soon(waiting) == 1


async def test_a_run_that_has_ended_has_its_result_at_once(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        return "done"

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt, timeout=0) == "done"


async def test_a_wrong_timeout_is_refused_and_leaves_no_coroutine_behind(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()

    for ask in (app.result, app.wait):
        with pytest.raises(BadSetting, match=r"^timeout is -1"):
            await ask(receipt, timeout=-1)


@pytest.mark.parametrize("ask", ["result", "wait"])
async def test_waiting_ends_in_time_also_when_the_store_is_out_of_reach(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock, ask: str
) -> None:
    lossy.task(name="work")(lambda: None)
    receipt = await lossy.submit("work")
    watched.fail("get", times=10)

    with pytest.raises((TimeoutError, StoreUnavailable)):
        await as_time_passes(clock, getattr(lossy, ask)(receipt, timeout=2))

    assert clock.monotonic() < 4
