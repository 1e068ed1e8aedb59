"""Kill -9 of the worker x every kind of handler: each is started again, and not before its old code is dead."""

from __future__ import annotations

import pytest

from laneway import Scheduler
from laneway.core.records.states import RunState
from tests.support.run_logs import kinds_of
from tests.support.stoppable_handlers import KINDS, Kind, Notes
from tests.system.harness.forms import time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.kinds_app import LANES

pytestmark = pytest.mark.system
BY_NAME = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))


class Murder:
    """A run that a worker executes, and the worker's end."""

    def __init__(self, stage: Stage, client: Scheduler, kind: Kind) -> None:
        self.stage, self.client, self.kind = stage, client, kind
        self.notes = Notes(stage.folder)
        self.run = ""

    async def begin(self) -> Process:
        """Let a worker execute a run; return the worker once the handler's code runs."""
        worker = await self.stage.laneway_worker("tests.system.load.kinds_app:app", grace=0.3)
        receipt = await self.client.submit(self.kind.name, {"folder": str(self.stage.folder)})
        self.run = receipt.run_id
        await until(lambda: self.notes.begun(self.run), "the handler begins")
        return worker

    async def ended(self) -> list[str]:
        """Wait for the run to end; return the kinds of its events."""
        await self.client.wait(self.run, 30)
        assert not any(self.notes.beside())
        assert self.notes.running() == []
        return await kinds_of(self.client, self.run)


@pytest.fixture
def client(stage: Stage) -> Scheduler:
    client = Scheduler(stage.url, lanes=LANES)
    for kind in KINDS:
        client.task(name=kind.name, lane=kind.name, process=kind.process)(kind.handler)
    return client


@BY_NAME
@time_limit()
async def test_a_run_of_a_killed_worker_starts_again_when_its_old_code_is_dead(
    stage: Stage, client: Scheduler, kind: Kind
) -> None:
    async with client:
        murder = Murder(stage, client, kind)
        worker = await murder.begin()

        worker.kill()
        heir = await stage.laneway_worker("tests.system.load.kinds_app:app", grace=0.3)
        await until(lambda: murder.notes.begun(murder.run, 2), "it is started again")
        murder.notes.let_end()
        kinds = await murder.ended()
        run = await client.get(murder.run)
        await stage.stop(heir)

    assert (run.state, run.attempt, run.fence) == (RunState.SUCCEEDED, 1, 2)
    assert kinds == ["started", "lapsed", "started", "result", "done"]


DEAF = [kind for kind in KINDS if not kind.can_be_stopped]


@pytest.mark.parametrize("kind", DEAF, ids=lambda kind: kind.name.replace(" ", "-"))
@time_limit()
async def test_a_cancelled_run_of_a_killed_worker_ends_cancelled(stage: Stage, client: Scheduler, kind: Kind) -> None:
    async with client:
        murder = Murder(stage, client, kind)
        worker = await murder.begin()
        await client.cancel(murder.run)
        await until(lambda: _has(client, murder.run, "stuck"), "it is stuck")

        worker.kill()
        heir = await stage.laneway_worker("tests.system.load.kinds_app:app")
        kinds = await murder.ended()
        run = await client.get(murder.run)
        await stage.stop(heir)

    assert run.state is RunState.CANCELLED
    assert kinds == ["started", "cancel_requested", "cancel_delivered", "stuck", "lapsed", "done"]


@pytest.mark.parametrize("kind", DEAF, ids=lambda kind: kind.name.replace(" ", "-"))
@time_limit()
async def test_a_run_that_was_overdue_when_its_worker_was_killed_is_timed_out_and_no_crash(
    stage: Stage, client: Scheduler, kind: Kind
) -> None:
    async with client:
        murder = Murder(stage, client, kind)
        worker = await murder.begin()
        await until(lambda: _has(client, murder.run, "overdue"), "it is overdue")

        worker.kill()
        heir = await stage.laneway_worker("tests.system.load.kinds_app:app")
        kinds = await murder.ended()
        run = await client.get(murder.run)
        await stage.stop(heir)

    assert (run.state, run.reason, run.crashes) == (RunState.FAILED, "timed_out", 0)
    assert [kind for kind in kinds if kind != "stuck"] == ["started", "overdue", "lapsed", "error", "done"]


async def _has(client: Scheduler, run: str, kind: str) -> bool:
    return kind in await kinds_of(client, run)
