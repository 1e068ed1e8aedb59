"""Executing: what a handler is given, what it returns, and whatever it raises."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from typing import Any

import pytest

from laneway import Context, Retry, RunFailed, Scheduler
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.run_logs import log_of
from tests.support.waits import soon, turns

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def test_an_async_handler_runs_on_the_loop_and_its_result_is_stored(app: Scheduler) -> None:
    loops = []

    @app.task
    async def add(a: int, b: int) -> dict[str, int]:
        loops.append(asyncio.get_running_loop())
        return {"sum": a + b}

    receipt = await add.submit(a=1, b=2)
    await app.drain()

    run = await app.get(receipt)
    assert (run.state, run.result, run.error, run.reason) == (RunState.SUCCEEDED, {"sum": 3}, None, None)
    assert (run.attempt, run.fence, run.crashes, run.worker) == (1, 1, 0, None)
    assert loops == [asyncio.get_running_loop()]


async def test_a_plain_handler_runs_in_a_thread_and_its_result_is_stored(app: Scheduler) -> None:
    threads = []

    @app.task
    def add(a: int, b: int = 5) -> int:
        threads.append(threading.current_thread())
        return a + b

    receipt = await add.submit(a=1)
    await app.drain()

    assert await app.result(receipt) == 6
    assert threads[0] is not threading.main_thread()
    assert threads[0].name.startswith("laneway-handler")


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, "null", [None], 1.5, "ä\x00"])
async def test_whatever_json_a_handler_returns_is_its_result(app: Scheduler, value: Any) -> None:
    @app.task
    async def give() -> Any:
        return value

    receipt = await give.submit()
    await app.drain()

    assert await app.result(receipt) == value
    [_, result, done] = await log_of(app, receipt)
    assert (result.kind, result.data) == ("result", {"value": value})
    assert (done.kind, done.data) == ("done", {"state": "succeeded"})


async def test_a_handler_hears_who_it_is(app: Scheduler) -> None:
    seen: dict[str, Any] = {}

    @app.task
    async def look(*, ctx: Context) -> None:
        seen.update(
            run_id=ctx.run_id,
            task=ctx.task,
            attempt=ctx.attempt,
            fence=ctx.fence,
            user=ctx.user,
            session=ctx.session,
        )

    receipt = await look.using(user="ann", session="chat").submit()
    await app.drain()

    assert seen == {
        "run_id": receipt.run_id,
        "task": "look",
        "attempt": 1,
        "fence": 1,
        "user": "ann",
        "session": "chat",
    }


async def test_context_variables_reach_handlers_also_in_threads(app: Scheduler) -> None:
    seen = []

    @app.task
    def plain() -> None:
        seen.append(who.get())
        who.set("plain")

    @app.task
    async def on_loop() -> None:
        seen.append(who.get())
        who.set("on loop")

    who.set("the starter")
    await plain.submit()
    await on_loop.submit()
    await app.drain()

    assert seen == ["the starter", "the starter"]
    assert who.get() == "the starter"


async def test_plain_handlers_run_side_by_side(app: Scheduler) -> None:
    both = threading.Barrier(2, timeout=5)

    @app.task(retry=None)
    def meet() -> bool:
        both.wait()
        return True

    receipts = [await meet.submit(), await meet.submit()]
    await soon(app.drain())

    assert [await app.result(receipt) for receipt in receipts] == [True, True]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Surrogate(Exception):
    def __str__(self) -> str:
        return "lone \ud800"


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize(
    ("error", "type_", "message"),
    [
        (ValueError("no such doc"), "ValueError", "no such doc"),
        (KeyError("x"), "KeyError", "'x'"),
        (SystemExit(3), "SystemExit", "3"),
        (KeyboardInterrupt(), "KeyboardInterrupt", ""),
        (asyncio.CancelledError("mine"), "CancelledError", "mine"),
        (TimeoutError("the server's"), "TimeoutError", "the server's"),
        (Unspeakable(), "Unspeakable", "(its message cannot be shown: RuntimeError)"),
        (Surrogate(), "Surrogate", "lone ?"),
        (RuntimeError("a\x00b"), "RuntimeError", "a\x00b"),
        (RuntimeError("x" * 1_000_000), "RuntimeError", "x" * 2048),
        (ExceptionGroup("both", [ValueError("a"), KeyError("b")]), "ExceptionGroup", "both (2 sub-exceptions)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_whatever_a_handler_raises_is_a_failed_attempt_and_the_worker_goes_on(
    app: Scheduler, error: BaseException, type_: str, message: str, plain: bool
) -> None:
    def fail() -> None:
        raise error

    async def fail_on_loop() -> None:
        raise error

    app.task(name="fail", retry=None)(fail if plain else fail_on_loop)
    after = app.task(name="after")(lambda: "fine")
    receipts = [await app.submit("fail"), await after.submit()]
    await soon(app.drain())

    run = await app.get(receipts[0])
    assert run.state is RunState.FAILED
    assert run.error is not None
    assert (run.reason, run.error.kind, run.error.type, run.error.message) == ("error", "error", type_, message)
    assert run.error.traceback is not None
    assert len(run.error.traceback) <= 16 * 1024
    assert type_ in run.error.traceback or len(message) == 2048
    assert await app.result(receipts[1]) == "fine"


async def test_a_failure_tells_where_it_came_from(app: Scheduler) -> None:
    @app.task(retry=None)
    async def outer() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    receipt = await outer.submit()
    await app.drain()

    error = (await app.get(receipt)).error
    assert error is not None
    assert error.traceback is not None
    assert "KeyError: 'inner'" in error.traceback
    assert "The above exception was the direct cause" in error.traceback
    assert error.traceback.endswith("ValueError: outer\n")


async def test_the_error_is_raised_to_whoever_asks_for_the_result(app: Scheduler) -> None:
    @app.task(retry=None)
    async def fail() -> None:
        raise ValueError("no such doc")

    receipt = await fail.submit()
    await app.drain()

    with pytest.raises(RunFailed) as caught:
        await app.result(receipt)
    assert (caught.value.run_id, caught.value.reason, caught.value.message) == (receipt.run_id, "error", "no such doc")
    assert str(caught.value) == f"run {receipt.run_id} failed (error: no such doc)"


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), {"a": {1j}}, "\ud800", b"hello", {"a": [b"hello"]}, {1: 2, "1": 3}],
    ids=["object", "nan", "in", "utf", "bytes", "bytes in", "twice"],
)
async def test_a_result_that_is_not_json_fails_the_run_without_another_attempt(app: Scheduler, value: Any) -> None:
    calls = []

    @app.task
    async def give() -> Any:
        calls.append(1)
        return value

    receipt = await give.submit()
    await app.drain()

    run = await app.get(receipt)
    assert (run.state, run.reason, run.attempt, run.result) == (RunState.FAILED, "bad_result", 1, None)
    assert run.error is not None
    assert (run.error.kind, run.error.type) == ("bad_result", "BadResult")
    assert run.error.message.startswith("the result of give")
    assert "not JSON" in run.error.message
    assert len(calls) == 1


async def test_an_oversized_result_fails_the_run_without_another_attempt(app: Scheduler) -> None:
    @app.task
    async def give() -> str:
        return "x" * (1024 * 1024 - 1)

    receipt = await give.submit()
    await app.drain()

    run = await app.get(receipt)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "bad_result", 1)
    assert run.error is not None
    assert "1048577 bytes as JSON; at most 1048576 are allowed" in run.error.message


async def test_arguments_that_fit_no_more_fail_the_run_without_another_attempt(
    app: Scheduler, clock: FakeClock
) -> None:
    def before(doc: str) -> None: ...

    async def after(doc: str, length: int) -> None: ...

    app.task(name="work")(before)
    receipt = await app.submit("work", {"doc": "42"})
    deployed = Scheduler(store=await app.open(), clock=clock)  # the same name, another signature
    deployed.task(name="work")(after)
    await deployed.drain()

    run = await app.get(receipt)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "bad_arguments", 1)
    assert run.error is not None
    assert run.error.message == "work needs 'length'"


async def test_a_type_error_of_the_handlers_own_is_an_ordinary_error(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(doc: str) -> None:
        raise TypeError("of its own")

    receipt = await work.submit(doc="42")
    await app.drain()

    error = (await app.get(receipt)).error
    assert error is not None
    assert (error.kind, error.message) == ("error", "of its own")


async def test_a_run_whose_task_no_worker_knows_stays_pending_and_holds_up_nobody(
    app: Scheduler, clock: FakeClock
) -> None:
    app.task(name="unknown_here")(lambda: None)
    app.task(name="known")(lambda: "fine")
    stays = await app.submit("unknown_here")
    goes = await app.submit("known")
    worker = Scheduler(store=await app.open(), clock=clock)
    worker.task(name="known")(lambda: "fine")

    await worker.drain()

    assert (await app.get(stays)).state is RunState.PENDING
    assert await app.result(goes) == "fine"


@pytest.mark.parametrize("error", [StopIteration, GeneratorExit])
async def test_a_plain_handler_that_raises_what_no_future_can_carry_fails_its_attempt(
    app: Scheduler, error: type[BaseException]
) -> None:
    @app.task(retry=None)
    def first_of_none() -> int:
        raise error("nothing there")

    receipt = await first_of_none.submit()
    work = asyncio.create_task(app.work())
    try:
        run = await soon(app.wait(receipt))
    finally:
        await app.stop(0)
        await work

    assert run.state is RunState.FAILED
    assert run.error is not None
    assert run.error.type == error.__name__


async def test_a_wrapped_async_handler_is_awaited(app: Scheduler) -> None:
    async def work(n: int) -> int:
        return n

    def wrapper(n: int) -> Any:  # what a decorator leaves that knows nothing of async
        return work(n)

    task = app.task(name="work", retry=None)(wrapper)
    receipt = await task.submit(n=5)
    await app.drain()

    assert await app.result(receipt) == 5


async def test_an_object_with_an_async_call_is_awaited(app: Scheduler) -> None:
    class Work:
        async def __call__(self, n: int) -> int:
            return n

    task = app.task(name="work", retry=None)(Work())
    receipt = await task.submit(n=5)
    await app.drain()

    assert await app.result(receipt) == 5


async def test_the_result_is_told_in_the_singular(app: Scheduler) -> None:
    @app.task
    async def work() -> Any:
        return object()

    receipt = await work.submit()
    await app.drain()

    error = (await app.get(receipt)).error
    assert error is not None
    assert error.message.startswith("the result of work is not JSON")


@pytest.mark.parametrize("way", ["returns", "raises", "is tried again", "times out", "is stopped"])
async def test_nothing_of_an_attempt_stays_in_memory_when_it_is_over(memory: Store, clock: FakeClock, way: str) -> None:
    # The garbage collector does not know of executions, so no attempt may end in a circle of references.
    app = Scheduler(store=memory, clock=clock)
    handles: list[weakref.ref[asyncio.Task[Any]]] = []

    async def work(*, ctx: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        handles.append(weakref.ref(task))
        ctx.log("here")
        if way in {"raises", "is tried again"}:
            raise ValueError("no")
        if way != "returns":
            await asyncio.Event().wait()

    retry = Retry.delays(0) if way == "is tried again" else None
    app.task(name="work", timeout=1 if way == "times out" else None, retry=retry)(work)
    await app.submit_many([("work", {}) for _ in range(30)])
    working = asyncio.create_task(app.work())
    await clock.advance(2)
    await soon(app.stop(0))
    await soon(working)
    await turns()
    gc.collect()

    assert len(handles) >= 30
    assert [handle for handle in handles if handle() is not None] == []
