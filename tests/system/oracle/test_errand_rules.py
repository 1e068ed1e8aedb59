"""The rules of errands find what they look for: a world where all is well, and one spoiled thing at a time."""

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
from tests.system.load import step_app as tasks
from tests.system.load.app import LANES
from tests.system.load.step_app import ATTEMPTS
from tests.system.load.step_plans import Plan
from tests.system.oracle.diary import Diary, Did, Got
from tests.system.oracle.errand_rules import Errands, wrong
from tests.system.oracle.journal import Journal, Pen

STEP: dict[str, Any] = {"do": "step", "name": "step", "on_loop": True}
ASK: dict[str, Any] = {"do": "ask", "name": "ask"}
ANSWER = {"said": 1}


def _plans() -> list[Plan]:
    child, left, last = (Plan(f"1.{name}", "run_errand", 0, [STEP]) for name in ("child", "left", "last"))
    deeds: list[dict[str, Any]] = [
        STEP,
        ASK,
        {"do": "call", "name": "call", "task": child.task, "args": child.args},
        {"do": "leave", "name": "leave", "task": left.task, "args": left.args},
    ]
    parent = Plan("1", "run_errand", 0, deeds, callees=[child], left=[left], then=[last])
    rescue = Plan("2.rescue", "run_errand", 0, [STEP])
    failing = Plan("2", "run_errand", 0, [STEP], on_failure=[rescue], failures=ATTEMPTS)
    return [parent, failing]


@pytest_asyncio.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Errands]:
    journal, pen = Journal(tmp_path / "journal"), Pen(tmp_path / "journal", "worker-1")
    diary, plans = Diary.beside(journal.path), _plans()
    monkeypatch.setattr(tasks, "pen", lambda: pen)
    monkeypatch.setattr(tasks, "diary", lambda: diary)
    async with Scheduler("memory://", lanes=LANES) as app:
        for task in tasks.app.tasks:
            app._registry.add(task)
        for plan in plans:
            follow_ups = {"then": plan.then, "on_failure": plan.on_failure}
            after = {option: [(one.task, one.args) for one in given] for option, given in follow_ups.items()}
            await app.submit(plan.task, plan.args, user="ann", session=f"errands-{plan.name}", **after)
        async with app.running():
            [asking] = [run async for run in _asking(app)]
            await app.answer(asking, ANSWER)
            await app.wait(asking, timeout=10)
            for run in await app.runs():
                await app.wait(run, timeout=10)
        store = await app.open()
        answers = {(asking.id, "ask"): [ANSWER]}
        yield await Errands.read_from(store, journal, plans, answers)
    pen.close()


async def _asking(app: Scheduler) -> AsyncIterator[Run]:
    [parent] = [run for run in await app.runs() if run.args["name"] == "1"]
    async for event in app.events(parent):
        if event.kind == "question":
            yield parent
            return


def test_nothing_is_wrong_with_a_world_where_all_is_well(world: Errands) -> None:
    assert wrong(world) == []
    assert {plan.name for plan in world.plans} == {"1", "2"}
    assert len(world.runs) == 6


# What can be spoiled


def _named(world: Errands, name: str = "1") -> Run:
    return next(run for run in world.runs.values() if run.args["name"] == name)


def _did(world: Errands, **changes: Any) -> None:
    [first, *_] = world.did[_named(world).id, "step"]
    world.diary.write(msgspec.structs.replace(first, **changes))
    del world.__dict__["did"]


def execute_what_was_kept(world: Errands) -> Errands:
    _did(world, fence=2, mark="another")
    return world


def execute_twice_under_one_fence(world: Errands) -> Errands:
    _did(world)
    return world


def offer_another_token(world: Errands) -> Errands:
    _did(world, fence=0, token="another")
    return world


def share_a_token(world: Errands) -> Errands:
    [mine] = world.did[_named(world).id, "step"]
    world.diary.write(Did(_named(world, "2").id, 0, "step", "another", mine.token))
    del world.__dict__["did"]
    return world


def tell_something_else(world: Errands) -> Errands:
    world.diary.write(Got(_named(world).id, 2, "step", "something else"))
    return world


