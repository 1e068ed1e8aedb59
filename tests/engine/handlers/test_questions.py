"""Questions: a run that asks somebody waits without being executed, and goes on with the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway import BadSetting, Context, Scheduler, SessionPolicy
from laneway.core.records.states import RunState
from tests.support.run_logs import kinds_of, log_of
from tests.support.scripts import questions as scripts
from tests.support.scripts.runner import ScriptRunner
from tests.support.waits import soon


async def test_an_answer_is_what_the_question_returns_when_the_handler_starts_again(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.asks_in_between)
    waiting = await runner.app.get(run_id)
    await runner.answer(run_id, {"n": 2})

    assert waiting.state is RunState.WAITING
    assert waiting.wait is not None
    assert [question.name for question in waiting.wait.questions] == ["which"]
    assert await runner.app.result(run_id) == [1, {"n": 2}, 1]
    assert runner.counts == {"before": 1, "after": 1}
    events = await log_of(runner.app, run_id)
    assert [event.kind for event in events] == ["started", "question", "answered", "started", "result", "done"]
    question = {"text": "Which?", "of": [1, 2]}
    assert [event.data for event in events[1:3]] == [
        {"name": "which", "question": question, "timeout": 60},
        {"name": "which", "answer": {"n": 2}},
    ]


async def test_questions_are_found_by_name_or_else_by_their_place(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.asks_three)
    for answer in ("one", "two", "three"):
        await runner.answer(run_id, answer)

    assert await runner.app.result(run_id) == ["one", "two", "three"]


async def test_no_except_exception_holds_a_question_up_and_finally_is_executed(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.holds_on)
    waiting = await runner.app.get(run_id)
    before = runner.counts
    await runner.answer(run_id, None)

    assert waiting.state is RunState.WAITING
    assert before == {"finally": 1}
    assert (await runner.app.wait(run_id)).state is RunState.SUCCEEDED
    assert runner.counts == {"finally": 2}


async def test_an_answer_to_another_question_fails_the_run_for_good(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.another_text)
    await runner.answer(run_id, "yes")

    run = await runner.app.get(run_id)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "steps_changed", 1)
    assert run.error is not None
    assert "give ctx.ask a name, or make its text in a step" in run.error.message


async def test_who_names_a_question_may_change_its_text(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.another_text_by_name)
    await runner.answer(run_id, "yes")

    assert await runner.app.result(run_id) == "yes"


async def test_what_cannot_be_asked_is_an_error_in_the_handler(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.wrong)

    assert await runner.app.result(run_id) == [
        "timeout is 0",
        "timeout is -1",
        "timeout is nan",
        "timeout is 'soon'",
        "timeout is -1 day, 0:00:00",
        "the question is not JSON",
        "the question takes 2000002 bytes as JSON",
    ]


@pytest.mark.work(retry=None)
async def test_the_same_name_twice_in_one_attempt_fails_it(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.twice)

    assert await runner.problem(run_id) == "question 'same' comes twice in one attempt; each needs a name of its own"


async def test_a_handler_that_swallows_the_unwinding_waits_all_the_same(runner: ScriptRunner) -> None:
    one, two = await runner.submit(scripts.swallows), await runner.submit(scripts.swallows_two)
    await runner.drain()
    states = [(await runner.app.get(run_id)).state for run_id in (one, two)]
    await runner.answer(one, "yes")
    await runner.answer(two, 2, "two")
    await runner.answer(two, 1)

    assert states == [RunState.WAITING, RunState.WAITING]
    assert await runner.app.result(one) == "yes"
    assert await runner.app.result(two) == {"one": 1, "two": 2}


async def test_a_handler_that_raises_on_its_way_out_has_failed_and_asks_again(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.raises_on_its_way)
    await runner.answer(run_id, "yes")

    assert await runner.app.result(run_id) == "yes"
    assert await kinds_of(runner.app, run_id) == [
        *("started", "retrying", "started", "question", "answered", "started", "result", "done")
    ]


@pytest.mark.work(transient=ConnectionError, transient_wait=0, retry=None)
async def test_quick_tries_ask_once_and_keep_the_answer(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.flaky)
    await runner.answer(run_id, "yes")

    assert await runner.app.result(run_id) == "yes"
    assert (await kinds_of(runner.app, run_id)).count("question") == 1
    assert runner.counts == {"tries": 6, "more tries": 3}


# At once


@pytest.mark.parametrize("group", [False, True], ids=["gather", "TaskGroup"])
async def test_questions_asked_at_once_are_all_there_and_any_answer_lets_the_run_go_on(
    app: Scheduler, group: bool
) -> None:
    starts: list[int] = []

    @app.task
    async def work(*, ctx: Context) -> list[Any]:
        starts.append(ctx.fence)
        if not group:
            return list(await asyncio.gather(ctx.ask("one?", name="one"), ctx.ask("two?", name="two")))
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(ctx.ask(f"{name}?", name=name)) for name in ("one", "two")]
        return [task.result() for task in asked]

    receipt = await work.submit()
    await app.drain()
    with pytest.raises(BadSetting, match="has asked several questions; say which is answered: one, two"):
        await app.answer(receipt, "?")
    await app.answer(receipt, 2, name="two")
    await app.drain()
    still = await app.get(receipt)
    await app.answer(receipt, 1)
    await app.drain()

    assert still.state is RunState.WAITING
    assert await app.result(receipt) == [1, 2]
    assert starts == [1, 2, 3]
    assert (await kinds_of(app, receipt)).count("question") == 2


# Where else


async def test_a_worker_that_stops_while_a_handler_unwinds_gives_the_run_back(app: Scheduler) -> None:
    unwinding = asyncio.Event()

    @app.task
    async def ask(*, ctx: Context) -> Any:
        try:
            return await ctx.ask("Really?")
        finally:
            if ctx.fence == 1:
                unwinding.set()
                await asyncio.Event().wait()

    receipt = await ask.submit()
    async with app.running():
        await soon(unwinding.wait())
        await app.stop(0.01)
    given_back = await app.get(receipt)
    await app.drain()
    await app.answer(receipt, "yes")
    await app.drain()

    assert (given_back.state, given_back.attempt) == (RunState.PENDING, 1)
    assert await app.result(receipt) == "yes"


async def test_before_start_cannot_ask(app: Scheduler) -> None:
    async def hook(args: dict[str, Any], ctx: Context) -> None:
        await ctx.ask("May I?")

    @app.task(before_start=hook)
    async def work(*, ctx: Context) -> None:
        pass

    receipt = await work.submit()
    await app.drain()

    run = await app.get(receipt)
    assert (run.state, run.reason) == (RunState.FAILED, "refused")
    assert run.error is not None
    assert run.error.message == "steps, questions, calls and follow-ups are the handler's; before_start has none"


async def test_a_message_may_be_the_answer(app: Scheduler) -> None:
    @app.task
    async def chat(text: str, *, ctx: Context) -> list[Any]:
        return [text, await ctx.ask("Which?")]

    policy = SessionPolicy(while_waiting="answer")
    receipt = await app.submit(chat, {"text": "hello"}, session="s", session_policy=policy)
    await app.drain()
    message = await app.submit(chat, {"text": "the red one"}, session="s")
    await app.drain()

    assert (message.outcome.value, message.reason, message.run_id) == ("steered", "answered", receipt.run_id)
    assert await app.result(receipt) == ["hello", {"text": "the red one"}]
