"""What a process knows of jobs: conditions that hang or fail say no, and hold nothing up."""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
from functools import partial

import pytest

from laneway.core.jobs.record import Verdict
from laneway.core.schedules import Every
from laneway.engine.jobs import environment
from laneway.engine.jobs.environment import JobEnvironment
from tests.support.jobs import spec_of
from tests.support.waits import turns, until

GATED = spec_of(Every(60), enabled_when="condition")


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PATIENCE", 0.02)


async def test_a_condition_may_be_plain_or_async_and_says_yes_or_no() -> None:
    known = JobEnvironment()

    async def said() -> bool:
        return False

    known.conditions["condition"] = lambda: True
    yes = await known.verdict(GATED)
    known.conditions["condition"] = said
    no = await known.verdict(GATED)
    known.conditions["condition"] = partial(operator.call, said)  # what a decorator may leave of an async one
    wrapped = await known.verdict(GATED)

    assert (yes, no, wrapped) == (None, Verdict.GATED, Verdict.GATED)


async def test_a_condition_that_raises_says_no_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    known = JobEnvironment()
    known.conditions["condition"] = lambda: 1 // 0

    with caplog.at_level(logging.WARNING, "laneway.jobs"):
        said = [await known.verdict(GATED) for _ in range(3)]

    assert said == [Verdict.GATING_ERROR] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "the condition 'condition': ZeroDivisionError: integer division or modulo by zero"
    ]


@pytest.mark.usefixtures("quickly")
async def test_a_plain_condition_that_hangs_says_no_and_takes_one_thread_however_often_it_is_asked() -> None:
    known, begun, release = JobEnvironment(), [0], threading.Event()

    def hangs() -> bool:
        begun[0] += 1
        return release.wait(10)

    known.conditions["condition"] = hangs
    said = [await known.verdict(GATED) for _ in range(5)]
    release.set()
    await until(lambda: all(thread.name != "laneway-condition" for thread in threading.enumerate()))
    await turns()
    answered = await known.verdict(GATED)

    assert said == [Verdict.GATING_ERROR] * 5
    assert answered is None
    assert begun == [2]


@pytest.mark.usefixtures("quickly")
async def test_an_async_condition_that_hangs_says_no() -> None:
    known = JobEnvironment()
    known.conditions["condition"] = asyncio.Event().wait

    assert await known.verdict(GATED) is Verdict.GATING_ERROR


async def test_of_what_a_condition_raised_only_the_last_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    known, requests = JobEnvironment(), iter([1, 2, 2, 1])

    def fails() -> bool:
        raise ValueError(f"request {next(requests)} failed")

    known.conditions["condition"] = fails
    with caplog.at_level(logging.WARNING, "laneway.jobs"):
        for _ in range(4):
            await known.verdict(GATED)

    assert [record.getMessage() for record in caplog.records] == [
        f"the condition 'condition': ValueError: request {number} failed" for number in (1, 2, 1)
    ]
