"""Transient errors: quick tries inside the attempt, before they cost it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneway import BadSetting, Context, GiveUp, Retry, Run, Scheduler, Snooze
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.children import handlers as child_handlers
from tests.support.run_logs import kinds_of, log_of
from tests.support.waits import as_time_passes, eventually, soon


class Busy(Exception):
    """A server that asks to be left alone for a while."""

    def __init__(self, message: str = "busy", retry_after: object = None) -> None:
        super().__init__(message)
        if retry_after is not None:
            self.retry_after = retry_after


def failing(times: int, error: Callable[[], BaseException], *, plain: bool) -> tuple[list[int], Callable[..., Any]]:
    """Return a handler that raises so often, on the loop or in a thread, and the list of its calls."""
    calls: list[int] = []

    def call() -> str:
        calls.append(len(calls) + 1)
        if len(calls) <= times:
            raise error()
        return f"try {len(calls)}"

    async def on_loop() -> str:
        return call()

    def in_thread() -> str:
        return call()

    return calls, in_thread if plain else on_loop


WHERE = pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])


async def ran(app: Scheduler, clock: FakeClock, task: Any) -> Run:
    receipt = await app.submit(task)
    async with app.running():
        return await as_time_passes(clock, app.wait(receipt))


@WHERE
async def test_a_transient_error_gets_quick_tries_that_cost_no_attempt(
    app: Scheduler, clock: FakeClock, plain: bool
) -> None:
    calls, handler = failing(2, Busy, plain=plain)
    task = app.task(name="work", transient=Busy, retry=None)(handler)
    began = clock.monotonic()

    run = await ran(app, clock, task)

    assert (run.state, run.result, run.attempt) == (RunState.SUCCEEDED, "try 3", 1)
    assert len(calls) == 3
    assert clock.monotonic() - began >= 10
    assert await kinds_of(app, run.id) == ["started", "log", "log", "result", "done"]


@WHERE
async def test_the_last_try_fails_the_attempt(app: Scheduler, clock: FakeClock, plain: bool) -> None:
    calls, handler = failing(99, Busy, plain=plain)
    task = app.task(name="work", transient=(Busy, OSError), transient_tries=2, retry=Retry.delays(1))(handler)

    run = await ran(app, clock, task)

    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "error", 2)
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("Busy", "busy")
    assert len(calls) == 4


@WHERE
@pytest.mark.parametrize(("asked", "waited"), [(30, 30), (0, 0), (-1, 5), (float("inf"), 5), ("soon", 5)])
async def test_the_error_may_say_how_long_to_wait(
    app: Scheduler, clock: FakeClock, plain: bool, asked: object, waited: float
) -> None:
    _, handler = failing(1, lambda: Busy(retry_after=asked), plain=plain)
    task = app.task(name="work", transient=Busy)(handler)
    began = clock.monotonic()

    run = await ran(app, clock, task)

    assert run.result == "try 2"
    assert clock.monotonic() - began >= waited
    [said] = [event.data["text"] for event in await log_of(app, run.id) if event.kind == "log"]
    assert said == f"Busy: busy; trying again in {waited} s"


@WHERE
@pytest.mark.parametrize(
    ("error", "kind"),
    [(lambda: GiveUp("no"), "gave_up"), (lambda: ValueError("no"), "error")],
    ids=["give-up", "other"],
)
async def test_other_errors_get_no_quick_tries(
    app: Scheduler, clock: FakeClock, plain: bool, error: Callable[[], BaseException], kind: str
) -> None:
    calls, handler = failing(99, error, plain=plain)
    transient = Exception if kind == "gave_up" else Busy
    task = app.task(name="work", transient=transient, retry=None)(handler)

    run = await ran(app, clock, task)

    assert (run.reason, len(calls)) == (kind, 1)


@WHERE
async def test_a_snooze_is_no_error_however_wide_transient_is(app: Scheduler, clock: FakeClock, plain: bool) -> None:
    _, handler = failing(1, lambda: Snooze(100), plain=plain)
    task = app.task(name="work", transient=Exception, transient_wait=1)(handler)
    began = clock.monotonic()

    run = await ran(app, clock, task)

    assert run.result == "try 2"
    assert clock.monotonic() - began >= 100


@WHERE
@pytest.mark.parametrize("error", [StopIteration, lambda: Busy("\ud800")], ids=["stop-iteration", "surrogate"])
async def test_errors_that_are_hard_to_carry_get_their_tries_too(
    app: Scheduler, clock: FakeClock, plain: bool, error: Callable[[], BaseException]
) -> None:
    _, handler = failing(2, error, plain=plain)
    task = app.task(name="work", transient=Exception, retry=None)(handler)

    run = await ran(app, clock, task)

    assert run.result == "try 3"


@WHERE
async def test_a_run_that_is_cancelled_while_it_waits_for_a_try_ends(
    app: Scheduler, clock: FakeClock, plain: bool
) -> None:
    calls, handler = failing(99, Busy, plain=plain)
    task = app.task(name="work", transient=Busy, transient_wait=3600)(handler)

    async with app.running():
        receipt = await app.submit(task)
        await as_time_passes(clock, _logged(app, receipt.run_id))
        await app.cancel(receipt)
        run = await soon(app.wait(receipt))

    assert (run.state, len(calls)) == (RunState.CANCELLED, 1)


async def _logged(app: Scheduler, run: str) -> None:
    await eventually(lambda: kinds_of(app, run), lambda kinds: "log" in kinds)


async def test_a_time_out_ends_the_wait_for_a_try(app: Scheduler, clock: FakeClock) -> None:
    _, handler = failing(99, Busy, plain=False)
    task = app.task(name="work", transient=Busy, transient_wait=3600, timeout=10, retry=None)(handler)

    assert (await ran(app, clock, task)).reason == "timed_out"


async def test_a_worker_that_stops_gives_back_what_waits_for_a_try(app: Scheduler, clock: FakeClock) -> None:
    _, handler = failing(99, Busy, plain=False)
    task = app.task(name="work", transient=Busy, transient_wait=3600)(handler)

    async with app.running():
        receipt = await app.submit(task)
        await as_time_passes(clock, _logged(app, receipt.run_id))
        await app.stop(0)

    run = await app.get(receipt)
    assert (run.state, run.attempt) == (RunState.PENDING, 1)


async def test_a_transient_error_in_a_child_process_gets_quick_tries(app: Scheduler, clock: FakeClock) -> None:
    task = app.task(name="work", transient=LookupError, transient_wait=60, retry=None, process=True)(
        child_handlers.not_there
    )

    run = await ran(app, clock, task)  # NotThere, a KeyError that says to wait for 7 seconds

    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "error", 1)
    assert run.error is not None
    assert run.error.type == "NotThere"
    log = await log_of(app, run.id)
    assert [event.kind for event in log] == ["started", "log", "log", "error", "done"]
    assert log[1].data == {"text": "NotThere: 'yet'; trying again in 7 s"}


async def test_another_error_in_a_child_process_gets_none(app: Scheduler, clock: FakeClock) -> None:
    task = app.task(name="work", transient=OSError, retry=None, process=True)(child_handlers.not_there)

    run = await ran(app, clock, task)

    assert await kinds_of(app, run.id) == ["started", "error", "done"]


@pytest.mark.parametrize(
    "options",
    [
        {"transient": "OSError"},
        {"transient": (OSError, 1)},
        {"transient": BaseException},
        {"transient": OSError, "transient_tries": 0},
        {"transient": OSError, "transient_wait": -1},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    async def work(ctx: Context) -> None: ...

    with pytest.raises(BadSetting, match="transient"):
        Scheduler("memory://").task(**options)(work)
