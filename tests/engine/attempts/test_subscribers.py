"""Subscribers: they hear what a worker's runs say, in order, and whatever they do disturbs nothing."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from laneway import BadSetting, Context, Event, Retry, Scheduler
from laneway.engine.attempts import subscribers
from laneway.testing import FakeClock
from tests.support.children import handlers as child_handlers
from tests.support.run_logs import kinds_of, log_of
from tests.support.waits import as_time_passes, lingerers, soon, turns, until
from tests.support.watched_store import WatchedStore

STORY = ["started", "log", "mine", "result", "done"]


def talk(app: Scheduler, **options: Any) -> Any:
    async def work(*, ctx: Context) -> str:
        ctx.log("a line")
        ctx.emit("mine", {"n": 1})
        return "value"

    return app.task(name="work", **options)(work)


async def test_a_subscriber_hears_a_run_from_start_to_done(app: Scheduler) -> None:
    heard: list[Event] = []
    app.subscribe(heard.append)

    receipt = await talk(app).submit()
    await soon(app.drain())

    log = await log_of(app, receipt)
    assert [(event.run_id, event.kind, event.data, event.attempt) for event in heard] == [
        (event.run_id, event.kind, event.data, event.attempt) for event in log
    ]
    assert [event.seq for event in heard] == [0] * 5
    assert [event.at for event in heard] == [event.at for event in log]


async def test_a_subscriber_hears_the_end_of_every_run_of_many_that_end_together(app: Scheduler) -> None:
    heard: list[Event] = []
    app.subscribe(heard.append)

    @app.task
    async def work(number: int) -> int:
        return number

    receipts = await app.submit_many([(work, {"number": number}) for number in range(5)])
    await soon(app.drain())

    told = {receipt.run_id: [event.kind for event in heard if event.run_id == receipt.run_id] for receipt in receipts}
    assert told == {run_id: ["started", "result", "done"] for run_id in told}


async def test_async_functions_objects_and_what_decorators_leave_of_them_can_subscribe(app: Scheduler) -> None:
    heard: dict[str, list[str]] = {"async": [], "object": [], "wrapped": []}

    async def hear(event: Event) -> None:
        await asyncio.sleep(0)
        heard["async"].append(event.kind)

    class Ears:
        async def __call__(self, event: Event) -> None:
            heard["object"].append(event.kind)

    async def inner(event: Event) -> None:
        heard["wrapped"].append(event.kind)

    def wrapped(event: Event) -> Any:
        return inner(event)

    for call in (hear, Ears(), wrapped):
        app.subscribe(call)
    await talk(app).submit()
    await soon(app.drain())

    assert heard == dict.fromkeys(heard, STORY)


async def test_what_a_handler_says_is_heard_before_the_store_has_it(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    heard: list[str] = []

    async def hear(event: Event) -> None:
        heard.append(event.kind)

    @lossy.task
    async def work(*, ctx: Context) -> None:
        for piece in ("a", "b", "c"):
            ctx.delta(piece)
            ctx.progress(0.5)
        await asyncio.Event().wait()

    lossy.subscribe(hear)
    async with lossy.running():
        receipt = await lossy.submit("work")
        await until(lambda: len(heard) == 7)
        stored = await kinds_of(lossy, receipt)
        await lossy.stop(0)

    assert stored == ["started"]
    assert heard == ["started", *["delta", "progress"] * 3, "released"]


async def test_every_attempt_and_every_ending_is_told(app: Scheduler, clock: FakeClock) -> None:
    heard: list[tuple[str, Any]] = []
    app.subscribe(lambda event: heard.append((event.kind, event.data)))

    @app.task(retry=Retry.delays(1))
    async def work(*, ctx: Context) -> None:
        ctx.log(f"attempt {ctx.attempt}")
        raise ValueError("no")

    receipt = await work.submit()
    async with app.running():
        await as_time_passes(clock, app.wait(receipt))
        await until(lambda: heard[-1:] == [("done", {"state": "failed"})])

    assert heard == [(event.kind, event.data) for event in await log_of(app, receipt)]
    assert [kind for kind, _ in heard] == ["started", "log", "retrying", "started", "log", "error", "done"]


async def test_a_cancel_that_the_store_had_first_is_what_is_told(lossy: Scheduler, watched: WatchedStore) -> None:
    heard: list[str] = []
    lossy.subscribe(lambda event: heard.append(event.kind))
    go_on = asyncio.Event()

    @lossy.task
    async def work() -> str:
        await go_on.wait()
        return "too late"

    async with lossy.running():
        receipt = await lossy.submit("work")
        await until(lambda: "started" in heard)
        reached = watched.hold_back("step")
        go_on.set()
        await soon(reached.wait())  # the success is on its way, and the cancel overtakes it
        await lossy.cancel(receipt)
        watched.let_go("step")
        await soon(lossy.wait(receipt))
        await until(lambda: "done" in heard)

    log = [event.kind for event in await log_of(lossy, receipt)]
    assert log == ["started", "cancel_requested", "stopped", "done"]
    assert heard == ["started", "stopped", "done"]


async def test_a_refused_result_is_not_told(lossy: Scheduler, watched: WatchedStore) -> None:
    heard: list[str] = []
    lossy.subscribe(lambda event: heard.append(event.kind))
    go_on = asyncio.Event()

    @lossy.task
    async def work(*, ctx: Context) -> None:
        await go_on.wait()

    async with lossy.running():
        receipt = await lossy.submit("work")
        await until(lambda: "started" in heard)
        reached = watched.hold_back("step")
        go_on.set()
        await soon(reached.wait())
        await lossy.cancel(receipt, abandon=True)
        watched.let_go("step")
        await turns()

    assert heard == ["started"]


@pytest.mark.parametrize(
    ("handler", "process"),
    [
        (child_handlers.say_everything, False),
        (child_handlers.say_everything, True),
        (child_handlers.say_everything_async, True),
    ],
    ids=["thread", "child", "async child"],
)
async def test_threads_and_children_are_heard_in_order(
    app: Scheduler, handler: Callable[..., Any], process: bool
) -> None:
    heard: list[Event] = []
    app.subscribe(heard.append)

    await app.task(name="work", process=process)(handler).submit()
    await soon(app.drain())

    assert [event.kind for event in heard] == [
        *("started", "delta", "delta", "delta", "tool_start", "log", "tool_end", "tool_start", "tool_end"),
        *("progress", "progress", "result", "done"),
    ]


async def test_one_run_or_some_kinds_can_be_chosen(app: Scheduler) -> None:
    work = talk(app)
    one, other = [await work.submit() for _ in range(2)]
    heard: dict[str, list[Event]] = {"run": [], "kinds": [], "both": [], "neither": []}
    app.subscribe(heard["run"].append, run=one)
    app.subscribe(heard["kinds"].append, kinds=["log", "done"])
    app.subscribe(heard["both"].append, run=other.run_id, kinds={"mine"})
    app.subscribe(heard["neither"].append, run="another", kinds=["done"])
    await soon(app.drain())

    assert [event.kind for event in heard["run"]] == STORY
    assert {event.run_id for event in heard["run"]} == {one.run_id}
    assert sorted(event.kind for event in heard["kinds"]) == ["done", "done", "log", "log"]
    assert [(event.run_id, event.kind) for event in heard["both"]] == [(other.run_id, "mine")]
    assert heard["neither"] == []


async def test_events_off_stores_nothing_the_handler_says_and_subscribers_hear_all(app: Scheduler) -> None:
    heard: list[str] = []
    app.subscribe(lambda event: heard.append(event.kind))

    receipt = await talk(app, events=False).submit()
    await soon(app.drain())

    assert [event.kind for event in await log_of(app, receipt)] == ["started", "result", "done"]
    assert heard == STORY


@pytest.mark.parametrize("process", [False, True])
async def test_events_off_holds_in_threads_and_children_and_not_for_the_engines_own(
    app: Scheduler, clock: FakeClock, process: bool
) -> None:
    heard: list[str] = []
    app.subscribe(lambda event: heard.append(event.kind))
    task = app.task(name="work", process=process, events=False, transient=OSError, transient_wait=1, retry=None)(
        child_handlers.say_and_fail
    )

    receipt = await task.submit()
    async with app.running():
        await as_time_passes(clock, app.wait(receipt))
        await until(lambda: "done" in heard)

    stored = [(event.kind, event.data) for event in await log_of(app, receipt)]
    assert [kind for kind, _ in stored] == ["started", "log", "log", "error", "done"]
    assert all("trying again in 1 s" in data["text"] for kind, data in stored if kind == "log")
    assert heard == ["started", *["mine", "log"] * 2, "mine", "error", "done"]


async def test_nothing_is_heard_after_the_end(lossy: Scheduler) -> None:
    heard: list[str] = []
    kept: list[Context] = []
    lossy.subscribe(lambda event: heard.append(event.kind))

    @lossy.task
    async def work(*, ctx: Context) -> None:
        kept.append(ctx)

    async with lossy.running():
        await soon(lossy.wait(await lossy.submit("work")))
        kept[0].log("too late")
        await until(lambda: "done" in heard)

    assert heard == ["started", "result", "done"]


# Isolation


async def test_a_failing_subscriber_disturbs_nothing_and_goes_on(
    app: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    seen: dict[str, int] = {"plain": 0, "async": 0, "leaving": 0}

    def plain(event: Event) -> None:
        seen["plain"] += 1
        raise ValueError("plain")

    async def fails(event: Event) -> None:
        seen["async"] += 1
        raise asyncio.CancelledError if event.kind == "log" else KeyError("async")

    async def leaving(event: Event) -> None:
        seen["leaving"] += 1
        sys.exit(3)

    for call in (plain, fails, leaving, lambda event: heard.append(event.kind)):
        app.subscribe(call)
    with caplog.at_level(logging.ERROR, "laneway.subscribers"):
        receipt = await talk(app).submit()
        await soon(app.drain())

    assert await app.result(receipt) == "value"
    assert heard == STORY
    assert seen == dict.fromkeys(seen, 5)
    kinds = sorted(record.exc_info[0].__name__ for record in caplog.records if record.exc_info and record.exc_info[0])
    assert kinds == ["CancelledError", "KeyError", "SystemExit", "ValueError"]  # once for each, not for each event


async def test_a_blocked_subscriber_holds_up_neither_runs_nor_others(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(subscribers, "LAST_WORDS", 0.05)
    let_go, heard = threading.Event(), list[str]()

    async def waits(event: Event) -> None:
        await asyncio.Event().wait()

    app.subscribe(lambda event: let_go.wait(30))
    app.subscribe(waits)
    app.subscribe(lambda event: heard.append(event.kind))
    with caplog.at_level(logging.WARNING, "laneway.subscribers"):
        receipts = [await talk(app).submit()]
        receipts += [await app.submit("work") for _ in range(20)]
        await soon(app.drain())
    let_go.set()

    assert all([await app.result(receipt) == "value" for receipt in receipts])
    assert len(heard) == 21 * 5
    assert len([record for record in caplog.records if "had not heard yet were dropped" in record.message]) >= 1


async def test_a_subscriber_that_falls_too_far_behind_loses_the_oldest_and_is_told_on(
    lossy: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(subscribers, "ROOM", 10)
    gate, heard = asyncio.Event(), list[Any]()

    async def hear(event: Event) -> None:
        heard.append(event.data)
        await gate.wait()

    @lossy.task
    async def work(*, ctx: Context) -> None:
        for n in range(100):
            ctx.emit("tick", n)
            await asyncio.sleep(0)

    lossy.subscribe(hear, kinds=["tick"])
    with caplog.at_level(logging.WARNING, "laneway.subscribers"):
        async with lossy.running():
            receipt = await lossy.submit("work")
            await soon(lossy.wait(receipt))
            gate.set()
            await until(lambda: heard[-1] == 99)

    assert heard == sorted(heard)
    assert heard[-9:] == list(range(91, 100))
    [line] = [record.message for record in caplog.records]
    assert line.startswith("subscriber test_a_subscriber_that_falls_too_far")
    assert f"{100 - len(heard)} events were dropped" in line


# Coming and going


async def test_one_may_subscribe_and_leave_while_runs_go_on(app: Scheduler) -> None:
    heard: list[int] = []
    go_on = asyncio.Event()

    @app.task
    async def work(*, ctx: Context) -> None:
        ctx.emit("tick", 1)
        go_on.clear()
        await go_on.wait()
        ctx.emit("tick", 2)
        go_on.clear()
        await go_on.wait()
        ctx.emit("tick", 3)

    async with app.running():
        receipt = await work.submit()
        async for event in app.events(receipt):
            if event.kind == "started":
                break
        unsubscribe = app.subscribe(lambda event: heard.append(event.data), kinds=["tick"])
        await until(lambda: not go_on.is_set())
        go_on.set()
        await until(lambda: 2 in heard)
        unsubscribe()
        unsubscribe()  # twice is once
        go_on.set()
        await soon(app.wait(receipt))

    assert heard[-1] == 2


async def test_a_subscriber_may_remove_itself(app: Scheduler) -> None:
    heard: list[str] = []

    async def once(event: Event) -> None:
        heard.append(event.kind)
        leave()
        await asyncio.sleep(0)
        heard.append("went on")

    leave = app.subscribe(once)
    await talk(app).submit()
    await soon(app.drain())

    assert heard == ["started", "went on"]


async def test_subscribers_stay_from_worker_to_worker_and_loop_to_loop(url: str) -> None:
    app, heard = Scheduler(url), list[str]()
    app.subscribe(lambda event: heard.append(event.kind))
    work = talk(app)

    for _ in range(2):
        await work.submit()
        await soon(app.drain())
    await work.submit()
    await asyncio.to_thread(app.sync.drain)
    await app.aclose()
    await asyncio.to_thread(app.sync.close)

    assert heard == STORY * 3


async def test_an_old_worker_that_lingers_does_not_silence_the_new_one(app: Scheduler) -> None:
    let_go, heard = threading.Event(), list[str]()

    @app.task
    def stuck() -> None:
        let_go.wait(30)

    work = talk(app)
    app.subscribe(lambda event: heard.append(f"{event.run_id} {event.kind}"))
    async with app.running():
        old = await stuck.submit()
        await until(lambda: len(heard) == 1)
        await app.stop(0)
    async with app.running():
        let_go.set()
        await lingerers()
        new = await work.submit()
        await soon(app.wait(new))
        await until(lambda: f"{new.run_id} done" in heard)

    assert [line.split()[1] for line in heard if line.startswith(new.run_id)] == STORY
    assert heard[0] == f"{old.run_id} started"


async def test_nobody_is_asked_anything_while_nobody_subscribes(lossy: Scheduler, watched: WatchedStore) -> None:
    await talk(lossy).submit()
    await soon(lossy.drain())
    assert watched.calls["get"] == 0

    leave = lossy.subscribe(lambda _: None)
    leave()
    await lossy.submit("work")
    await soon(lossy.drain())

    assert watched.calls["get"] == 0


async def test_who_leaves_before_the_end_leaves_nothing_behind(lossy: Scheduler) -> None:
    go_on = asyncio.Event()

    @lossy.task
    async def work() -> None:
        await go_on.wait()
        leave()

    leave = lossy.subscribe(lambda _: None)
    async with lossy.running():
        receipt = await lossy.submit("work")
        go_on.set()
        await soon(lossy.wait(receipt))
        worker = lossy._lifecycle.worker  # noqa: SLF001 - what it keeps shows nowhere else
        assert worker is not None
        assert not worker._settlement_events.wants_replies  # noqa: SLF001 - as above


@pytest.mark.parametrize(
    ("call", "options", "said"),
    [
        ("no function", {}, "'no function' cannot be called; subscribe a function that takes an event"),
        (print, {"kinds": "log"}, "kinds is 'log'; it must be a list of event kinds"),
        (print, {"kinds": [1]}, r"kinds is \[1\]; it must be a list of event kinds"),
        (print, {"run": 5}, "5 is no run; give a receipt, a run or an id"),
    ],
)
def test_wrong_use_is_explained(call: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSetting, match=f"^{said}$"):
        Scheduler("memory://").subscribe(call, **options)


def test_events_is_a_switch() -> None:
    with pytest.raises(BadSetting, match=r"^events is 'no'; it must be True or False$"):
        Scheduler("memory://").task(events="no")(print)  # type: ignore[call-overload]  # that is the point
