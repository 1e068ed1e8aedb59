"""The step that an idle worker offers: a store may make it instead of a wake-up, and nothing gets lost around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from laneway import Scheduler, Submission
from laneway.core.lifecycle.step import PushedReply, Step, StepReply, named_in
from laneway.engine.common.wakeup import Wakeup
from laneway.engine.worker.idle_handle import IdleHandle
from laneway.errors import StoreMoved
from laneway.stores.postgres.transactions import claim_ahead
from laneway.testing import FakeClock
from tests.support.idle_store import IdleStore
from tests.support.waits import as_time_passes, passes, soon, turns, until


@pytest.fixture
async def wakeup() -> Wakeup:
    return Wakeup()


@pytest.fixture
async def rest(wakeup: Wakeup) -> IdleHandle:
    return IdleHandle(wakeup)


@pytest_asyncio.fixture
async def store(postgres_url: str) -> AsyncIterator[IdleStore]:
    store = IdleStore(postgres_url)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def app(store: IdleStore) -> AsyncIterator[Scheduler]:
    async with Scheduler(store=store) as app:
        yield app


async def test_an_answer_wakes_who_lent_its_step(rest: IdleHandle, wakeup: Wakeup) -> None:
    rest.offer(2)
    waiting = asyncio.create_task(wakeup.wait())
    await turns()

    await asyncio.to_thread(rest.push, PushedReply(2, StepReply(now=7)))

    await soon(waiting)
    assert rest.take_reply() == StepReply(now=7)
    assert not rest.is_offered
    assert rest.take_reply() is None


async def test_an_answer_that_comes_on_the_loop_is_heard_at_once(rest: IdleHandle) -> None:
    rest.offer(2)

    rest.push(PushedReply(2, StepReply(now=7)))

    assert rest.has_reply


async def test_an_answer_that_comes_before_the_worker_knows_that_it_rests_is_kept(rest: IdleHandle) -> None:
    rest.push(PushedReply(2, StepReply(now=7)))
    await turns()

    rest.offer(2)

    assert rest.has_reply
    assert rest.take_reply() == StepReply(now=7)


async def test_the_answer_to_a_step_that_was_made_is_nobodys(rest: IdleHandle) -> None:
    rest.offer(2)
    assert rest.take_reply() is None
    rest.push(PushedReply(2, StepReply(now=7)))
    await turns()

    rest.offer(3)

    assert not rest.has_reply
    assert rest.take_reply() is None


async def test_a_ring_beside_the_answer_is_not_lost(rest: IdleHandle, wakeup: Wakeup) -> None:
    rest.offer(2)
    waiting = asyncio.create_task(wakeup.wait())
    await turns()

    rest.push(PushedReply(2, StepReply()))
    wakeup.set()

    await soon(waiting)
    await soon(wakeup.wait())
    await turns()
    assert rest.has_reply


async def test_who_has_ended_is_not_there(rest: IdleHandle) -> None:
    assert rest.is_alive

    rest.end()

    assert not rest.is_alive


def started(app: Scheduler) -> list[int]:
    """Register a task that notes what it was given."""
    noted = list[int]()

    @app.task
    async def note(number: int) -> None:
        noted.append(number)

    return noted


async def test_a_submission_starts_the_run_of_a_resting_worker_without_asking_it(
    app: Scheduler, store: IdleStore
) -> None:
    noted = started(app)
    async with app.running():
        for number in range(5):
            await store.lender()
            await app.wait(await app.submit("note", {"number": number}))
        await store.lender()
        to_claim = [step for step in store.steps[1:] if not step.results]

    assert noted == list(range(5))
    assert to_claim == []


async def test_a_step_names_the_last_one_in_which_anything_was_said_or_given(app: Scheduler, store: IdleStore) -> None:
    started(app)
    async with app.running():
        for number in range(2):
            await store.lender()
            await app.wait(await app.submit("note", {"number": number}))
        (await store.lender())()
        await until(lambda: len(store.steps) == 4)
        (await store.lender())()
        await until(lambda: len(store.steps) == 5)
        await store.lender()
        said = [(step.call, step.last, len(step.results)) for step in store.steps]

    # The second and the fourth were lent, and done by who submitted a run.
    assert said == [(1, 0, 0), (3, 2, 1), (5, 4, 1), (6, 5, 0), (7, 5, 0)]


async def test_a_step_that_a_moved_store_did_not_take_down_is_named_by_none(
    app: Scheduler, store: IdleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(app)
    ends = {number: asyncio.Event() for number in range(2)}

    @app.task
    async def waits(number: int) -> None:
        await ends[number].wait()

    taken, with_results = store.step, list[Step]()

    async def step(step: Step) -> StepReply:
        if not step.results:
            return await taken(step)
        with_results.append(step)
        return StepReply(refused=named_in(step), moved="elsewhere")

    monkeypatch.setattr(store, "step", step)
    working = asyncio.create_task(app.work())
    await app.submit_many([Submission("waits", {"number": number}) for number in range(2)])
    for number in range(2):
        await until(lambda number=number: len(with_results) == number)  # type: ignore[misc]
        ends[number].set()
    with pytest.raises(StoreMoved):
        await soon(working)

    one, other = with_results
    assert 0 < one.last == other.last < one.call


async def test_a_lost_answer_is_asked_for(app: Scheduler, store: IdleStore) -> None:
    noted = started(app)
    store.loses_answers = True
    async with app.running():
        rest = await store.lender()
        receipt = await app.submit("note", {"number": 1})
        assert (await app.get(receipt)).state.value == "running"
        rest()
        await app.wait(receipt)

    assert noted == [1]
    assert [step for step in store.steps if step.results] == store.steps[2:3]
    assert (store.steps[1].call, store.steps[1].results, store.steps[1].room > 0) == (2, [], True)


async def test_a_worker_that_stops_gives_back_what_was_claimed_behind_its_back(
    app: Scheduler, store: IdleStore
) -> None:
    noted = started(app)
    store.loses_answers = True
    async with app.running():
        await store.lender()
        receipt = await app.submit("note", {"number": 1})
        assert (await app.get(receipt)).state.value == "running"

    run = await app.get(receipt)

    assert (run.state.value, run.attempt, run.crashes) == ("pending", 1, 0)
    assert noted == []


async def test_a_worker_that_is_stopped_while_it_goes_to_rest_makes_the_step_that_it_lent(
    app: Scheduler, store: IdleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may be given to it between the answer that lets it rest and its leave."""
    started(app)
    store.loses_answers = True
    step, receipts, stops = store.step, list[str](), asyncio.Event()

    async def late(asked: Step) -> StepReply:
        reply = await step(asked)
        if asked.offers_next and not receipts:
            receipts.append((await app.submit("note", {"number": 1})).run_id)
            stops.set()
            await turns(20)
        return reply

    monkeypatch.setattr(store, "step", late)
    async with app.running():
        await soon(stops.wait())
    run = await app.get(receipts[0])

    assert (run.state.value, run.attempt, run.crashes) == ("pending", 1, 0)


