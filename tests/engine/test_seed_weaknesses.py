"""What the schedulers before this one got wrong about lanes and sessions, by its name in the checklist.

W4-4 is shown in `test_merging`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from laneway import Context, Lane, Retry, Scheduler, SessionPolicy, Submission
from laneway.core.records.run import Gate
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.engine.support import as_time_passes, soon, turns, until
from tests.support.sessions import session_of

CHAT = "chat-7"


# W0-16: one noisy type can take all slots: no per-type limit, no fairness among users, no way to list or cancel


async def test_a_noisy_task_leaves_slots_to_others_and_can_be_listed_and_cancelled(url: str, clock: FakeClock) -> None:
    may_end, inside, quiet_ran = asyncio.Event(), Counter[str | None](), asyncio.Event()
    lanes = [Lane("noise", limit=2, per_user=1)]
    async with Scheduler(url, clock=clock, lanes=lanes, concurrency=4) as app:

        @app.task(lane="noise")
        async def noisy(*, ctx: Context) -> None:
            inside[ctx.user] += 1
            await may_end.wait()

        @app.task
        async def quiet() -> None:
            quiet_ran.set()

        await app.submit_many([Submission(noisy, user="loud") for _ in range(50)])
        await app.submit(noisy, user="shy")
        async with app.running():
            await until(lambda: inside.total() == 2)
            await app.submit(quiet)
            await soon(quiet_ran.wait())

            assert inside == {"loud": 1, "shy": 1}
            assert len(await app.runs(task="noisy", state="pending")) == 49
            assert await app.cancel_where(task="noisy", state="pending") == 49
            may_end.set()

    assert inside.total() == 2


# W2-11: strict priority without ageing starves low priority inside a user; accepted within a second is in no order


async def test_a_users_low_priority_starts_though_a_higher_one_never_runs_dry(app: Scheduler) -> None:
    order = []

    @app.task
    async def work(name: str) -> None:
        order.append(name)
        if name == "plain" and len(order) < 1500:  # as soon as one has started, the next comes
            await app.submit(work, {"name": "plain"}, user="ann")

    await app.submit(work, {"name": "lowly"}, user="ann", priority=-1)
    await app.submit_many([Submission(work, {"name": "plain"}, user="ann") for _ in range(20)])
    await app.drain(concurrency=10)

    assert 900 < order.index("lowly") < 1100


async def test_what_is_accepted_at_the_same_instant_starts_in_the_order_of_acceptance(app: Scheduler) -> None:
    order = []

    @app.task
    async def work(n: int) -> None:
        order.append(n)

    # The clock stands still.
    await app.submit_many([Submission(work, {"n": n}, user="ann") for n in range(20)])
    for n in range(20, 30):
        await app.submit(work, {"n": n}, user="ann")
    await app.drain(concurrency=1)

    assert order == list(range(30))


# W4-1: what is queued is lost on a crash; the map of sessions never shrinks


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
        assert await session_of(await app.open(), CHAT) is None


# W4-2: cancelling frees the slot while the old run is still unwinding, so a new one of a serial session overlaps it


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


# W4-3: whoever waited for a lane's slot held its session: a cancel deadlocked and callers were blocked


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


# W4-5: no time-out, so a run that hangs blocks its session for ever


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


# W4-6: runs known by a constant id shadow each other


async def test_two_runs_of_one_task_with_the_same_arguments_are_told_apart(app: Scheduler) -> None:
    may_end, begun = asyncio.Event(), []

    @app.task
    async def digest(day: str, *, ctx: Context) -> str:
        begun.append(ctx.run_id)
        await may_end.wait()
        return ctx.run_id

    async with app.running():
        one, other = [await app.submit(digest, {"day": "today"}) for _ in range(2)]
        await until(lambda: len(begun) == 2)
        await app.cancel(one)
        cancelled = await soon(app.wait(one))
        may_end.set()

        assert await soon(app.result(other)) == other.run_id
    assert cancelled.state is RunState.CANCELLED
    assert sorted(begun) == sorted([one.run_id, other.run_id])


# W4-18: the cutoff that shall keep what is stale from starting is never reached


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
