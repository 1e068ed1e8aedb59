"""How long a run waits after its worker was killed. The benchmark of recovery measures it on a quiet machine."""

from __future__ import annotations

from statistics import median

import pytest

from tests.system.harness.forms import SHORT_LEASE, on_all_stores, report, sized, time_limit
from tests.system.harness.stage import Stage
from tests.system.load.app import hold
from tests.system.oracle.check import check

pytestmark = pytest.mark.system

SECOND = 1_000_000_000
SOON = 8  # seconds: the lease of a killed worker lapses after 10 to 15


@on_all_stores
@time_limit()
async def test_a_killed_workers_run_starts_again_in_another_one_before_its_lease_lapses(stage: Stage) -> None:
    waits = []
    async with stage.client() as client:
        victim = stage.worker(concurrency=1)
        await stage.ready(victim)
        for number in range(stage.some_of(sized(3, 40))):
            run = (await client.submit(hold, {"gate": stage.gate(f"gate-{number}")})).run_id
            await stage.started(run)
            heir = stage.worker(concurrency=1)
            await stage.ready(heir)

            killed_at = victim.kill()

            waits.append((await stage.started(run, fence=2) - killed_at) / SECOND)
            stage.open_gate(f"gate-{number}")
            await client.wait(run, timeout=10)
            victim = heir
        await stage.stop(victim)
        await check(stage, client)
    report(f"started again after {_shown(waits)}")
    assert max(waits) < SOON


@time_limit()
async def test_a_killed_workers_run_starts_again_at_once_in_a_worker_started_later(stage: Stage) -> None:
    waits = []
    async with stage.client() as client:
        victim = stage.worker(concurrency=1)
        for number in range(sized(3, 40)):
            run = (await client.submit(hold, {"gate": stage.gate(f"gate-{number}")})).run_id
            await stage.started(run)
            victim.kill()

            heir = stage.worker(concurrency=1)
            ready_at = await stage.ready(heir)

            waits.append((await stage.started(run, fence=2) - ready_at) / SECOND)
            stage.open_gate(f"gate-{number}")
            await client.wait(run, timeout=10)
            victim = heir
        await stage.stop(victim)
        await check(stage, client)
    report(f"started again {_shown(waits)} after the new worker was ready")
    assert max(waits) < SOON


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        pytest.param(SHORT_LEASE, 20, id="a lease of 3 s"),
        pytest.param({}, 30, id="the default lease", marks=pytest.mark.chaos),
    ],
)
@time_limit()
async def test_a_killed_worker_that_cannot_be_seen_is_taken_over_when_its_lease_lapses(
    stage: Stage, settings: dict[str, float], most: float
) -> None:
    waits = []
    async with stage.client() as client:
        victim = stage.worker(concurrency=1, unseen=True, **settings)
        for number in range(sized(2, 6)):
            run = (await client.submit(hold, {"gate": stage.gate(f"gate-{number}")})).run_id
            await stage.started(run)
            heir = stage.worker(concurrency=1, unseen=True, **settings)
            await stage.ready(heir)

            killed_at = victim.kill()

            waits.append((await stage.started(run, fence=2) - killed_at) / SECOND)
            stage.open_gate(f"gate-{number}")
            await client.wait(run, timeout=10)
            victim = heir
        await stage.stop(victim)
        await check(stage, client)
    report(f"started again after {_shown(waits)}")
    assert max(waits) < most


def _shown(waits: list[float]) -> str:
    return f"{median(waits):.2f} s (median of {len(waits)}; longest {max(waits):.2f} s)"
