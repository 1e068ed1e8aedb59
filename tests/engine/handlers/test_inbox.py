"""Steering: messages that reach the run that is active."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laneway import Context, Retry, Scheduler, SessionPolicy
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.invariants import all_runs
from tests.support.waits import as_time_passes, in_state, soon, thread_between_looks, until

STEER = SessionPolicy(mode="steer")


async def test_a_message_reaches_the_active_run(app: Scheduler) -> None:
    begun = asyncio.Event()
    read: list[str] = []

    @app.task
    async def answer(text: str, *, ctx: Context) -> list[str]:
        begun.set()
        while len(read) < 2:
            read.extend(message["text"] for message in ctx.inbox)
            await asyncio.sleep(0)
        return read

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        first = await chat.submit(text="write a poem")
        await soon(begun.wait())
        later = [await chat.submit(text=text) for text in ("about cats", "in French")]
        result = await app.result(first, timeout=10)

    assert [(receipt.outcome.value, receipt.run_id) for receipt in later] == [("steered", first.run_id)] * 2
    assert result == ["about cats", "in French"]
    assert len(await app.runs()) == 1
    kinds = [event.kind async for event in app.events(first)]
    assert kinds.count("steered") == 2


async def test_what_a_run_leaves_unread_becomes_one_run_behind_it(app: Scheduler) -> None:
    begun, may_end, seen = asyncio.Event(), asyncio.Event(), []

    @app.task
    async def answer(text: str, *, ctx: Context) -> None:
        seen.append(text)
        begun.set()
        await may_end.wait()

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        first = await chat.submit(text="a")
        await soon(begun.wait())
        for text in "bc":
            await chat.submit(text=text)
        may_end.set()
        await app.wait(first, timeout=10)
        [last] = [run for run in await app.runs() if run.id != first.run_id]
        await app.wait(last, timeout=10)

    assert seen == ["a", "b\nc"]


async def test_a_task_without_a_context_never_loses_a_steered_message(app: Scheduler) -> None:
    begun, may_end, seen = asyncio.Event(), asyncio.Event(), []

    @app.task
    async def answer(text: str) -> None:
        seen.append(text)
        begun.set()
        await may_end.wait()

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        await chat.submit(text="a")
        await soon(begun.wait())
        await chat.submit(text="b")
        may_end.set()
        await until(lambda: len(seen) == 2)

    assert seen == ["a", "b"]


async def test_each_attempt_reads_from_the_start(app: Scheduler, clock: FakeClock) -> None:
    begun, go_on, reads = asyncio.Event(), asyncio.Event(), []

    @app.task(retry=Retry.delays(5))
    async def answer(text: str, *, ctx: Context) -> None:
        begun.set()
        await go_on.wait()
        while not ctx.inbox:  # noqa: ASYNC110  # a handler has nothing to wait for
            await asyncio.sleep(0)
        reads.append([message["text"] for message in ctx.inbox.read()])
        if ctx.attempt == 1:
            raise ConnectionError("busy")

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        first = await chat.submit(text="a")
        await soon(begun.wait())
        await chat.submit(text="b")
        go_on.set()
        await until(lambda: len(reads) == 1)
        await chat.submit(text="c")  # between two attempts it is active, too
        for _ in range(20):
            await clock.advance(0.5)
        run = await soon(app.wait(first))

    assert reads == [["b"], ["b", "c"]]
    assert run.state is RunState.SUCCEEDED
    assert len(await app.runs()) == 1


async def test_an_interrupted_run_takes_what_it_did_not_read_with_it(app: Scheduler) -> None:
    begun, seen = asyncio.Event(), []

    @app.task
    async def answer(text: str, *, ctx: Context) -> None:
        seen.append(text)
        begun.set()
        if text == "a":
            await asyncio.Event().wait()

    chat = answer.using(session="chat")
    async with app.running():
        await chat.submit(text="a")
        await soon(begun.wait())
        await chat.using(session_policy=STEER).submit(text="unread")
        last = await chat.using(session_policy=SessionPolicy(mode="interrupt")).submit(text="b")
        await soon(app.wait(last))

    assert seen == ["a", "b"]
    assert (await app.lanes.get("main")).counts["dropped unread"] == 1
    assert sorted(run.state.value for run in await app.runs()) == ["cancelled", "succeeded"]


async def test_a_plain_handler_reads_from_its_thread(app: Scheduler) -> None:
    @app.task
    def answer(text: str, *, ctx: Context) -> list[Any]:
        while not ctx.inbox:
            thread_between_looks()
        return ctx.inbox.read()

    chat = answer.using(session="chat", session_policy=STEER)
    async with app.running():
        first = await chat.submit(text="a")
        await in_state(app, first, RunState.RUNNING)
        await chat.submit(text="b")
        result = await app.result(first, timeout=10)

    assert result == [{"text": "b"}]


CHILD = """
import time
from laneway import Context, Scheduler

app = Scheduler({url!r})

@app.task(process=True)
def answer(text: str, *, ctx: Context) -> list:
    read = []
    while len(read) < 2:
        read += [message["text"] for message in ctx.inbox]
        time.sleep(0.001)
    return read
"""


async def test_a_handler_in_a_child_process_reads_its_inbox_and_says_how_much(
    tmp_path: Path, load_module: Callable[[str, str], Any]
) -> None:
    url = f"sqlite:///{tmp_path / 'laneway.db'}"
    app: Scheduler = load_module("steered_child", CHILD.format(url=url)).app
    chat = app.tasks.get("answer").using(session="chat", session_policy=STEER)
    async with app, app.running():
        first = await chat.submit(text="a")
        await in_state(app, first, RunState.RUNNING)
        for text in "bc":
            await chat.submit(text=text)
        result = await app.result(first, timeout=20)
        runs = await all_runs(await app.open())

    assert result == ["b", "c"]
    assert [run.id for run in runs] == [first.run_id]


@pytest.fixture
def load_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """Write a module where child processes find it, and import it."""

    def load(name: str, text: str) -> Any:
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        return __import__(name)

    return load


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
