"""Follow-ups: what a run leaves behind is submitted in the write that ends it, once, or not at all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from laneway import BadArguments, BadSetting, Context, GiveUp, Run, Scheduler, Submission, UnknownTask
from laneway.core.records.states import RunState
from laneway.engine.handlers.durable import HeldBack
from laneway.testing import FakeClock
from tests.support.scripts import follow_ups as scripts
from tests.support.scripts.runner import AT_ONCE, ScriptRunner
from tests.support.waits import soon


async def left(app: Scheduler, run_id: str) -> list[Run]:
    """Return the runs that a run has left behind, oldest first."""
    return [run for run in reversed(await app.runs(limit=1000)) if run.parent == run_id]


async def test_a_held_back_run_is_submitted_when_the_run_has_succeeded(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.submits, user="ann", session="chat")

    one, two = await left(runner.app, run_id)
    assert await runner.app.result(run_id) == [one.id, two.id]
    assert (one.user, one.session, one.lane, one.priority) == ("ann", "chat", "main", 0)
    assert (two.user, two.session, two.lane, two.priority) == ("ann", None, "team", 7)
    assert await runner.app.result(one.id) == "one"
    assert await runner.app.result(two.id) == ["ann", None, run_id, {}]


async def test_a_run_that_is_tried_again_leaves_only_what_its_last_attempt_held_back(runner: ScriptRunner) -> None:
    runs = [await runner.submit(script) for script in (scripts.submits_and_fails, scripts.submits_and_snoozes)]
    await runner.drain()

    values = [[child.args["value"] for child in await left(runner.app, run_id)] for run_id in runs]
    assert values == [[3], [2]]


@pytest.mark.work(transient=ConnectionError, transient_wait=0, retry=None)
async def test_quick_tries_leave_only_what_the_last_of_them_held_back(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.flaky)

    assert [run.args for run in await left(runner.app, run_id)] == [{"value": 3}]


async def test_a_run_that_asks_leaves_nothing_before_it_has_succeeded(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.submits_and_asks)
    before = await left(runner.app, run_id)
    await runner.answer(run_id, "yes")

    assert before == []
    assert [run.args for run in await left(runner.app, run_id)] == [{"value": 2}]


async def test_a_run_that_fails_or_is_cancelled_leaves_nothing(runner: ScriptRunner) -> None:
    failing, asking = await runner.submit(scripts.submits_and_gives_up), await runner.submit(scripts.submits_and_asks)
    await runner.drain()
    await runner.app.cancel(asking)
    await runner.drain()

    assert [await left(runner.app, run_id) for run_id in (failing, asking)] == [[], []]


async def test_a_run_can_leave_ten_behind_three_generations_deep(runner: ScriptRunner) -> None:
    many, deep = await runner.submit(scripts.submits_too_many), await runner.submit(scripts.nests)
    await runner.drain()

    assert await runner.app.result(many) == "a run can submit at most 10 runs (setting max_children)"
    assert len(await left(runner.app, many)) == 10
    results = []
    generation = [await runner.app.get(deep)]
    while generation:
        results.append(generation[0].result)
        generation = await left(runner.app, generation[0].id)
    too_deep = "run it is 3 generations deep; at most 3 are allowed (setting max_depth)"
    assert results == ["one more", "one more", "one more", too_deep]


@pytest.mark.work(retry=None)
async def test_what_cannot_be_left_behind_is_an_error_in_the_handler(runner: ScriptRunner) -> None:
    awaiting, wrong = await runner.submit(scripts.awaits_in_a_loop), await runner.submit(scripts.wrong)
    await runner.drain()

    assert "ctx.call starts a run at once and waits for it" in await runner.app.result(awaiting)
    assert await runner.app.result(wrong) == [
        "UnknownTask: unknown task 'ecko'",
        "BadArguments: echo has no argument 'volume'",
        "BadArguments: the arguments of echo take 300012 bytes as JSON",
        "BadSetting: len is not a task",
        "BadSetting: a follow-up cannot have 'user'",
        "BadSetting: a follow-up cannot have 'trace'",
        "BadSetting: a follow-up cannot have 'key'",
        "BadSetting: delay is -1",
        "BadSetting: the instant 2026-01-01T00",
        "BadSetting: then takes a task, a (task, arguments) pair, a Submission, or a list, not 7",
    ]


# then and on_failure


@pytest.fixture
def ending(app: Scheduler) -> Scheduler:
    @app.task(retry=None)
    async def work(fails: bool = False) -> str:
        if fails:
            raise GiveUp("no luck")
        return "done"

    @app.task
    async def note(text: str = "", *, ctx: Context) -> list[Any]:
        return [text, ctx.parent]

    return app


def texts(runs: list[Run]) -> list[Any]:
    return [run.args.get("text", "") for run in runs]


async def test_success_brings_then_and_failure_brings_on_failure(ending: Scheduler) -> None:
    after: dict[str, Any] = {"then": ("note", {"text": "well done"}), "on_failure": ("note", {"text": "oh"})}
    good = await ending.submit("work", user="ann", **after)
    bad = await ending.submit("work", {"fails": True}, user="ann", **after)
    await ending.drain()

    [well], [oh] = await left(ending, good.run_id), await left(ending, bad.run_id)
    assert (well.result, oh.result) == (["well done", good.run_id], ["oh", bad.run_id])
    assert (well.user, oh.user) == ("ann", "ann")


async def test_a_cancelled_run_brings_neither(ending: Scheduler) -> None:
    receipt = await ending.submit("work", delay=60, then="note", on_failure="note")
    await ending.cancel(receipt)
    await ending.drain()

    assert await left(ending, receipt.run_id) == []


async def test_follow_ups_may_be_written_in_every_form(ending: Scheduler) -> None:
    note, work = ending.tasks.get("note"), ending.tasks.get("work")
    forms: list[Any] = [
        note,
        "note",
        (note, {"text": "pair"}),
        Submission("note", {"text": "submission"}, priority=3, lane="team"),
    ]
    receipts = [
        await ending.submit("work", then=forms),
        await work.using(then=forms).submit(),
        *await ending.submit_many([Submission("work", then=forms)]),
    ]
    await ending.drain()

    for receipt in receipts:
        runs = await left(ending, receipt.run_id)
        assert texts(runs) == ["", "", "pair", "submission"]
        assert (runs[3].priority, runs[3].lane) == (3, "team")
        assert {run.state for run in runs} == {RunState.SUCCEEDED}


async def test_follow_ups_may_have_follow_ups_of_their_own(ending: Scheduler) -> None:
    third = Submission("note", {"text": "third"})
    second = Submission("note", {"text": "second"}, then=third)
    receipt = await ending.submit("work", then=Submission("note", {"text": "first"}, then=second))
    await ending.drain()

    told, run_id = [], receipt.run_id
    while runs := await left(ending, run_id):
        told += texts(runs)
        run_id = runs[0].id
    assert told == ["first", "second", "third"]


async def test_a_follow_up_may_be_for_later(ending: Scheduler, clock: FakeClock) -> None:
    receipt = await ending.submit("work", then=Submission("note", delay=timedelta(minutes=1)))
    await ending.drain()
    [run] = await left(ending, receipt.run_id)
    await clock.advance(60)
    await ending.drain()

    assert run.state is RunState.PENDING
    assert (await ending.get(run)).state is RunState.SUCCEEDED


async def test_a_run_that_is_submitted_once_more_brings_its_follow_ups_too(ending: Scheduler) -> None:
    receipt = await ending.submit("work", {"fails": True}, on_failure=("note", {"text": "oh"}))
    await ending.drain()
    again = await ending.retry(receipt)
    await ending.drain()

    first, second = await left(ending, receipt.run_id), await left(ending, again.run_id)
    assert texts(first) == texts(second) == ["oh"]


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"then": "ecko"}, UnknownTask, "unknown task 'ecko'"),
    ({"then": ("note", {"volume": 1})}, BadArguments, "note has no argument 'volume'"),
    ({"on_failure": ("note", {"text": "x" * 300_000})}, BadArguments, "take 300011 bytes"),
    ({"then": len}, BadSetting, "then takes a task"),
    ({"then": ()}, BadSetting, "then takes a task"),
    ({"on_failure": ["note"] * 11}, BadSetting, "on_failure has 11 runs; at most 10"),
    ({"then": Submission("note", user="ben")}, BadSetting, "a follow-up cannot have 'user'"),
    ({"then": Submission("note", trace={"a": "b"})}, BadSetting, "a follow-up cannot have 'trace'"),
]


@pytest.mark.parametrize(("options", "kind", "says"), WRONG, ids=lambda value: str(value)[:20])
async def test_what_cannot_follow_is_refused_at_once(
    ending: Scheduler, options: dict[str, Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        await ending.submit("work", **options)

    assert await ending.runs() == []


async def test_follow_ups_that_go_too_deep_are_refused_at_once(ending: Scheduler) -> None:
    deep: Any = "note"
    for _ in range(3):
        deep = Submission("note", then=deep)
    with pytest.raises(BadSetting, match="then and on_failure go at most 3 generations deep"):
        await ending.submit("work", then=deep)


async def test_nobody_can_wait_for_a_held_back_run(app: Scheduler) -> None:
    held: list[HeldBack] = []

    @app.task
    async def note() -> None:
        pass

    @app.task
    async def work(*, ctx: Context) -> str:
        held.append(ctx.submit(note))
        with pytest.raises(BadSetting) as error:
            await held[0]  # type: ignore[misc]  # that is the point
        return str(error.value)

    receipt = await work.submit()
    await app.drain()
    with pytest.raises(BadSetting, match="is held back until the run that submits it has succeeded"):
        await app.result(held[0])  # type: ignore[arg-type]  # that is the point

    assert "ctx.call starts a run at once and waits for it" in await app.result(receipt)
    assert (await app.get(held[0].run_id)).state is RunState.SUCCEEDED


async def test_a_follow_up_waits_its_turn_in_the_session(app: Scheduler) -> None:
    told: list[str] = []

    @app.task(retry=AT_ONCE)
    async def work(text: str, *, ctx: Context) -> None:
        told.append(text)
        await asyncio.sleep(0)
        if text == "first":
            ctx.submit("work", {"text": "left behind"})

    # Before anybody works: the first must not have ended when the second comes.
    runs = [await app.submit("work", {"text": text}, session="chat") for text in ("first", "second")]
    async with app.running():
        for run in runs:
            await soon(app.wait(run))
        [behind] = await left(app, runs[0].run_id)
        await soon(app.wait(behind))

    assert told == ["first", "second", "left behind"]
