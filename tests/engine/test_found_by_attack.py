"""What an attack on the engine found last: each test failed when it was written."""

from __future__ import annotations

from typing import Any

import pytest

from laneway import Scheduler, StoreUnavailable
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.engine.support import WatchedStore, as_time_passes, soon


@pytest.fixture
def url() -> str:
    return "memory://"


@pytest.mark.parametrize("ask", ["result", "wait"])
async def test_waiting_ends_in_time_also_when_the_store_is_out_of_reach(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock, ask: str
) -> None:
    lossy.task(name="work")(lambda: None)
    receipt = await lossy.submit("work")
    watched.fail("get", times=10)

    with pytest.raises((TimeoutError, StoreUnavailable)):
        await as_time_passes(clock, getattr(lossy, ask)(receipt, timeout=2))

    assert clock.monotonic() < 4


async def test_a_task_made_in_a_function_may_refer_to_itself(app: Scheduler) -> None:
    @app.task
    async def count_down(n: int) -> None:
        if n:
            await count_down.submit(n=n - 1)

    await count_down.submit(n=3)
    await soon(app.drain())

    assert [run.state for run in await app.runs()] == [RunState.SUCCEEDED] * 4


LINTED = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from laneway import Context

async def work(n: int, *, ctx: Context) -> str:
    return ctx.task
"""


async def test_a_context_imported_for_type_checkers_only_is_given_too(app: Scheduler) -> None:
    # What a linter makes of an import that only annotations use.
    module: dict[str, Any] = {}
    exec(LINTED, module)

    task = app.task(retry=None)(module["work"])
    receipt = await app.submit(task, {"n": 1})
    await app.drain()

    assert await app.result(receipt) == "work"
