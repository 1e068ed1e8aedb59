"""Steps, questions, calls and follow-ups while workers are killed: nothing kept is lost, and nothing happens twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from laneway import NotWaiting, Run, Scheduler, SessionPolicy
from laneway.core.records.events import CALLED, LAPSED, STARTED
from laneway.core.records.memos import MemoKind
from laneway.core.records.states import RunState
from tests.system.harness.forms import SHORT_LEASE, on_both_stores, report, seeded, sized, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage, add_tasks
from tests.system.harness.until import until
from tests.system.load.app import LANES
from tests.system.load.step_app import app, follow_on_loop
from tests.system.load.step_plans import NEVER, Drawing, Plan
from tests.system.oracle.check import checked
from tests.system.oracle.journal import (
    Ended,
    JournalWriter,
    Killed,
    QuestionAnswered,
    Started,
    StepExecuted,
    ValueReturned,
)
from tests.system.oracle.record import Asked, Record

pytestmark = pytest.mark.system

KILLS, WORKERS = sized(15, 1000), 3
AT_ONCE = 24  # runs that have not ended: enough that a killed worker was executing some
UNENDED = (RunState.PENDING, RunState.RUNNING, RunState.WAITING, RunState.PAUSED)


def _worker(stage: Stage, **settings: Any) -> Process:
    return stage.laneway("worker", "tests.system.load.step_app:app", "--json", concurrency=8, **settings)


@asynccontextmanager
async def _client(stage: Stage) -> AsyncIterator[Scheduler]:
    client = Scheduler(stage.url, lanes=LANES)
    add_tasks(client, app)
    async with client:
        yield client


@dataclass
class Traffic:
    """The workers of the test, and the people who submit, answer and cancel."""

    stage: Stage
    random: Random
    client: Scheduler
    rival: Scheduler  # a second one that answers
    plans: list[Plan] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self) -> None:
        self._drawing = Drawing(self.random)
        self._writer = JournalWriter(self.stage.journal.path, "test")

    async def top_up(self) -> None:
        """Submit plans until enough runs are under way."""
        counts = (await (await self.client.open()).depths()).runs
        missing = max(0, AT_ONCE - sum(counts.get(state.value, 0) for state in UNENDED))
        plans = [self._drawing.plan() for _ in range(missing)]
        self.plans += plans
        await self.client.submit_many([plan.submission(self.random) for plan in plans])

    async def kill_somebody(self) -> None:
        """Wait for a random point of the work, and any instant after it, and kill a worker."""

        def is_there() -> bool:
            fallen = [worker.name for worker in self.workers if not worker.alive]
            assert not fallen, f"nobody killed {fallen}"
            return len(self.stage.journal.entries()) >= goal

        goal = len(self.stage.journal.entries()) + self.random.randint(1, 40)
        await until(is_there, "the work goes on", within=60)
        await asyncio.sleep(self.random.random() / 50)
        self.workers.pop(self.random.randrange(WORKERS)).kill()
        self.workers.append(_worker(self.stage))

    async def people(self) -> None:
        """Answer questions, some of them twice at the same time, and cancel runs that wait for what nobody answers."""
        while True:
            for run in await self.client.runs(state=RunState.WAITING, limit=200):
                for question in run.wait.questions if run.wait is not None else ():
                    if question.name.startswith(NEVER):
                        await self._cancel_all_above(run)
                    else:
                        await self._answer(run.id, question.name)
            await asyncio.sleep(0.01)  # the run that asks is in another process, which cannot notify this one

    async def _answer(self, run: str, name: str) -> None:
        askers = (self.client, self.rival) if self.random.random() < 0.3 else (self.client,)
        replies = await asyncio.gather(*(self._try_to_answer(one, run, name) for one in askers))
        for reply in replies:
            if reply is not None:
                self._writer.write(QuestionAnswered, run=run, name=name, value=reply)

    async def _try_to_answer(self, client: Scheduler, run: str, name: str) -> Any:
        answer = {"said": self.random.randrange(10**9)}
        try:
            await client.answer(run, answer, name=name)
        except NotWaiting:
            self.refused += 1
            return None
        return answer

    async def _cancel_all_above(self, run: Run) -> None:
        while run.parent is not None:
            run = await self.client.get(run.parent)
        if not run.ended:
            await self.client.cancel(run, abandon=self.random.random() < 0.5)

    async def at_rest(self) -> bool:
        """Tell whether every run has ended."""
        counts = (await (await self.client.open()).depths()).runs
        return not any(counts.get(state.value) for state in UNENDED)


@on_both_stores
@time_limit(short=180, long=3600)
async def test_what_was_kept_is_never_done_again_however_often_workers_are_killed(stage: Stage) -> None:
    async with _client(stage) as client, _client(stage) as rival:
        traffic = Traffic(stage, seeded(), client, rival)
        traffic.workers = [_worker(stage) for _ in range(WORKERS)]
        people = asyncio.create_task(traffic.people())
        kills = stage.some_of(KILLS)
        for _ in range(kills):
            await traffic.top_up()
            await traffic.kill_somebody()
        await until(traffic.at_rest, "every run has ended", within=sized(90, 600))
        people.cancel()
        for worker in traffic.workers:
            await stage.printed(worker, '"event":"ready"')  # the newest one may not handle signals yet
        await stage.stop(*traffic.workers)

        record = await checked(stage, client, Asked(plans=traffic.plans))
    _report(record, traffic)
    assert len(stage.journal.of(Killed)) == kills
    assert all(record.kept(kind) for kind in MemoKind)


def _report(record: Record, traffic: Traffic) -> None:
    kinds = Counter(event.kind for log in record.logs.values() for event in log)
    kept = {kind.value: len(record.kept(kind)) for kind in MemoKind}
    executed, returned = (len(record.journal.of(kind)) for kind in (StepExecuted, ValueReturned))
    states = Counter(run.state.value for run in record.runs.values())
    report(
        f"{len(record.journal.of(Killed))} kills, {len(record.runs)} runs ({dict(states)}), {kinds[STARTED]} starts,"
        f" {kinds[LAPSED]} taken over; kept {kept}; {executed} executions of {len(record.steps)} steps, {returned}"
        f" values returned to handlers; {traffic.refused} answers came second"
    )


def _args(name: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "actions": list(actions)}


def _asks(name: str) -> dict[str, Any]:
    return {"do": "ask", "name": name}


def _calls(name: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {"do": "call", "name": "call", "task": follow_on_loop.name, "args": _args(name, *actions)}


@time_limit()
async def test_a_parent_whose_worker_was_killed_while_it_waited_gets_its_childs_result(stage: Stage) -> None:
    async with _client(stage) as client:
        serial = {"session": "chat", "session_policy": SessionPolicy(while_waiting="queue")}
        parent = await client.submit(follow_on_loop, _args("parent", _calls("child", _asks("go on"))), **serial)
        behind = await client.submit(follow_on_loop, _args("behind"), **serial)
        worker = _worker(stage)
        child = await _asking(client)

        worker.kill()
        before = await client.get(parent)
        await client.answer(child, "yes")  # while no worker is up
        heir = _worker(stage)
        result = await client.result(child, timeout=30)
        await client.result(behind, timeout=30)
        after = await client.get(parent)
        returned = [entry.value for entry in stage.journal.of(ValueReturned, parent.run_id)]
        await stage.stop(heir)

        assert (before.state, after.state, after.crashes) == (RunState.WAITING, RunState.SUCCEEDED, 0)
        assert returned == [result]
        # The child took no place in the session, and the next one only came when its parent had ended.
        [begun] = [line.at for line in stage.journal.of(Started, behind.run_id)]
        assert begun > max(line.at for line in stage.journal.of(Ended, parent.run_id))
        kinds = [event.kind async for event in client.events(parent)]
        assert kinds == [STARTED, CALLED, "returned", STARTED, "result", "done"]


@time_limit()
async def test_a_child_ends_with_its_parent_also_when_both_workers_are_dead(stage: Stage) -> None:
    async with _client(stage) as client:
        parent = await client.submit(
            follow_on_loop, _args("parent", _calls("child", _calls("grandchild", _asks("go on"))))
        )
        worker = _worker(stage)
        grandchild = await _asking(client)
        worker.kill()

        await client.cancel(parent)

        runs = await client.runs()
        assert {run.args["name"]: (run.state.value, run.reason) for run in runs} == {
            "parent": ("cancelled", None),
            "child": ("cancelled", "parent_ended"),
            "grandchild": ("cancelled", "parent_ended"),
        }
        with pytest.raises(NotWaiting):
            await client.answer(grandchild, "yes")
        assert await (await client.open()).check() == []


@time_limit()
async def test_a_frozen_worker_that_wakes_up_late_keeps_nothing(stage: Stage) -> None:

    def executions() -> list[int]:
        return [entry.fence for entry in stage.journal.of(StepExecuted)]

    async with _client(stage) as client:
        step = {"do": "step", "name": "pay", "on_loop": True}
        receipt = await client.submit(follow_on_loop, _args("frozen", step) | {"takes": 2})
        frozen = _worker(stage, **SHORT_LEASE)
        await until(lambda: executions() == [1], "the step is executed")
        await frozen.freeze()
        heir = _worker(stage, **SHORT_LEASE)
        await until(lambda: executions() == [1, 2], "the step is executed by another", within=60)

        frozen.thaw()
        await client.wait(receipt, 30)
        await stage.stop(heir, frozen)

        [memo] = (await (await client.open()).recall(receipt.run_id)).memos
        run = await client.get(receipt)
    assert (run.state, run.fence) == (RunState.SUCCEEDED, 2)
    assert json.loads(memo.value or "")["fence"] == 2
    assert [entry.fence for entry in stage.journal.of(ValueReturned)] == [2]


async def _asking(client: Scheduler) -> Run:
    found: list[Run] = []

    async def somebody_asks() -> bool:
        found[:] = [run for run in await client.runs(state="waiting") if run.wait and run.wait.questions]
        return bool(found)

    await until(somebody_asks, "somebody asks")
    return found[0]
