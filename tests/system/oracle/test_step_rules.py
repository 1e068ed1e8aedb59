"""The rules of durable calls find what is planted: a check that cannot fail would prove nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from laneway import Event, Run, Scheduler
from laneway.core.records.memos import Memo, MemoKind
from laneway.core.records.states import RunState
from tests.system.harness.stage import add_tasks
from tests.system.load import step_app
from tests.system.load.app import LANES, journal
from tests.system.load.step_app import ATTEMPTS
from tests.system.load.step_plans import Plan
from tests.system.oracle.check import wrong
from tests.system.oracle.journal import JOURNAL, PROCESS, Entry, Journal, QuestionAnswered, StepExecuted, ValueReturned
from tests.system.oracle.record import Asked, Record

STEP: dict[str, Any] = {"do": "step", "name": "step", "on_loop": True}
ASK: dict[str, Any] = {"do": "ask", "name": "ask"}
ANSWER = {"said": 1}


def _plans() -> list[Plan]:
    child, left, last = (Plan(f"1.{name}", "follow_on_loop", 0, [STEP]) for name in ("child", "left", "last"))
    actions: list[dict[str, Any]] = [
        STEP,
        ASK,
        {"do": "call", "name": "call", "task": child.task, "args": child.args},
        {"do": "submit", "name": "submit", "task": left.task, "args": left.args},
    ]
    parent = Plan("1", "follow_on_loop", 0, actions, callees=[child], left=[left], then=[last])
    rescue = Plan("2.rescue", "follow_on_loop", 0, [STEP])
    failing = Plan("2", "follow_on_loop", 0, [STEP], on_failure=[rescue], failures=ATTEMPTS)
    return [parent, failing]


@pytest_asyncio.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Record]:
    monkeypatch.setenv(JOURNAL, str(tmp_path / "journal"))
    monkeypatch.setenv(PROCESS, "worker-1")
    journal.cache_clear()
    plans = _plans()
    async with Scheduler("memory://", lanes=LANES) as app:
        add_tasks(app, step_app.app)
        for plan in plans:
            follow_ups = {"then": plan.then, "on_failure": plan.on_failure}
            after = {option: [(one.task, one.args) for one in given] for option, given in follow_ups.items()}
            await app.submit(plan.task, plan.args, user="ann", session=f"plans-{plan.name}", **after)
        async with app.running():
            [asking] = [run async for run in _asking(app)]
            await app.answer(asking, ANSWER)
            journal().write(QuestionAnswered, run=asking.id, name="ask", value=ANSWER)
            await app.wait(asking, timeout=10)
            for run in await app.runs():
                await app.wait(run, timeout=10)
        yield await Record.read_from(await app.open(), Journal(tmp_path / "journal"), Asked(plans=plans))
    journal().close()
    journal.cache_clear()


async def _asking(app: Scheduler) -> AsyncIterator[Run]:
    [parent] = [run for run in await app.runs() if run.args["name"] == "1"]
    async for event in app.events(parent):
        if event.kind == "question":
            yield parent
            return


def test_nothing_is_wrong_with_a_world_where_all_is_well(world: Record) -> None:
    assert wrong(world) == []
    assert {plan.name for plan in world.asked.plans} == {"1", "2"}
    assert len(world.runs) == 6


# What can be spoiled


def _named(world: Record, name: str = "1") -> Run:
    return next(run for run in world.runs.values() if run.args["name"] == name)


def _execute(world: Record, **changes: Any) -> Record:
    """Write another execution of the first step into the journal."""
    [first, *_] = world.steps[_named(world).id, "step"]
    facts = {"run": first.run, "fence": first.fence, "step": "step", "mark": first.mark, "token": first.token}
    return _write(world, StepExecuted, **facts | changes)


def _write(world: Record, kind: type[Entry], **facts: Any) -> Record:
    journal().write(kind, **facts)
    return replace(world)  # without what it has read of the journal


def execute_what_was_kept(world: Record) -> Record:
    return _execute(world, fence=2, mark="another")


def execute_twice_under_one_fence(world: Record) -> Record:
    return _execute(world)


def offer_another_token(world: Record) -> Record:
    return _execute(world, fence=0, token="another")


def share_a_token(world: Record) -> Record:
    return _execute(world, run=_named(world, "2").id, fence=0, mark="another")


def return_another_value_later(world: Record) -> Record:
    return _write(world, ValueReturned, run=_named(world).id, fence=2, name="step", value="something else")


def return_what_is_not_kept(world: Record) -> Record:
    return _with_memo(world, MemoKind.ANSWER, value='{"said":2}')


def _with_memo(world: Record, kind: MemoKind, **changes: Any) -> Record:
    run = _named(world).id
    memos = [msgspec.structs.replace(memo, **changes) if memo.kind is kind else memo for memo in world.memos[run]]
    return replace(world, memos={**world.memos, run: memos})


def _without(world: Record, kind: MemoKind) -> Record:
    run = _named(world).id
    kept: list[Memo] = [memo for memo in world.memos[run] if memo.kind is not kind]
    return replace(world, memos={**world.memos, run: kept})


def lose_a_step(world: Record) -> Record:
    return _without(world, MemoKind.STEP)


def keep_what_nobody_did(world: Record) -> Record:
    return _with_memo(world, MemoKind.STEP, value='{"fence":1,"mark":"nobody"}')


def lose_an_answer(world: Record) -> Record:
    return _without(world, MemoKind.ANSWER)


def take_two_answers(world: Record) -> Record:
    return _write(world, QuestionAnswered, run=_named(world).id, name="ask", value={"said": 2})


def answer_without_anybody(world: Record) -> Record:
    path = world.journal.path
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(True) if b"question answered" not in line))
    return replace(world, journal=Journal(path))


def _with_log(world: Record, change: Callable[[list[Event]], Iterator[Event]]) -> Record:
    run = _named(world).id
    logs = {**world.logs, run: list(change(list(world.logs[run])))}
    return replace(world, logs=logs)


def ask_twice(world: Record) -> Record:
    return _with_log(world, lambda log: (one for event in log for one in [event] * (1 + (event.kind == "question"))))


def return_to_nobody(world: Record) -> Record:
    return _with_log(world, lambda log: (event for event in log if event.kind != "returned"))


def return_something_else(world: Record) -> Record:
    return _with_memo(world, MemoKind.CALL, value='"something else"')


def return_of_somebody_else(world: Record) -> Record:
    return _with_memo(world, MemoKind.CALL, run_id=_named(world, "2").id)


def _with_runs(world: Record, *runs: Run) -> Record:
    return replace(world, runs={**world.runs, **{run.id: run for run in runs}})


def leave_twice(world: Record) -> Record:
    left = _named(world, "1.left")
    copy = msgspec.structs.replace(left, id="copy")
    logs = {**world.logs, "copy": world.logs[left.id]}
    return _with_runs(replace(world, logs=logs, memos={**world.memos, "copy": []}), copy)


def leave_nothing(world: Record) -> Record:
    left = _named(world, "1.last")
    runs = {run.id: run for run in world.runs.values() if run is not left}
    return replace(world, runs=runs)


def end_otherwise(world: Record) -> Record:
    return _with_runs(world, msgspec.structs.replace(_named(world, "2"), state=RunState.CANCELLED))


def call_for_somebody_else(world: Record) -> Record:
    return _with_runs(world, msgspec.structs.replace(_named(world, "1.child"), user="ben"))


def cancel_a_child_alone(world: Record) -> Record:
    return _with_runs(world, msgspec.structs.replace(_named(world, "1.child"), state=RunState.CANCELLED))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (execute_what_was_kept, "was kept under fence 1 and executed again"),
        (execute_twice_under_one_fence, "was executed twice under one fence: [1, 1]"),
        (offer_another_token, "step step had several tokens"),
        (share_a_token, "2 steps had the token"),
        (return_another_value_later, "received for step: "),
        (return_what_is_not_kept, "received for ask {'said': 1}, and kept is"),
        (lose_a_step, "succeeded, and step step was executed and not kept"),
        (keep_what_nobody_did, "what is kept is of no execution"),
        (lose_an_answer, "ask was answered with [{'said': 1}], and kept is None"),
        (take_two_answers, "ask was answered with [{'said': 1}, {'said': 2}]"),
        (answer_without_anybody, "nobody answered ask"),
        (ask_twice, "asked ask 2 times, and was answered 1 times"),
        (return_to_nobody, "was told 0 times that"),
        (return_something_else, "call returned something else"),
        (return_of_somebody_else, "which it has not called"),
        (leave_twice, "not planned: Fate(name='1.left'"),
        (leave_nothing, "missing: Fate(name='1.last'"),
        (end_otherwise, "missing: Fate(name='2', state=<RunState.FAILED"),
        (call_for_somebody_else, "is of ben in plans-1, and its parent is not"),
        (cancel_a_child_alone, "was called, and is cancelled for None"),
    ],
)
def test_the_rules_find_it_if_you(world: Record, spoil: Callable[[Record], Record], complaint: str) -> None:
    found = wrong(spoil(world))

    assert any(complaint in line for line in found), found
