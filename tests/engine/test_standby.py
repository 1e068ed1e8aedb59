"""The step that a resting worker leaves: a store that would wake it does it, once, and nothing gets lost around it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from laneway import Scheduler
from laneway.core.step import Step, StepReply
from laneway.engine.bell import Bell
from laneway.engine.standby import Rest
from laneway.errors import StoreUnavailable
from laneway.stores.sqlite import SQLiteStore
from laneway.stores.tables import presence
from laneway.testing import FakeClock
from tests.engine.support import soon, turns, until

STEP = Step("me", 2, room=3, park=True)


@pytest.fixture
async def rest(clock: FakeClock) -> Rest:
    return Rest(Bell(), clock)


@pytest.fixture
async def app(sqlite_file: Path) -> Scheduler:
    return Scheduler(f"sqlite:///{sqlite_file}")


async def test_a_step_that_was_left_can_be_taken_once(rest: Rest) -> None:
    nothing = rest.take()
    rest.leave(STEP)

    left = rest.take()

    assert nothing is None
    assert left is not None
    assert left.step is STEP
    assert rest.take() is None


async def test_a_worker_that_comes_first_has_its_step_back(rest: Rest) -> None:
    rest.leave(STEP)

    assert rest.end() is None
    assert rest.take() is None


async def test_a_worker_that_comes_second_hears_the_answer(rest: Rest) -> None:
    rest.leave(STEP)
    taken = rest.take()
    left = rest.end()

    assert left is not None
    assert left is taken
    await asyncio.to_thread(left.answer, StepReply(now=7))
    assert await soon(left.reply) == StepReply(now=7)
    assert rest.end() is None


async def test_a_ring_beside_the_answer_is_not_lost(clock: FakeClock) -> None:
    bell = Bell()
    rest = Rest(bell, clock)
    rest.leave(STEP)
    lingers = asyncio.create_task(bell.linger())
    await turns()
    left = rest.take()
    assert left is not None

    left.answer(StepReply())
    bell.ring()

    await soon(lingers)
    await soon(bell.linger())
    bell.hush()
    again = asyncio.create_task(bell.linger())
    await turns()
    assert not again.done()
    again.cancel()


async def started(app: Scheduler) -> list[int]:
    """Register a task that notes what it was given."""
    noted = list[int]()

    @app.task
    async def note(number: int) -> None:
        noted.append(number)

    await app.open()
    return noted


async def at_rest(app: Scheduler) -> None:
    """Wait until a worker has left its step."""
    store = app._store
    assert isinstance(store, SQLiteStore)
    wakes = store._presence._wakes
    await until(lambda: any(isinstance(wake, Rest) and wake._left is not None for wake in wakes.values()))


def steps_of(app: Scheduler, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Note the steps that workers send by themselves."""
    sent, store = list[Step](), app._store
    assert isinstance(store, SQLiteStore)
    step = store.step

    async def noted(asked: Step) -> StepReply:
        sent.append(asked)
        return await step(asked)

    monkeypatch.setattr(store, "step", noted)
    return sent


async def test_a_submission_starts_the_run_of_a_resting_worker_without_asking_it(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = await started(app)
    sent = steps_of(app, monkeypatch)
    async with app.running():
        for number in range(5):
            await at_rest(app)
            await app.wait(await app.submit("note", {"number": number}))
        await at_rest(app)
        to_claim = [step for step in sent[1:] if not step.results]
    await app.aclose()

    assert noted == list(range(5))
    assert to_claim == []


async def test_a_step_that_the_store_could_not_do_is_sent_by_the_worker(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, failed = await started(app), list[Step]()

    def fails(_: object, __: object, step: Step, ___: int) -> StepReply:
        failed.append(step)
        raise StoreUnavailable("not now")

    monkeypatch.setattr(presence, "take_step", fails)
    sent = steps_of(app, monkeypatch)
    async with app.running():
        await at_rest(app)
        await app.wait(await app.submit("note", {"number": 1}))
    await app.aclose()

    assert noted == [1]
    assert failed
    assert failed[0] in sent


async def test_a_worker_that_executes_something_leaves_no_step(app: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    noted, ended, goes_on = await started(app), asyncio.Event(), asyncio.Event()

    @app.task
    async def waits() -> None:
        goes_on.set()
        await ended.wait()

    sent = steps_of(app, monkeypatch)
    async with app.running():
        await app.submit("waits")
        await soon(goes_on.wait())
        before = len(sent)
        await app.wait(await app.submit("note", {"number": 1}))
        claiming = [step for step in sent[before:] if not step.results]
        ended.set()
    await app.aclose()

    assert noted == [1]
    assert claiming


async def test_a_step_left_by_a_worker_that_was_cancelled_is_nobodys(app: Scheduler) -> None:
    await started(app)
    working = asyncio.create_task(app.work())
    await at_rest(app)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    receipt = await app.submit("note", {"number": 1})

    assert (await app.get(receipt)).state.value == "pending"
    await app.aclose()