async def test_who_drains_lends_nothing(app: Scheduler, store: IdleStore) -> None:
    noted = started(app)
    await app.submit("note", {"number": 1})

    await app.drain()

    assert noted == [1]
    assert not any(step.offers_next for step in store.steps)


def failing(*_: object) -> None:
    raise ValueError("not now")


async def test_a_step_that_the_store_could_not_do_is_made_by_the_worker(
    app: Scheduler, store: IdleStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    noted = started(app)
    monkeypatch.setattr(claim_ahead, "take_step_ahead", failing)
    async with app.running():
        await store.lender()
        # One of a user is not started at once, but by a step.
        await app.wait(await app.submit("note", {"number": 1}, user="ann"))

    assert noted == [1]
    assert (store.steps[1].call, store.steps[1].results) == (2, [])
    assert "a claim could not be made ahead" in caplog.text


async def test_a_worker_that_executes_something_lends_no_step(app: Scheduler, store: IdleStore) -> None:
    noted, ended, goes_on = started(app), asyncio.Event(), asyncio.Event()

    @app.task
    async def waits() -> None:
        goes_on.set()
        await ended.wait()

    async with app.running():
        await app.submit("waits")
        await soon(goes_on.wait())
        before = len(store.steps)
        await app.wait(await app.submit("note", {"number": 1}))
        after = store.steps[before:]
        ended.set()

    assert noted == [1]
    assert after
    assert not any(step.offers_next for step in after)


async def test_a_worker_that_was_cancelled_is_given_nothing(app: Scheduler, store: IdleStore) -> None:
    started(app)
    working = asyncio.create_task(app.work())
    await store.lender()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    receipt = await app.submit("note", {"number": 1})

    assert (await app.get(receipt)).state.value == "pending"


async def test_a_due_time_that_comes_with_an_answer_is_kept(postgres_url: str, clock: FakeClock) -> None:
    """However long the answer was on its way: the clocks of store and worker tell."""
    store = IdleStore(postgres_url, clock)
    app = Scheduler(store=store, clock=clock)
    noted = started(app)
    store.loses_answers = True

    @app.task
    async def waits() -> None:
        await asyncio.Event().wait()

    async with app.running():
        handle = await store.lender()
        batch = [Submission("waits", {}), Submission("note", {"number": 2}, delay=0.4)]
        later = (await app.submit_many(batch))[1]
        await passes(clock, 0.3, step=0.1)
        handle()
        run = await as_time_passes(clock, app.wait(later), step=0.01)
        await app.stop(0)
    await store.close()

    assert noted == [2]
    assert run.started_at is not None
    assert (run.started_at - run.due_at).total_seconds() < 0.2
