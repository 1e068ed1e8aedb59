"""Sessions on a worker: one after the other, over crashes, stops and time-outs, and never in the way of others."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from laneway import Context, Lane, Retry, Scheduler, SessionPolicy
from laneway.core.records.run import Gate
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.sessions import session_of
from tests.support.waits import as_time_passes, soon, turns

CHAT = "chat-7"


KILLED = """
import asyncio, os, signal
from laneway import Scheduler

async def main():
    app = Scheduler({url!r})
    app.task(name="answer")(lambda text: None)
    for text in ("one", "two", "three"):
        await app.submit("answer", {{"text": text}}, session="chat-7")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.checklist("W4-1")
async def test_what_is_queued_survives_a_crash_and_a_session_that_is_idle_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'laneway.db'}"
    command = [sys.executable, "-c", KILLED.format(url=url)]
    killed = await asyncio.to_thread(subprocess.run, command, env=os.environ, timeout=30, check=False)
    assert killed.returncode == -signal.SIGKILL

    async with Scheduler(url) as app:
        seen: list[str] = []

        @app.task
        async def answer(text: str) -> None:
            seen.append(text)

        [before] = await app.sessions.list()
        await app.drain()

        assert (before.name, before.queued) == (CHAT, 3)
        assert seen == ["one", "two", "three"]
        assert await app.sessions.list() == []
        assert await session_of((await app.open()), CHAT) is None


async def _by_interrupt(app: Scheduler) -> None:
    await app.submit(
        "answer",
        {"text": "new"},
        session=CHAT,
        session_policy=SessionPolicy(mode="interrupt"),
    )


async def _by_stop(app: Scheduler) -> None:
    await app.sessions.stop(CHAT)
    await app.submit("answer", {"text": "new"}, session=CHAT)


async def _by_stop_all(app: Scheduler) -> None:
    await app.sessions.stop_all(CHAT)
    await app.submit("answer", {"text": "new"}, session=CHAT)


@pytest.mark.checklist("W4-2")
@pytest.mark.parametrize(
    ("stop", "max_concurrent"), [(_by_interrupt, 1), (_by_interrupt, 2), (_by_stop, 1), (_by_stop_all, 1)]
)
async def test_a_new_run_does_not_start_before_the_old_one_has_unwound(
    app: Scheduler, stop: Callable[[Scheduler], Awaitable[None]], max_concurrent: int
) -> None:
    begun, unwinding, may_leave, seen = asyncio.Event(), asyncio.Event(), asyncio.Event(), []

    @app.task
    async def answer(text: str) -> None:
        seen.append(text)
        if text == "old":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                unwinding.set()
                await may_leave.wait()
                seen.append("old has left")

    policy = SessionPolicy(max_concurrent=max_concurrent)
    async with app.running():
        await app.submit(answer, {"text": "old"}, session=CHAT, session_policy=policy)
        await soon(begun.wait())
        await stop(app)
        await soon(unwinding.wait())
        await turns()

        [new] = await app.runs(state="pending")
        assert [reason.gate for reason in await app.why(new)] == [Gate.SESSION_BUSY]
        may_leave.set()
        await soon(app.wait(new))

    assert seen == ["old", "old has left", "new"]


@pytest.mark.checklist("W4-3")
async def test_a_session_that_waits_for_a_lane_blocks_no_caller_and_no_cancel(url: str, clock: FakeClock) -> None:
    may_end, begun, seen = asyncio.Event(), asyncio.Event(), []
    async with Scheduler(url, clock=clock, lanes=[Lane("main", limit=1)]) as app:

        @app.task
        async def answer(text: str) -> None:
            seen.append(text)
            begun.set()
            await may_end.wait()

        async with app.running():
            await app.submit(answer, {"text": "in the only slot"})
            await soon(begun.wait())
            first, second, third = [
                await soon(app.submit(answer, {"text": text}, session=CHAT)) for text in ("first", "second", "third")
            ]

            assert (await soon(app.cancel(first))).state is RunState.CANCELLED
            assert (await soon(app.sessions.get(CHAT))).queued == 2
            assert (await soon(app.cancel(second))).state is RunState.CANCELLED
            may_end.set()
            await soon(app.wait(third))

    assert seen == ["in the only slot", "third"]


