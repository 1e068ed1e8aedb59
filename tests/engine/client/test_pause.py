"""Pause, resume and checkpoints: what a handler saved comes back, whatever happened in between."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from laneway import BadArguments, Context, Retry, Scheduler
from laneway.core.records.states import RunState
from laneway.errors import LeaseLost, WrongState
from laneway.ports.control import Resume
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of
from tests.support.waits import as_time_passes, in_state, soon, until
from tests.support.watched_store import WatchedStore

KINDS = pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])


class Counting:
    """A handler that counts to `upto`, saving every number, from wherever it was; it waits at `wait_at`."""

    def __init__(self, app: Scheduler, *, plain: bool, upto: int = 6, wait_at: int = 3, **options: Any) -> None:
        self.counted: list[int] = []
        self.at_gate, self.gate = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self._upto, self._wait_at = upto, wait_at
        self.task = app.task(name="count", **options)(self._plain if plain else self._async)

    async def _async(self, *, ctx: Context) -> list[int]:
        for number in range(ctx.state or 0, self._upto):
            self._count(number)
            if number == self._wait_at and not self.gate.is_set():
                self.at_gate.set()
                await until(self.gate.is_set)
                self._fail()
            await ctx.checkpoint(number + 1)
        return self.counted

    def _plain(self, *, ctx: Context) -> list[int]:
        for number in range(ctx.state or 0, self._upto):
            self._count(number)
            if number == self._wait_at and not self.gate.is_set():
                self.at_gate.set()
                assert self.gate.wait(10)
                self._fail()
            ctx.checkpoint(number + 1)
        return self.counted

    def _count(self, number: int) -> None:
        self.counted.append(number)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@KINDS
async def test_a_pause_takes_effect_at_the_next_checkpoint_and_the_state_comes_back(
    app: Scheduler, plain: bool
) -> None:
    counting = Counting(app, plain=plain)
    async with app.running():
        receipt = await counting.task.submit()
        await until(counting.at_gate.is_set)
        asked = await app.pause(receipt)
        counting.gate.set()
        await until(lambda: not app.executing)
        await soon(in_state(app, receipt.run_id, RunState.PAUSED))
        await app.resume(receipt)
        value = await soon(app.result(receipt))

    assert asked.state is RunState.RUNNING
    assert value == [0, 1, 2, 3, 4, 5]  # nothing is repeated, nothing left out
    assert await kinds_of(app, receipt) == [
        *("started", "pause_requested", "paused", "resumed", "started", "result", "done"),
    ]


@KINDS
async def test_a_pause_that_is_taken_back_before_the_checkpoint_changes_nothing(app: Scheduler, plain: bool) -> None:
    counting = Counting(app, plain=plain)
    async with app.running():
        receipt = await counting.task.submit()
        await until(counting.at_gate.is_set)
        await app.pause(receipt)
        await app.resume(receipt)
        counting.gate.set()
        value = await soon(app.result(receipt))

    assert value == [0, 1, 2, 3, 4, 5]
    assert await kinds_of(app, receipt) == ["started", "pause_requested", "resumed", "result", "done"]


async def test_a_pause_that_is_taken_back_while_the_handler_unwinds_is_taken_back(
    memory: Store, clock: FakeClock
) -> None:
    store = WatchedStore(memory)
    app = Scheduler(store=store, clock=clock)
    counting = Counting(app, plain=False)
    async with app.running():
        receipt = await counting.task.submit()
        await until(counting.at_gate.is_set)
        await app.pause(receipt)
        counting.gate.set()
        # The answer that tells it to pause is out; the step that says it has is held back.
        await until(lambda: any(step.saved for step in store.steps) and bool(store.steps[-1].saved))
        held = store.hold_back("step")
        await soon(held.wait())
        await memory.change_run("a call", receipt.run_id, Resume())
        store.let_go("step")
        value = await soon(app.result(receipt))

    assert value == [0, 1, 2, 3, 4, 5]


@KINDS
async def test_a_checkpoint_outlives_a_failure(app: Scheduler, clock: FakeClock, plain: bool) -> None:
    counting = Counting(app, plain=plain, retry=Retry.delays(1))
    counting.error = ValueError("once")
    async with app.running():
        receipt = await counting.task.submit()
        await until(counting.at_gate.is_set)
        counting.gate.set()
        value = await as_time_passes(clock, app.result(receipt))

    assert value == [0, 1, 2, 3, 3, 4, 5]


async def test_a_requested_pause_turns_a_retry_into_paused(app: Scheduler) -> None:
    counting = Counting(app, plain=False, retry=Retry.delays(1))
    counting.error = ValueError("once")
    async with app.running():
        receipt = await counting.task.submit()
        await until(counting.at_gate.is_set)
        await app.pause(receipt)
        counting.gate.set()
        await soon(in_state(app, receipt.run_id, RunState.PAUSED))

    assert await kinds_of(app, receipt) == ["started", "pause_requested", "retrying", "paused"]


async def test_a_checkpoint_outlives_its_worker_and_forgives_its_crashes(memory: Store, clock: FakeClock) -> None:
    doomed_store = WatchedStore(memory)
    doomed, heir = Scheduler(store=doomed_store, clock=clock), Scheduler(store=memory, clock=clock)
    first, second = Counting(doomed, plain=False), Counting(heir, plain=False)
    second.gate.set()
    receipt = await doomed.submit("count")
    working = asyncio.create_task(doomed.work())
    await until(first.at_gate.is_set)
    # Cut off, it renews no more; the other one takes over.
    doomed_store.hold_back("step")
    doomed_store.breaks("renew", *[ConnectionError("cut off")] * 1000)

    async with heir.running():
        value = await as_time_passes(clock, heir.result(receipt), step=1)
    first.gate.set()
    doomed_store.let_go("step")
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert first.counted == [0, 1, 2, 3]
    assert value == [3, 4, 5]


@KINDS
async def test_a_checkpoint_under_a_lost_incarnation_raises_and_is_not_saved(
    memory: Store, clock: FakeClock, plain: bool
) -> None:
    store = WatchedStore(memory)
    app = Scheduler(store=store, clock=clock)
    raised: list[BaseException] = []
    begun, gate = threading.Event(), threading.Event()

    def in_thread(*, ctx: Context) -> str:
        if ctx.fence > 1:
            return str(ctx.state)
        begun.set()
        assert gate.wait(10)
        try:
            ctx.checkpoint("late")
        except BaseException as error:
            raised.append(error)
            raise
        return "not reached"

    async def on_loop(*, ctx: Context) -> str:
        if ctx.fence > 1:
            return str(ctx.state)
        begun.set()
        await until(gate.is_set)
        try:
            await ctx.checkpoint("late")
        except BaseException as error:
            raised.append(error)
            raise
        return "not reached"

    app.task(name="work")(in_thread if plain else on_loop)
    async with app.running():
        receipt = await app.submit("work")
        await until(begun.is_set)
        store.breaks("step", LeaseLost("this incarnation is over"))
        gate.set()
        await until(lambda: bool(raised))
        value = await as_time_passes(clock, app.result(receipt), step=1)

    assert isinstance(raised[0], asyncio.CancelledError | LeaseLost)
    assert value == "None"


@KINDS
@pytest.mark.parametrize(
    ("state", "message"),
    [
        (object(), "the state of a checkpoint"),
        (float("nan"), "the state of a checkpoint"),
        ("x" * (1 << 20), "the state of a checkpoint"),
    ],
    ids=["object", "nan", "large"],
)
async def test_a_state_that_cannot_be_stored_raises_in_the_handler(
    app: Scheduler, plain: bool, state: object, message: str
) -> None:
    def in_thread(*, ctx: Context) -> Any:
        with pytest.raises(BadArguments, match=message):
            ctx.checkpoint(state)
        return ctx.state

    async def on_loop(*, ctx: Context) -> Any:
        with pytest.raises(BadArguments, match=message):
            await ctx.checkpoint(state)
        return ctx.state

    app.task(name="work")(in_thread if plain else on_loop)
    receipt = await app.submit("work")
    await soon(app.drain())

    assert await app.result(receipt) is None


async def test_a_pending_run_is_paused_at_once_and_goes_on_when_it_was_due(app: Scheduler, clock: FakeClock) -> None:
    @app.task
    async def work() -> str:
        return "done"

    now, later = await work.submit(), await work.using(delay=100).submit()
    runs = [await app.pause(now), await app.pause(later)]
    assert await app.drain() == {}
    await clock.advance(50)
    for receipt in (now, later):
        await app.resume(receipt)

    assert [run.state for run in runs] == [RunState.PAUSED, RunState.PAUSED]
    assert await app.drain() == {"succeed": 1}
    await clock.advance(51)
    assert await app.drain() == {"succeed": 1}


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
async def test_what_has_ended_is_not_changed_and_its_state_is_told(app: Scheduler, verb: str) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()
    await app.drain()

    with pytest.raises(WrongState, match="a succeeded run cannot be"):
        await getattr(app, verb)(receipt)


async def test_a_run_that_is_not_paused_cannot_be_resumed(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()

    with pytest.raises(WrongState, match="a pending run cannot be resumed"):
        await app.resume(receipt)
