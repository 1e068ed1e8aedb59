"""The blocking face of a scheduler: every call, on every store."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, assert_type

import pytest

from laneway import BadSetting, Context, Event, Receipt, Run, RunFailed, Scheduler, StoreUnavailable, Submission
from laneway.errors import WrongThread
from laneway.ports.store import Store
from tests.sync.support import IN_TIME, TellingClock, in_thread

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


def tasks_of(app: Scheduler) -> Scheduler:
    """Register what the tests submit."""

    @app.task
    async def double(x: int) -> int:
        return x * 2

    @app.task(retry=None)
    def fail() -> None:
        raise ValueError("no")

    return app


@pytest.fixture
def app(app: Scheduler) -> Scheduler:
    return tasks_of(app)


def test_mypy_and_python_know_what_each_call_returns(app: Scheduler) -> None:
    with app.sync as face, face.running():
        receipt = assert_type(face.submit("double", {"x": 21}), Receipt)
        assert assert_type(face.result(receipt, timeout=IN_TIME), Any) == 42
        assert assert_type(face.wait(receipt), Run) == assert_type(face.get(receipt), Run)
        assert [run.id for run in assert_type(face.runs(task="double"), list[Run])] == [receipt.run_id]
        items: list[Submission | tuple[str, dict[str, int]]] = [("double", {"x": 1}), Submission("double", {"x": 2})]
        assert len(assert_type(face.submit_many(items), list[Receipt])) == 2
        events = [event.kind for event in assert_type(face.events(receipt), Iterator[Event])]
        assert events == ["started", "result", "done"]
        assert_type(face.open(), Store)
        assert assert_type(face.stop(), list[str]) == []
    assert assert_type(app.sync.drain(), Mapping[str, int]) in ({}, {"succeed": 1}, {"succeed": 2})


def test_a_run_that_failed_raises(app: Scheduler) -> None:
    receipt = app.sync.submit("fail")

    assert app.sync.drain() == {"fail": 1}

    with pytest.raises(RunFailed, match="no"):
        app.sync.result(receipt)


def test_bad_input_gets_the_error_that_the_awaited_call_gives(app: Scheduler) -> None:
    with pytest.raises(BadSetting, match="did you mean 'user'"):
        app.sync.submit("double", {"x": 1}, usr="ann")
    with pytest.raises(BadSetting, match="after is -1"):
        next(app.sync.events("some", after=-1))
    with pytest.raises(BadSetting, match="timeout is -1"):
        app.sync.within(-1)


def faces() -> set[threading.Thread]:
    """Return the threads of blocking faces; other tests may have left some."""
    return {thread for thread in threading.enumerate() if thread.name == "laneway-sync"}


def test_the_store_outlives_the_thread_and_the_face_can_be_used_again(app: Scheduler) -> None:
    others = faces()
    with app.sync:
        receipt = app.sync.submit("double", {"x": 2})
        assert len(faces() - others) == 1

    assert not faces() - others
    app.sync.close()
    app.sync.drain()
    assert app.sync.result(receipt) == 4


def test_fifty_threads_submit_at_once_and_each_gets_its_receipts(app: Scheduler) -> None:
    barrier = threading.Barrier(50)

    def twenty(thread: int) -> list[str]:
        barrier.wait()
        return [app.sync.submit("double", {"x": thread * 20 + n}).run_id for n in range(20)]

    threads = [in_thread(lambda number=number: twenty(number)) for number in range(50)]  # type: ignore[misc]  # bound now
    receipts = {run_id for thread in threads for run_id in thread.result(30)}

    assert len(receipts) == 1000
    assert {run.id for run in app.sync.runs(limit=2000)} == receipts
    assert app.sync.drain() == {"succeed": 1000}


def test_each_scheduler_has_a_thread_of_its_own(app: Scheduler) -> None:
    others = faces()
    receipt = app.sync.submit("double", {"x": 1})
    waiting = in_thread(lambda: app.sync.result(receipt))
    with tasks_of(Scheduler("memory://")).sync as other:
        other.submit("double", {"x": 1})
        assert len(faces() - others) == 2

    app.sync.drain()
    assert waiting.result(IN_TIME) == 2


def test_events_are_followed_live_from_another_thread(app: Scheduler) -> None:
    seen, go = threading.Event(), threading.Event()

    @app.task
    def talk(*, ctx: Context) -> None:
        ctx.log("one")
        assert go.wait(IN_TIME)
        ctx.log("two")

    def follow() -> list[str]:
        kinds = []
        for event in app.sync.events(receipt):
            kinds.append(event.kind)
            if event.kind == "log":
                seen.set()
        return kinds

    receipt = app.sync.submit(talk)
    following = in_thread(follow)
    with app.sync.running():
        assert seen.wait(IN_TIME)
        assert not following.done()
        go.set()
        assert following.result(IN_TIME) == ["started", "log", "log", "result", "done"]


def test_events_can_be_abandoned(app: Scheduler) -> None:
    receipt = app.sync.submit("double", {"x": 1})
    app.sync.drain()

    for event in app.sync.events(receipt):
        assert event.seq == 1
        break

    assert [event.seq for event in app.sync.events(receipt, after=1)] == [2, 3]


def test_a_plain_handler_may_use_the_face_of_the_scheduler_that_executes_it(app: Scheduler) -> None:
    @app.task
    def parent() -> int:
        result: int = app.sync.result(app.sync.submit("double", {"x": 4}), timeout=IN_TIME)
        return result

    with app.sync.running():
        assert app.sync.result(app.sync.submit(parent), timeout=IN_TIME) == 8


def test_an_async_handler_that_uses_it_fails_with_a_clear_error(app: Scheduler) -> None:
    @app.task(retry=None)
    async def parent() -> None:
        app.sync.submit("double", {"x": 4})

    with app.sync.running():
        run = app.sync.wait(app.sync.submit(parent), timeout=IN_TIME)

    assert run.error is not None
    assert run.error.type == "WrongThread"
    assert "await app's own call" in run.error.message


async def test_no_call_blocks_another_running_loop(app: Scheduler) -> None:
    face = app.sync
    for call in (face.drain, face.open, face.close, lambda: face.submit("double"), lambda: face.events("some")):
        with pytest.raises(WrongThread, match=r"asyncio\.to_thread"):
            call()
    with pytest.raises(WrongThread), face.running():
        pass

    receipt = await asyncio.to_thread(face.submit, "double", {"x": 1})
    assert receipt.outcome == "accepted"
    await asyncio.to_thread(face.close)


def test_a_result_that_does_not_come_in_time_raises(app: Scheduler) -> None:
    receipt = app.sync.submit("double", {"x": 1})

    with pytest.raises(TimeoutError, match="it is pending"):
        app.sync.result(receipt, timeout=0.02)


def test_every_call_can_be_bounded_and_is_cancelled_then() -> None:
    clock = TellingClock()
    app = tasks_of(Scheduler("memory://", clock=clock))
    receipt = app.sync.submit("double", {"x": 1})

    for call in (lambda: app.sync.within(0.05).wait(receipt), lambda: list(app.sync.within(0.05).events(receipt))):
        clock.cancelled.clear()
        with pytest.raises(TimeoutError, match="the call was cancelled"):
            call()
        assert clock.cancelled.wait(IN_TIME)

    assert app.sync.get(receipt).state == "pending"
    app.sync.close()


def test_ctrl_c_ends_a_wait_at_once() -> None:
    clock = TellingClock()
    app = tasks_of(Scheduler("memory://", clock=clock))
    receipt = app.sync.submit("double", {"x": 1})

    def interrupt() -> None:
        assert clock.asleep.wait(IN_TIME)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    in_thread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        app.sync.wait(receipt)

    assert clock.cancelled.wait(IN_TIME)
    app.sync.close()


def test_closing_cuts_off_the_callers_and_gives_back_what_was_running(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, asked = threading.Event(), threading.Event()
    result = app.result

    @app.task
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def heard(run: Receipt, timeout: float | None) -> Any:
        asked.set()
        return await result(run, timeout)

    monkeypatch.setattr(app, "result", heard)
    receipt = app.sync.submit(hang)
    working = in_thread(app.sync.work)
    waiting = in_thread(lambda: app.sync.result(receipt))
    assert begun.wait(IN_TIME)
    assert asked.wait(IN_TIME)

    app.sync.close()

    for caller in (working, waiting):
        with pytest.raises(StoreUnavailable, match="was closed during this call"):
            caller.result(IN_TIME)
    run = app.sync.get(receipt)
    assert (run.state, run.attempt, run.crashes) == ("pending", 1, 0)


def test_a_drain_that_takes_too_long_gives_back_what_was_running(app: Scheduler) -> None:
    @app.task
    async def hang() -> None:
        await asyncio.Event().wait()

    receipt = app.sync.submit(hang)

    with pytest.raises(TimeoutError, match="the call was cancelled"):
        app.sync.within(0.2).drain()

    assert app.sync.stop() == []  # whether it is still stopping or has stopped
    run = app.sync.get(receipt)
    assert (run.state, run.attempt, run.crashes) == ("pending", 1, 0)


def test_work_returns_when_another_thread_stops_it_and_calls_go_on(app: Scheduler) -> None:
    ready = threading.Event()
    working = in_thread(lambda: app.sync.work(concurrency=3, ready=ready.set))
    assert ready.wait(IN_TIME)

    assert app.sync.stop() == []

    assert working.result(IN_TIME) is None
    assert app.sync.stop() == []
    assert app.sync.submit("double", {"x": 1}).outcome == "accepted"


def test_closing_inside_a_running_block_stops_its_worker(app: Scheduler) -> None:
    with app.sync.running():
        app.sync.result(app.sync.submit("double", {"x": 1}), timeout=IN_TIME)
        app.sync.close()

    with app.sync.running():
        assert app.sync.result(app.sync.submit("double", {"x": 2}), timeout=IN_TIME) == 4


def test_what_the_block_raises_comes_through_and_the_worker_stops(app: Scheduler) -> None:
    with pytest.raises(LookupError), app.sync.running():
        raise LookupError

    with app.sync.running():
        pass


def test_hooks_run_after_the_worker_has_stopped_while_the_store_is_open(app: Scheduler) -> None:
    seen = []

    async def hook() -> None:
        seen.append((app.executing, len(await app.runs())))

    app.sync.at_close(hook)
    app.sync.submit("double", {"x": 1})

    app.sync.close()
    app.sync.get(app.sync.runs()[0])
    app.sync.close()

    assert seen == [([], 1)]


def test_what_cannot_be_called_is_no_hook(app: Scheduler) -> None:
    with pytest.raises(BadSetting, match="5 is no hook; give an async function"):
        app.sync.at_close(5)  # type: ignore[arg-type]  # that is the point

    app.sync.close()


def test_the_caller_s_context_reaches_what_the_call_does() -> None:
    seen = []

    class Clock(TellingClock):
        def now(self) -> int:
            seen.append(REQUEST.get())
            return super().now()

    app = tasks_of(Scheduler("memory://", clock=Clock()))
    app.sync.open()
    seen.clear()
    REQUEST.set("request 7")

    app.sync.submit("double", {"x": 1})

    assert set(seen) == {"request 7"}
    app.sync.close()
