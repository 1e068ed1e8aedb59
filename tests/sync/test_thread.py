"""The loop's thread: calls, their ends, and its own."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from contextvars import ContextVar

import pytest

from laneway.errors import StoreUnavailable, WrongThread
from laneway.sync.thread import LoopThread
from tests.sync.support import IN_TIME, Endless, in_thread

VAR: ContextVar[str] = ContextVar("VAR", default="none")


async def nothing() -> None:
    """Stand for a hook that has nothing to do."""


def close(thread: LoopThread, within: float | None = None) -> None:
    thread.close(stop=nothing, close=nothing, within=within)


def begun(thread: LoopThread, endless: Endless) -> Future[None]:
    """Make an endless call from another thread; return when it has begun."""
    call = in_thread(lambda: thread.life().call(endless))
    assert endless.begun.wait(IN_TIME)
    return call


def signal_main(endless: Endless, number: signal.Signals) -> None:
    """Send the main thread a signal once the call has begun."""
    assert endless.begun.wait(IN_TIME)
    signal.pthread_kill(threading.main_thread().ident or 0, number)


async def which() -> int:
    return threading.get_ident()


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread(in_child=lambda: None, at_exit=nothing)
    yield thread
    close(thread)


def test_all_calls_run_on_one_daemon_thread_that_the_first_one_starts(thread: LoopThread) -> None:
    before = threading.active_count()

    served = {in_thread(lambda: thread.life().call(which)).result(IN_TIME) for _ in range(5)}
    served.add(thread.life().call(which))

    [found] = [other for other in threading.enumerate() if other.ident in served]
    assert found.daemon
    assert threading.active_count() <= before + 6
    assert len(served) == 1


def test_what_a_call_raises_is_raised_to_its_caller(thread: LoopThread) -> None:
    async def fails() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        thread.life().call(fails)


def test_a_call_that_asks_to_exit_does_not_take_the_loop_along(thread: LoopThread) -> None:
    async def exits() -> None:
        raise SystemExit(3)

    neighbour = Endless()
    waiting = begun(thread, neighbour)

    with pytest.raises(SystemExit):
        thread.life().call(exits)

    assert thread.life().call(which)
    assert not waiting.done()


def test_a_time_out_cancels_the_call(thread: LoopThread) -> None:
    endless = Endless()

    with pytest.raises(TimeoutError, match=r"no answer in 0\.05 s; the call was cancelled"):
        thread.life().call(endless, within=0.05)

    assert endless.cancelled.wait(IN_TIME)


def test_a_time_out_comes_in_time_though_the_call_swallows_its_cancellation(thread: LoopThread) -> None:
    free = asyncio.Event()

    async def stubborn() -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(TimeoutError):
        thread.life().call(stubborn, within=0.05)

    thread.life().loop.call_soon_threadsafe(free.set)


def test_a_time_out_comes_in_time_though_the_loop_is_stalled(thread: LoopThread) -> None:
    stalled, free = threading.Event(), threading.Event()

    async def stall() -> None:
        stalled.set()
        free.wait(IN_TIME)

    stalling = in_thread(lambda: thread.life().call(stall))
    assert stalled.wait(IN_TIME)

    with pytest.raises(TimeoutError):
        thread.life().call(which, within=0.05)

    free.set()
    stalling.result(IN_TIME)


def test_a_call_s_own_time_out_is_passed_on(thread: LoopThread) -> None:
    async def times_out() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        thread.life().call(times_out, within=10)


def test_ctrl_c_cancels_the_call_and_comes_through_at_once(thread: LoopThread) -> None:
    endless = Endless()

    interrupting = in_thread(lambda: signal_main(endless, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        thread.life().call(endless)

    assert endless.cancelled.wait(IN_TIME)
    interrupting.result(IN_TIME)
    assert thread.life().call(which)


def test_a_signal_handler_may_call_while_its_thread_is_in_a_call(thread: LoopThread) -> None:
    endless, answers = Endless(), []

    def handler(*_: object) -> None:
        answers.append(thread.life().call(which))
        raise LookupError

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        in_thread(lambda: signal_main(endless, signal.SIGUSR1))
        with pytest.raises(LookupError):
            thread.life().call(endless)
    finally:
        signal.signal(signal.SIGUSR1, former)

    assert len(answers) == 1


def test_the_caller_s_context_variables_are_carried_into_the_call(thread: LoopThread) -> None:
    async def change() -> str:
        seen = VAR.get()
        VAR.set("changed inside")
        return seen

    VAR.set("the caller's")

    assert thread.life().call(change) == "the caller's"
    assert VAR.get() == "the caller's"


def test_an_iterator_keeps_its_context_from_step_to_step(thread: LoopThread) -> None:
    async def items() -> AsyncGenerator[str, None]:
        token = VAR.set("inside")
        yield VAR.get()
        yield VAR.get()
        VAR.reset(token)
        yield VAR.get()

    VAR.set("outside")

    assert list(thread.life().iterate(items)) == ["inside", "inside", "outside"]


class Counting:
    """An async generator function without an end, which tells when it is closed."""

    def __init__(self) -> None:
        self.closed, self.stuck = threading.Event(), threading.Event()

    async def __call__(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(3):
                yield number
            self.stuck.set()
            await asyncio.Event().wait()
        finally:
            self.closed.set()


def test_an_abandoned_iterator_is_closed_on_the_loop(thread: LoopThread) -> None:
    counting = Counting()

    for number in thread.life().iterate(counting):
        if number == 1:
            break

    assert counting.closed.wait(IN_TIME)


def test_an_iterator_abandoned_in_the_middle_of_a_step_is_closed_on_the_loop(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    counting = Counting()
    items = thread.life().iterate(counting, within=0.05)

    with pytest.raises(TimeoutError):
        list(items)

    assert counting.closed.wait(IN_TIME)
    close(thread)
    assert caplog.records == []


def test_an_iterator_does_not_reach_into_the_next_life(thread: LoopThread) -> None:
    counting = Counting()
    items = thread.life().iterate(counting)
    assert next(items) == 0

    close(thread)
    thread.life().call(which)

    assert counting.closed.is_set()
    with pytest.raises(StoreUnavailable, match="was closed"):
        next(items)


def test_a_call_on_its_own_loop_is_refused(thread: LoopThread) -> None:
    async def inner() -> None:
        thread.life().call(which)

    with pytest.raises(WrongThread, match="its own event loop"):
        thread.life().call(inner)


def test_closing_on_its_own_loop_is_refused(thread: LoopThread) -> None:
    async def inner() -> None:
        close(thread)

    with pytest.raises(WrongThread, match="its own event loop"):
        thread.life().call(inner)


async def test_a_call_on_another_running_loop_is_refused(thread: LoopThread) -> None:
    with pytest.raises(WrongThread, match=r"asyncio\.to_thread"):
        thread.life()

    assert await asyncio.to_thread(lambda: thread.life().call(which))
    await asyncio.to_thread(close, thread)


def test_closing_cuts_off_the_calls_first_and_then_runs_the_hooks(thread: LoopThread) -> None:
    endless, order = Endless(), list[str]()
    waiting = begun(thread, endless)

    async def hook(name: str) -> None:
        order.append(name)
        assert endless.cancelled.is_set()
        assert isinstance(waiting.exception(), StoreUnavailable)

    thread.life().hooks += [lambda: hook("older"), lambda: hook("newer")]
    thread.close(stop=lambda: hook("stop"), close=lambda: hook("close"))

    assert order == ["stop", "newer", "older", "close"]
    with pytest.raises(StoreUnavailable, match=r"app\.sync was closed during this call") as caught:
        waiting.result(IN_TIME)
    assert caught.value.maybe_done


def test_a_hook_that_fails_keeps_nobody_from_its_turn(thread: LoopThread, caplog: pytest.LogCaptureFixture) -> None:
    ran = []

    async def fails() -> None:
        raise LookupError("first")

    async def fails_too() -> None:
        raise LookupError("second")

    async def works() -> None:
        ran.append("works")

    thread.life().hooks += [works, fails_too]
    with pytest.raises(LookupError, match="first"):
        thread.close(stop=fails, close=nothing)

    assert ran == ["works"]
    assert ["another failure" in record.getMessage() for record in caplog.records] == [True]
    assert thread.life().hooks == []


def test_closing_ends_the_thread_and_may_be_repeated(thread: LoopThread) -> None:
    ident = thread.life().call(which)

    close(thread)
    close(thread)

    assert ident not in {other.ident for other in threading.enumerate()}


def test_after_closing_the_next_call_starts_anew(thread: LoopThread) -> None:
    for _ in range(3):
        assert thread.life().call(which) != threading.get_ident()
        close(thread)


def test_whoever_calls_while_it_closes_is_refused_and_whoever_closes_waits(thread: LoopThread) -> None:
    closing, free = threading.Event(), threading.Event()

    async def slow() -> None:
        closing.set()
        await asyncio.to_thread(free.wait, IN_TIME)

    life = thread.life()
    life.hooks.append(slow)
    first = in_thread(lambda: close(thread))
    assert closing.wait(IN_TIME)
    second = in_thread(lambda: close(thread))

    with pytest.raises(StoreUnavailable, match="is being closed") as caught:
        thread.life().call(which)
    assert not caught.value.maybe_done
    with pytest.raises(TimeoutError, match=r"has not closed in 0\.05 s"):
        close(thread, within=0.05)
    assert not second.done()

    free.set()
    first.result(IN_TIME)
    second.result(IN_TIME)
    assert thread.life().call(which)


def test_closing_answers_the_callers_even_when_the_loop_is_stalled(thread: LoopThread) -> None:
    stalled, free = threading.Event(), threading.Event()

    async def stall() -> None:
        stalled.set()
        free.wait(IN_TIME)

    caller = in_thread(lambda: thread.life().call(stall))
    assert stalled.wait(IN_TIME)

    with pytest.raises(TimeoutError):
        close(thread, within=0.05)

    with pytest.raises(StoreUnavailable):
        caller.result(IN_TIME)
    free.set()


def test_a_task_that_does_not_stop_is_named_and_left(
    thread: LoopThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.sync.life.CANCEL_WITHIN", 0.05)
    started = threading.Event()

    async def stubborn() -> None:
        started.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    waiting = in_thread(lambda: thread.life().call(stubborn))
    assert started.wait(IN_TIME)

    with caplog.at_level(logging.WARNING):
        close(thread)

    assert "1 tasks that do not stop" in caplog.text
    assert "stubborn" in caplog.text
    assert isinstance(waiting.exception(IN_TIME), StoreUnavailable)
