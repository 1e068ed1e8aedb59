"""Output validators: a bad success is a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from laneway import BadSetting, Retry, Run, Scheduler
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.children import handlers as child_handlers
from tests.support.waits import as_time_passes, soon


def refuse(value: Any) -> None:
    raise ValueError(f"{value} is no answer")


def with_a_bug(value: Any) -> Any:
    return value["missing"]


async def refuse_later(value: Any) -> bool:
    await asyncio.sleep(0)
    return False


async def accept_later(value: Any) -> bool:
    await asyncio.sleep(0)
    return True


async def ran(app: Scheduler, validate: Callable[[Any], Any], **options: Any) -> Run:
    @app.task(validate=validate, **{"retry": None, **options})
    async def answer() -> dict[str, int]:
        return {"answer": 41}

    receipt = await answer.submit()
    await soon(app.drain())
    return await app.get(receipt)


@pytest.mark.parametrize("validate", [lambda _: None, lambda _: True, lambda _: 0, accept_later])
async def test_a_validator_that_does_not_refuse_lets_the_result_pass(
    app: Scheduler, validate: Callable[[Any], Any]
) -> None:
    run = await ran(app, validate)

    assert (run.state, run.result) == (RunState.SUCCEEDED, {"answer": 41})


@pytest.mark.parametrize(
    ("validate", "message"),
    [
        (refuse, "the validator refused the result: {'answer': 41} is no answer"),
        (lambda _: False, "the validator refused the result"),
        (refuse_later, "the validator refused the result"),
        (with_a_bug, "the validator refused the result: 'missing'"),
    ],
    ids=["raises", "false", "async", "bug"],
)
async def test_a_result_that_is_refused_fails_the_attempt(
    app: Scheduler, validate: Callable[[Any], Any], message: str
) -> None:
    run = await ran(app, validate)

    assert (run.state, run.reason, run.result) == (RunState.FAILED, "bad_output", None)
    assert run.error is not None
    assert run.error.message == message


async def test_a_refused_result_is_tried_again_by_policy(app: Scheduler, clock: FakeClock) -> None:
    @app.task(validate=lambda value: value == 2, retry=Retry.delays(1))
    async def guess() -> int:
        guess.tries += 1  # type: ignore[attr-defined]  # a note of the test's
        return int(guess.tries)  # type: ignore[attr-defined]

    guess.tries = 0  # type: ignore[attr-defined]
    receipt = await guess.submit()
    async with app.running():
        assert await as_time_passes(clock, app.result(receipt)) == 2


async def test_a_validator_sees_the_value_as_it_is_stored(app: Scheduler) -> None:
    seen: list[Any] = []

    @app.task(validate=seen.append)
    async def work() -> tuple[int, int]:
        return 1, 2

    await work.submit()
    await soon(app.drain())

    assert seen == [[1, 2]]


async def test_a_validator_that_hangs_is_timed_out(app: Scheduler, clock: FakeClock) -> None:
    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    @app.task(validate=hang, timeout=5, retry=None)
    async def work() -> int:
        return 1

    receipt = await work.submit()
    async with app.running():
        run = await as_time_passes(clock, app.wait(receipt))

    assert run.reason == "timed_out"


async def test_results_of_threads_and_child_processes_are_validated_too(app: Scheduler) -> None:
    plain = app.task(name="plain", validate=refuse, retry=None)(lambda: 1)
    child = app.task(name="child", validate=refuse, retry=None, process=True)(child_handlers.pid)

    receipts = [await app.submit(task) for task in (plain, child)]
    await soon(app.drain())

    assert [(await app.get(receipt)).reason for receipt in receipts] == ["bad_output", "bad_output"]


def test_a_validator_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(BadSetting, match="validate is 'yes'; it must be a function that takes the result"):
        Scheduler("memory://").task(validate="yes")(lambda: None)  # type: ignore[call-overload]  # that is the point
