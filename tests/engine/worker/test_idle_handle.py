"""The step that a resting worker lends: a store that would wake it does it, and nothing gets lost around it."""

from __future__ import annotations

import asyncio

import pytest

from laneway import Scheduler, Submission
from laneway.core.lifecycle.step import PushedReply, Step, StepReply, named_in
from laneway.engine.common.wakeup import Wakeup
from laneway.engine.worker.idle_handle import IdleHandle
from laneway.errors import StoreMoved
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.postgres.transactions import claim_ahead
from tests.support.waits import soon, turns, until


@pytest.fixture
async def wakeup() -> Wakeup:
    return Wakeup()


@pytest.fixture
async def rest(wakeup: Wakeup) -> IdleHandle:
    return IdleHandle(wakeup)


@pytest.fixture
async def app(postgres_url: str) -> Scheduler:
    return Scheduler(postgres_url)


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


async def started(app: Scheduler) -> list[int]:
    """Register a task that notes what it was given."""
    noted = list[int]()

    @app.task
    async def note(number: int) -> None:
        noted.append(number)

    await app.open()
    return noted


def store_of(app: Scheduler) -> PostgresStore:
    store = app._store
    assert isinstance(store, PostgresStore)
    return store


async def at_rest(app: Scheduler) -> IdleHandle:
    """Wait until a worker has lent its step."""
    wakes = store_of(app)._runtime._workers
    await until(lambda: any(isinstance(wake, IdleHandle) and wake.is_offered for wake in wakes.values()))
    return next(wake for wake in wakes.values() if isinstance(wake, IdleHandle) and wake.is_offered)


def steps_of(app: Scheduler, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Note the steps that workers send by themselves."""
    sent, store = list[Step](), store_of(app)
    step = store.step

    async def noted(asked: Step) -> StepReply:
        sent.append(asked)
        return await step(asked)

    monkeypatch.setattr(store, "step", noted)
    return sent


def deafen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose every wake-up that brings an answer."""
    monkeypatch.setattr(IdleHandle, "push", lambda *_: None)


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


async def test_a_step_names_the_last_one_in_which_anything_was_said_or_given(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(app)
    sent = steps_of(app, monkeypatch)
    async with app.running():
        for number in range(2):
            await at_rest(app)
            await app.wait(await app.submit("note", {"number": number}))
        (await at_rest(app))()
        await until(lambda: len(sent) == 4)
        (await at_rest(app))()
        await until(lambda: len(sent) == 5)
        await at_rest(app)
        said = [(step.call, step.last, len(step.results)) for step in sent]
    await app.aclose()

    # The second and the fourth were lent, and done by who submitted a run.
    assert said == [(1, 0, 0), (3, 2, 1), (5, 4, 1), (6, 5, 0), (7, 5, 0)]


async def test_a_step_that_a_moved_store_did_not_take_down_is_named_by_none(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(app)
    ends = {number: asyncio.Event() for number in range(2)}

    @app.task
    async def waits(number: int) -> None:
        await ends[number].wait()

    store, sent = store_of(app), list[Step]()
    asked = store.step

    async def step(step: Step) -> StepReply:
        sent.append(step)
        return StepReply(refused=named_in(step), moved="elsewhere") if step.results else await asked(step)

    monkeypatch.setattr(store, "step", step)
    working = asyncio.create_task(app.work())
    await app.submit_many([Submission("waits", {"number": number}) for number in range(2)])
    for number in range(2):
        await until(lambda number=number: sum(bool(step.results) for step in sent) == number)  # type: ignore[misc]
        ends[number].set()
    with pytest.raises(StoreMoved):
        await soon(working)
    await app.aclose()

    one, other = (step for step in sent if step.results)
    assert 0 < one.last == other.last < one.call


async def test_a_lost_answer_is_asked_for(app: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = await started(app)
    sent = steps_of(app, monkeypatch)
    deafen(monkeypatch)
    async with app.running():
        rest = await at_rest(app)
        receipt = await app.submit("note", {"number": 1})
        assert (await app.get(receipt)).state.value == "running"
        rest()
        await app.wait(receipt)
    await app.aclose()

    assert noted == [1]
    assert [step for step in sent if step.results] == sent[2:3]
    assert (sent[1].call, sent[1].results, sent[1].room > 0) == (2, [], True)


async def test_a_worker_that_stops_gives_back_what_was_claimed_behind_its_back(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = await started(app)
    deafen(monkeypatch)
    async with app.running():
        await at_rest(app)
        receipt = await app.submit("note", {"number": 1})
        assert (await app.get(receipt)).state.value == "running"

    run = await app.get(receipt)

    assert (run.state.value, run.attempt, run.crashes) == ("pending", 1, 0)
    assert noted == []
    await app.aclose()


async def test_a_worker_that_is_stopped_while_it_goes_to_rest_makes_the_step_that_it_lent(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may be given to it between the answer that lets it rest and its leave."""
    await started(app)
    deafen(monkeypatch)
    store = store_of(app)
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
    await app.aclose()

    assert (run.state.value, run.attempt, run.crashes) == ("pending", 1, 0)


async def test_who_drains_lends_nothing(app: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = await started(app)
    sent = steps_of(app, monkeypatch)
    await app.submit("note", {"number": 1})

    await app.drain()
    await app.aclose()

    assert noted == [1]
    assert not any(step.offers_next for step in sent)


def failing(*_: object) -> None:
    raise ValueError("not now")


async def test_a_step_that_the_store_could_not_do_is_made_by_the_worker(
    app: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    noted = await started(app)
    monkeypatch.setattr(claim_ahead, "take_step_ahead", failing)
    sent = steps_of(app, monkeypatch)
    async with app.running():
        await at_rest(app)
        # One of a user is not started at once, but by a step.
        await app.wait(await app.submit("note", {"number": 1}, user="ann"))
    await app.aclose()

    assert noted == [1]
    assert (sent[1].call, sent[1].results) == (2, [])
    assert "a claim could not be made ahead" in caplog.text


async def test_a_worker_that_executes_something_lends_no_step(app: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
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
        after = sent[before:]
        ended.set()
    await app.aclose()

    assert noted == [1]
    assert after
    assert not any(step.offers_next for step in after)


async def test_a_worker_that_was_cancelled_is_given_nothing(app: Scheduler) -> None:
    await started(app)
    working = asyncio.create_task(app.work())
    await at_rest(app)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    receipt = await app.submit("note", {"number": 1})

    assert (await app.get(receipt)).state.value == "pending"
    await app.aclose()


async def test_a_due_time_that_comes_with_an_answer_is_kept(app: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the answer was on its way: the clocks of store and worker tell."""
    noted = await started(app)
    deafen(monkeypatch)

    @app.task
    async def waits() -> None:
        await asyncio.sleep(1)

    async with app.running():
        rest = await at_rest(app)
        batch = [Submission("waits", {}), Submission("note", {"number": 2}, delay=0.4)]
        later = (await app.submit_many(batch))[1]
        await asyncio.sleep(0.3)
        rest()
        await app.wait(later)
        run = await app.get(later)
    await app.aclose()

    assert noted == [2]
    assert run.started_at is not None
    assert (run.started_at - run.due_at).total_seconds() < 0.2
