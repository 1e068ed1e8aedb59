"""Registering: `@app.task` takes a handler and its options, or says what is wrong; the plain call still works."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from laneway import BadSetting, Context, Retry, Scheduler, UnknownTask
from laneway.core.records.run import ReceiptOutcome
from laneway.core.records.states import RunState
from tests.support.waits import soon


@pytest.fixture
def app() -> Scheduler:
    return Scheduler("memory://")


def test_a_task_is_named_after_its_function(app: Scheduler) -> None:
    @app.task
    def summarize(doc: str) -> str:
        """Sum it up."""
        return doc

    assert summarize.name == summarize.__name__ == "summarize"
    assert summarize.__doc__ == "Sum it up."
    assert repr(summarize) == "<task summarize>"
    assert app.tasks.get("summarize") is summarize
    assert app.tasks.names == {"summarize"}
    assert list(app.tasks) == [summarize]


def test_a_task_can_be_given_a_name(app: Scheduler) -> None:
    @app.task(name="mail.send")
    def send() -> None: ...

    assert send.name == "mail.send"
    assert app.tasks.names == {"mail.send"}


def test_calling_a_task_calls_the_plain_function_here_and_now(app: Scheduler) -> None:
    @app.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert add(2) == 3
    assert add(a=2, b=5) == 7


async def test_calling_an_async_task_gives_its_coroutine(app: Scheduler) -> None:
    @app.task(timeout=5)
    async def add(a: int, b: int = 1) -> int:
        return a + b

    assert await add(2, b=5) == 7


def test_a_task_carries_the_policy_its_options_describe(app: Scheduler) -> None:
    @app.task(lane="cron", timeout=timedelta(minutes=5), retry=Retry(attempts=7), max_crashes=2)
    async def nightly() -> None: ...

    policy = nightly.policy
    assert (policy.lane, policy.timeout, policy.max_crashes) == ("cron", 300_000_000, 2)
    assert policy.retry == Retry(attempts=7)


@pytest.mark.parametrize(("given", "attempts"), [(5, 5), (1, 1), (None, 1)])
def test_retry_may_be_a_number_of_attempts_or_none(app: Scheduler, given: int | None, attempts: int) -> None:
    task = app.task(retry=given)(lambda: None)

    assert task.policy.retry.attempts == attempts


def test_without_options_a_task_gets_three_attempts_in_lane_main_and_no_time_limit(app: Scheduler) -> None:
    @app.task
    def work() -> None: ...

    policy = work.policy
    assert (policy.lane, policy.timeout, policy.retry.attempts, policy.max_crashes) == ("main", None, 3, 3)


def test_a_name_can_be_taken_once(app: Scheduler) -> None:
    def work() -> int:
        return 1

    first = app.task(work)

    with pytest.raises(BadSetting) as caught:
        app.task(work)
    assert str(caught.value) == "task 'work' is registered twice; give one of them another name="
    assert app.tasks.get("work") is first


def test_two_schedulers_may_each_have_a_task_of_the_same_name(app: Scheduler) -> None:
    other = Scheduler("memory://")

    mine, theirs = app.task(name="work")(lambda: 1), other.task(name="work")(lambda: 2)

    assert (app.tasks.get("work"), other.tasks.get("work")) == (mine, theirs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timout": 5}, "unknown option of @app.task 'timout', did you mean 'timeout'?"),
        (
            {"zzz": 5},
            (
                "unknown option of @app.task 'zzz'; it can be before_start, breaker, events, job, lane, max_crashes,"
                " merge, name, process, retry, schedule, timeout, transient, transient_tries, transient_wait, validate"
            ),
        ),
        ({"timeout": -1}, "timeout is -1; it must be 0 or more (seconds or a timedelta)"),
        ({"timeout": 0}, "timeout is 0; leave it out for none, or give the seconds an attempt may take"),
        ({"timeout": "5"}, "timeout is '5'; it must be seconds or a timedelta"),
        ({"timeout": float("nan")}, "timeout is nan; it must be a finite number of seconds"),
        ({"timeout": timedelta(days=10_000)}, "timeout is 10000 days, 0:00:00; the longest is 20 years"),
        ({"retry": "often"}, "retry is 'often'; it must be a Retry, a number of attempts, or None for no retry"),
        ({"retry": True}, "retry is True; it must be a Retry, a number of attempts, or None for no retry"),
        ({"retry": 0}, "Retry(attempts=0): it must be a whole number, 1 or more"),
        ({"max_crashes": 0}, "max_crashes is 0; it must be a whole number, 1 or more"),
        ({"max_crashes": 1.5}, "max_crashes is 1.5; it must be a whole number, 1 or more"),
        ({"breaker": 5}, "breaker is 5; it must be a Breaker, such as Breaker(5, open_for=60), or None"),
        ({"breaker": True}, "breaker is True; it must be a Breaker, such as Breaker(5, open_for=60), or None"),
        ({"lane": ""}, "a lane needs a name: text of 1 to 200 characters, not ''"),
        ({"lane": 5}, "a lane needs a name: text of 1 to 200 characters, not 5"),
        ({"lane": "x" * 201}, "a lane needs a name: text of 1 to 200 characters, not one of 201"),
        ({"name": "a\nb"}, "the task name 'a\\nb' has characters that cannot be printed"),
        ({"name": "a\x00"}, "the task name 'a\\x00' has characters that cannot be printed"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_change(app: Scheduler, options: dict[str, Any], message: str) -> None:
    async def work() -> None: ...

    with pytest.raises(BadSetting) as caught:
        app.task(**options)(work)

    assert str(caught.value) == message
    assert app.tasks.names == frozenset()


@pytest.mark.parametrize(
    "option",
    ["activity", "key"],
)
def test_an_option_of_a_later_laneway_is_refused_not_ignored(app: Scheduler, option: str) -> None:
    later: dict[str, Any] = {option: True}

    with pytest.raises(BadSetting, match=f"^unknown option of @app.task '{option}'"):
        app.task(**later)


def _yields() -> Iterator[int]:
    yield 1


async def _yields_too() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [_yields, _yields_too])
def test_a_generator_is_refused(app: Scheduler, function: Callable[[], object]) -> None:
    with pytest.raises(BadSetting) as caught:
        app.task(name="stream")(function)

    assert str(caught.value) == ("task 'stream' is a generator; a handler returns its result, and reports by ctx.emit")
    assert app.tasks.names == frozenset()


def test_a_positional_only_parameter_is_refused(app: Scheduler) -> None:
    def work(doc: str, /) -> None: ...

    with pytest.raises(BadSetting) as caught:
        app.task(work)

    assert str(caught.value) == "task 'work': parameter 'doc' is positional-only; arguments have names"


def test_a_callable_without_a_name_must_be_given_one(app: Scheduler) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    nameless = partial(add, 2, b=3)

    with pytest.raises(BadSetting) as caught:
        app.task(nameless)
    named = app.task(name="five")(nameless)

    assert str(caught.value) == "a task needs a name: text of 1 to 200 characters, not ''"
    assert named() == 5


async def test_a_partial_of_an_async_function_is_an_async_handler(app: Scheduler) -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    task = app.task(name="add_one", timeout=5)(partial(add, b=1))

    assert task.is_async
    assert await task(a=2) == 3


def test_a_star_args_parameter_is_left_out(app: Scheduler) -> None:
    @app.task
    def work(a: int, *rest: int, ctx: Context) -> None: ...

    assert work.parameters.names == ["a"]
    assert work.parameters.context == "ctx"


async def test_a_task_is_submitted_by_name_by_itself_and_in_the_short_forms(app: Scheduler) -> None:
    @app.task
    def work(doc: str) -> None: ...

    receipts = [
        await app.submit("work", {"doc": "1"}),
        await app.submit(work, {"doc": "2"}),
        await work.submit(doc="3"),
        await work.using(user="ann").using(session="chat", priority=5).submit(doc="4"),
    ]

    runs = [await app.get(receipt) for receipt in receipts]
    assert [receipt.outcome for receipt in receipts] == [ReceiptOutcome.ACCEPTED] * 4
    assert [(run.task, run.args) for run in runs] == [("work", {"doc": str(n)}) for n in (1, 2, 3, 4)]
    assert (runs[3].user, runs[3].session, runs[3].priority) == ("ann", "chat", 5)


@pytest.mark.parametrize(
    ("registered", "message"),
    [
        ([], "unknown task 'sumarize'; none is registered"),
        (["summarize", "cleanup"], "unknown task 'sumarize', did you mean 'summarize'?"),
        (["index", "cleanup"], "unknown task 'sumarize'; registered: cleanup, index"),
    ],
)
async def test_an_unknown_task_is_refused_and_nothing_is_stored(
    app: Scheduler, registered: list[str], message: str
) -> None:
    for name in registered:
        app.task(name=name)(lambda: None)

    with pytest.raises(UnknownTask) as caught:
        await app.submit("sumarize")

    assert str(caught.value) == message
    assert caught.value.name == "sumarize"
    assert await app.runs() == []


class Unreadable:
    __signature__ = "nothing that Python could read"

    def __call__(self) -> None: ...


def test_a_callable_whose_signature_cannot_be_read_is_refused(app: Scheduler) -> None:
    with pytest.raises(BadSetting, match=r"^task 'odd': its parameters cannot be read \(.*\); wrap it in a function$"):
        app.task(name="odd")(Unreadable())
    assert app.tasks.names == frozenset()


def test_a_positional_only_context_is_refused(app: Scheduler) -> None:
    async def work(ctx: Context, /) -> None: ...

    with pytest.raises(BadSetting) as caught:
        app.task(work)

    assert str(caught.value) == "task 'work': parameter 'ctx' is positional-only; arguments have names"


async def test_a_task_made_in_a_function_may_refer_to_itself(app: Scheduler) -> None:
    @app.task
    async def count_down(n: int) -> None:
        if n:
            await count_down.submit(n=n - 1)

    await count_down.submit(n=3)
    await soon(app.drain())

    assert [run.state for run in await app.runs()] == [RunState.SUCCEEDED] * 4
