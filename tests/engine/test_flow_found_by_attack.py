"""What an attack on the flow found: each test failed when it was written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway import BadSetting, Context, Lane, Scheduler, SessionPolicy
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.engine.support import WatchedStore, as_time_passes, soon, turns, until

STEER = SessionPolicy(mode="steer")
DEBOUNCED = SessionPolicy(debounce=1)


@pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])
async def test_each_quick_try_reads_the_inbox_from_the_start(app: Scheduler, clock: FakeClock, plain: bool) -> None:
    begun, steered = threading.Event(), threading.Event()
    tries: list[list[str]] = []

    def read(ctx: Context) -> None:
        tries.append([message["text"] for message in ctx.inbox])
        if len(tries) == 1:
            raise ConnectionError("busy")

    async def on_loop(text: str, *, ctx: Context) -> None:
        begun.set()
        await until(lambda: steered.is_set() and (bool(tries) or len(ctx.inbox) > 0))
        read(ctx)

    def in_thread(text: str, *, ctx: Context) -> None:
        begun.set()
        assert steered.wait(10)
        while not tries and not len(ctx.inbox):
            pass
        read(ctx)

    handler: Callable[..., Any] = in_thread if plain else on_loop
    answer = app.task(name="answer", transient=ConnectionError, retry=None)(handler)
    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        first = await chat.submit(text="a poem")
        await until(begun.is_set)
        assert (await chat.submit(text="about cats")).outcome == "steered"
        steered.set()
        await as_time_passes(clock, app.result(first))

    assert tries == [["about cats"], ["about cats"]]


def _leave(*_: object) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("where", ["merge", "async before_start", "plain before_start"])
async def test_an_exit_in_what_comes_before_the_handler_does_not_end_the_worker(app: Scheduler, where: str) -> None:
    async def leave(*_: object) -> None:
        _leave()

    options: dict[str, dict[str, Any]] = {
        "merge": {"merge": _leave},
        "async before_start": {"before_start": leave},
        "plain before_start": {"before_start": _leave},
    }

    @app.task(**options[where])
    async def answer(text: str) -> str:
        return text

    @app.task
    async def other() -> str:
        return "done"

    policy = SessionPolicy(mode="collect")
    first = await answer.using(session="chat", session_policy=policy).submit(text="a")
    await answer.using(session="chat", session_policy=policy).submit(text="b")
    await soon(app.drain())
    second = await other.using(session="chat").submit()
    await soon(app.drain())

    run = await app.get(first)
    assert (run.state, run.reason) == (RunState.FAILED, "bad_merge" if where == "merge" else "refused")
    assert await app.result(second, timeout=1) == "done"


async def test_a_plain_before_start_may_raise_anything(app: Scheduler) -> None:
    def nothing_left(args: dict[str, Any], ctx: Context) -> None:
        next(iter(()))

    @app.task(before_start=nothing_left)
    async def answer(text: str) -> str:
        return text

    receipt = await answer.submit(text="a")
    await soon(app.drain())

    run = await app.get(receipt)
    assert (run.state, run.reason) == (RunState.FAILED, "refused")


async def test_a_run_has_not_stopped_before_its_plain_before_start_has(app: Scheduler) -> None:
    begun, may_end, over = threading.Event(), threading.Event(), threading.Event()

    def load(args: dict[str, Any], ctx: Context) -> None:
        begun.set()
        may_end.wait(10)
        over.set()

    @app.task(before_start=load)
    async def answer(text: str) -> str:
        return text

    async with app.running():
        receipt = await answer.using(session="chat").submit(text="a")
        await until(begun.is_set)
        await app.sessions.stop("chat")
        await asyncio.sleep(0.2)
        before = (await app.get(receipt)).state
        may_end.set()
        after = await app.wait(receipt, timeout=10)

    assert over.is_set()
    assert (before, after.state) == (RunState.RUNNING, RunState.CANCELLED)


async def test_a_run_tried_again_by_hand_has_all_that_was_merged_into_it(app: Scheduler, clock: FakeClock) -> None:
    failing = True

    @app.task(retry=None)
    async def answer(text: str) -> str:
        if failing:
            raise ValueError("no")
        return text

    chat = answer.using(user="ann", session="chat", session_policy=DEBOUNCED)
    [first, *_] = [await chat.submit(text=text) for text in ("wait", "I meant", "cats")]
    await clock.advance(2)
    await app.drain()
    assert (await app.get(first)).state is RunState.FAILED
    failing = False

    again = await app.retry(first)
    twice = await app.retry(first)
    await app.drain()

    assert await app.result(again, timeout=1) == "wait\nI meant\ncats"
    assert await app.result(twice, timeout=1) == "wait\nI meant\ncats"
    assert await (await app.open()).check() == []


HUGE = 10**30


@pytest.mark.parametrize(
    "make",
    [
        lambda: Lane("main", limit=HUGE),
        lambda: Lane("main", per_user=HUGE),
        lambda: SessionPolicy(cap=HUGE),
        lambda: SessionPolicy(max_concurrent=HUGE),
    ],
)
def test_a_number_that_no_store_can_keep_is_refused_when_it_is_given(make: Callable[[], object]) -> None:
    with pytest.raises(BadSetting, match="at most"):
        make()


async def test_an_interrupt_is_not_kept_out_by_what_it_drops(app: Scheduler) -> None:
    begun = asyncio.Event()

    @app.task
    async def answer(text: str) -> str:
        if text == "a":
            begun.set()
            await asyncio.Event().wait()
        return text

    await app.lanes.set(Lane("main", limit=5, max_pending=2, when_full="refuse"))
    chat = answer.using(session="chat")
    async with app.running():
        await chat.submit(text="a")
        await soon(begun.wait())
        queued = [await chat.submit(text=text) for text in "bc"]
        assert (await chat.submit(text="d")).reason == "lane_full"

        receipt = await answer.using(session="chat", session_policy=SessionPolicy(mode="interrupt")).submit(text="e")

        assert receipt.outcome == "accepted"
        assert await app.result(receipt, timeout=10) == "e"
    assert [(await app.get(run)).reason for run in queued] == ["interrupted"] * 2


BAD_NAMES = ["\ud800", 5, None, "two\nlines"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_name_that_is_none_is_refused_wherever_it_is_given(app: Scheduler, name: Any) -> None:
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: app.lanes.get(name),
        lambda: app.lanes.unset(name),
        lambda: app.users.get(name),
        lambda: app.users.set("ann", cap=1, lane=name),
        lambda: app.users.list(after=name),
        lambda: app.users.list(after=("ann", name)),
        lambda: app.sessions.get(name),
        lambda: app.sessions.list(prefix=name),
        lambda: app.sessions.list(after=name),
    ]
    for ask in asked:
        with pytest.raises(BadSetting):
            await ask()


async def test_callers_that_wait_for_a_full_lane_come_back_together(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    work = lossy.task(name="work")(lambda n: n)
    await lossy.lanes.set(Lane("main", max_pending=1))
    await work.submit(n=0)
    waiting = [asyncio.ensure_future(work.submit(n=n)) for n in range(100)]
    await turns()
    before = watched.calls["submit"]

    # It takes no one in, and it wakes all of them.
    await lossy.lanes.set(Lane("main", max_pending=1, per_user=7))
    await turns()

    assert watched.calls["submit"] - before <= 2
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert (await watched.depths()).runs == {"pending": 1}


async def test_a_caller_that_stops_waiting_before_its_run_is_sent_leaves_none_behind(app: Scheduler) -> None:
    work = app.task(name="work")(lambda n: n)
    await app.open()
    first, second = (asyncio.ensure_future(work.submit(n=n)) for n in range(2))
    await asyncio.sleep(0)

    first.cancel()
    receipt = await soon(second)

    assert [run.id for run in await app.runs()] == [receipt.run_id]


async def test_a_message_that_was_dropped_unread_frees_its_key(app: Scheduler) -> None:
    begun = asyncio.Event()

    @app.task
    async def answer(text: str, *, ctx: Context) -> str:
        begun.set()
        if text == "a":
            await asyncio.Event().wait()
        return text

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        first = await chat.submit(text="a")
        await soon(begun.wait())
        assert (await chat.using(key="k").submit(text="b")).outcome == "steered"
        await app.sessions.stop_all("chat")
        await soon(app.wait(first))  # until then the handler may still read it

        again = await chat.using(key="k").submit(text="b")

        assert again.outcome == "accepted"


async def test_the_key_of_a_message_left_unread_stands_for_the_run_it_became(app: Scheduler) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def answer(text: str, *, ctx: Context) -> str:
        begun.set()
        await may_end.wait()
        return text

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        await chat.submit(text="a")
        await soon(begun.wait())
        await chat.using(key="k").submit(text="b")
        may_end.set()
        await soon(app.stop(timeout=5))

    again = await chat.using(key="k").submit(text="b")
    await app.drain()

    assert again.outcome == "existing"
    assert await soon(app.result(again)) == "b"