@pytest.mark.checklist("W4-5")
async def test_a_run_that_hangs_is_stopped_and_its_session_goes_on(app: Scheduler, clock: FakeClock) -> None:
    begun, seen = asyncio.Event(), []

    @app.task(timeout=300, retry=None)
    async def answer(text: str) -> None:
        seen.append(text)
        if text == "hangs":
            begun.set()
            await asyncio.Event().wait()

    async with app.running():
        hung, behind = [await app.submit(answer, {"text": text}, session=CHAT) for text in ("hangs", "behind it")]
        await soon(begun.wait())
        run = await as_time_passes(clock, app.wait(behind), step=60)

    assert ((await app.get(hung)).reason, run.state) == ("timed_out", RunState.SUCCEEDED)
    assert seen == ["hangs", "behind it"]


@pytest.mark.checklist("W4-18")
async def test_nothing_accepted_before_a_stop_all_ever_starts_wherever_it_waited(
    app: Scheduler, clock: FakeClock
) -> None:
    seen = []

    @app.task(retry=Retry.delays(5))
    async def answer(text: str) -> None:
        seen.append(text)
        if text == "between attempts":
            raise ConnectionError("busy")

    async def send(text: str, **options: Any) -> None:
        await app.submit(answer, {"text": text}, session=CHAT, **options)

    await send("between attempts")
    await app.drain()
    await send("queued")
    await send("due later", delay=10)
    await send("in a window", user="ann", session_policy=SessionPolicy(debounce=1))
    stopped = await app.sessions.stop_all(CHAT)
    await send("after it")
    for _ in range(4):
        await clock.advance(10)
        await app.drain()

    assert (len(stopped.cancelled), len(stopped.dropped)) == (1, 3)
    assert seen == ["between attempts", "after it"]
    assert Counter((run.state.value, run.reason) for run in await app.runs()) == {
        ("cancelled", None): 1,
        ("dropped", "stopped"): 3,
        ("succeeded", None): 1,
    }


class Crowd:
    """Handlers that stay until they are let go, and how many were there at once."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.started: list[int] = []
        self.open = asyncio.Event()

    async def enter(self, *names: str, n: int = 0) -> None:
        self.started.append(n)
        for name in names:
            self.inside[name] += 1
            self.most[name] = max(self.most[name], self.inside[name])
        await self.open.wait()
        await turns(3)
        for name in names:
            self.inside[name] -= 1


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def crowded(app: Scheduler, crowd: Crowd) -> Scheduler:
    @app.task
    async def visit(n: int = 0, *, ctx: Context) -> int:
        await crowd.enter("all", f"user:{ctx.user}", n=n)
        return n

    return app


async def test_a_sessions_runs_start_one_after_the_other_in_the_order_they_were_accepted(
    app: Scheduler, crowd: Crowd
) -> None:
    crowded(app, crowd)
    visit = app.tasks.get("visit").using(session="chat", user="ann")
    receipts = [await visit.using(priority=n % 3).submit(n=n) for n in range(10)]
    crowd.open.set()

    async with app.running():
        await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert crowd.started == list(range(10))
    assert crowd.most["all"] == 1
    assert [receipt.position for receipt in receipts] == [None, *range(1, 10)]


async def test_a_sessions_order_holds_across_two_workers(memory: Store, clock: FakeClock, crowd: Crowd) -> None:
    apps = [crowded(Scheduler(store=memory, clock=clock), crowd) for _ in range(2)]
    visit = apps[0].tasks.get("visit").using(session="chat", session_policy=SessionPolicy(cap=30))
    crowd.open.set()

    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.running(concurrency=3))
        receipts = [await visit.submit(n=n) for n in range(30)]
        await soon(asyncio.gather(*(apps[1].wait(receipt) for receipt in receipts)))

    assert crowd.started == list(range(30))
    assert crowd.most["all"] == 1


async def test_a_session_of_two_starts_in_order_and_never_more_than_two(app: Scheduler, crowd: Crowd) -> None:
    crowded(app, crowd)
    visit = app.tasks.get("visit").using(session="chat", session_policy=SessionPolicy(max_concurrent=2))
    receipts = [await visit.submit(n=n) for n in range(8)]

    async with app.running():
        crowd.open.set()
        await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert crowd.started == list(range(8))
    assert crowd.most["all"] == 2