def tell_what_is_not_kept(world: Errands) -> Errands:
    return _with_memo(world, MemoKind.ANSWER, value='{"said":2}')


def _with_memo(world: Errands, kind: MemoKind, **changes: Any) -> Errands:
    run = _named(world).id
    memos = [msgspec.structs.replace(memo, **changes) if memo.kind is kind else memo for memo in world.memos[run]]
    return replace(world, memos={**world.memos, run: memos})


def _without(world: Errands, kind: MemoKind) -> Errands:
    run = _named(world).id
    kept: list[Memo] = [memo for memo in world.memos[run] if memo.kind is not kind]
    return replace(world, memos={**world.memos, run: kept})


def lose_a_step(world: Errands) -> Errands:
    return _without(world, MemoKind.STEP)


def keep_what_nobody_did(world: Errands) -> Errands:
    return _with_memo(world, MemoKind.STEP, value='{"fence":1,"mark":"nobody"}')


def lose_an_answer(world: Errands) -> Errands:
    return _without(world, MemoKind.ANSWER)


def take_two_answers(world: Errands) -> Errands:
    return replace(world, answers={key: [*given, {"said": 2}] for key, given in world.answers.items()})


def answer_without_anybody(world: Errands) -> Errands:
    return replace(world, answers={})


def _with_log(world: Errands, change: Callable[[list[Event]], Iterator[Event]]) -> Errands:
    run = _named(world).id
    logs = {**world.books.logs, run: list(change(list(world.books.logs[run])))}
    return replace(world, books=replace(world.books, logs=logs))


def ask_twice(world: Errands) -> Errands:
    return _with_log(world, lambda log: (one for event in log for one in [event] * (1 + (event.kind == "question"))))


def return_to_nobody(world: Errands) -> Errands:
    return _with_log(world, lambda log: (event for event in log if event.kind != "returned"))


def return_something_else(world: Errands) -> Errands:
    return _with_memo(world, MemoKind.CALL, value='"something else"')


def return_of_somebody_else(world: Errands) -> Errands:
    return _with_memo(world, MemoKind.CALL, run_id=_named(world, "2").id)


def _with_runs(world: Errands, *runs: Run) -> Errands:
    return replace(world, books=replace(world.books, runs={**world.runs, **{run.id: run for run in runs}}))


def leave_twice(world: Errands) -> Errands:
    left = _named(world, "1.left")
    copy = msgspec.structs.replace(left, id="copy")
    logs = {**world.books.logs, "copy": world.books.logs[left.id]}
    return _with_runs(replace(world, books=replace(world.books, logs=logs), memos={**world.memos, "copy": []}), copy)


def leave_nothing(world: Errands) -> Errands:
    left = _named(world, "1.last")
    runs = {run.id: run for run in world.runs.values() if run is not left}
    return replace(world, books=replace(world.books, runs=runs))


def end_otherwise(world: Errands) -> Errands:
    return _with_runs(world, msgspec.structs.replace(_named(world, "2"), state=RunState.CANCELLED))


def call_for_somebody_else(world: Errands) -> Errands:
    return _with_runs(world, msgspec.structs.replace(_named(world, "1.child"), user="ben"))


def cancel_a_child_alone(world: Errands) -> Errands:
    return _with_runs(world, msgspec.structs.replace(_named(world, "1.child"), state=RunState.CANCELLED))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (execute_what_was_kept, "was kept under fence 1 and executed again"),
        (execute_twice_under_one_fence, "was executed twice under one fence: [1, 1]"),
        (offer_another_token, "step step had several tokens"),
        (share_a_token, "2 steps had the token"),
        (tell_something_else, "was told of step: "),
        (tell_what_is_not_kept, "was told of ask {'said': 1}, and kept is"),
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
        (call_for_somebody_else, "is of ben in errands-1, and its parent is not"),
        (cancel_a_child_alone, "was called, and is cancelled for None"),
    ],
)
def test_the_rules_find_it_if_you(world: Errands, spoil: Callable[[Errands], Errands], complaint: str) -> None:
    found = wrong(spoil(world))

    assert any(complaint in line for line in found), found
