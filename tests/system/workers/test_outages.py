"""Slow is not dead: which runs may be taken over while a store is locked, a loop blocked or a process frozen."""

from __future__ import annotations

import asyncio
import fcntl
from typing import Any

import pytest

from laneway.core.records.events import LAPSED
from laneway.core.records.states import RunState
from laneway.engine.handlers.task import Task
from tests.system.harness.forms import LONG, SHORT_LEASE, report, seeded, sized, time_limit
from tests.system.harness.stage import Stage, locked
from tests.system.harness.until import until
from tests.system.load.app import block, exhaust, hold, hold_in_thread, linger, stroll
from tests.system.load.mixed_load import load
from tests.system.oracle.check import check
from tests.system.oracle.journal import Ended, Ending, Started

pytestmark = [pytest.mark.system, time_limit()]

LEASE = {} if LONG else SHORT_LEASE


async def test_nobody_is_reclaimed_while_the_store_is_locked_longer_than_a_lease(stage: Stage) -> None:
    fleet = [stage.worker(concurrency=5, **LEASE) for _ in range(2)]
    await stage.ready(*fleet)
    async with stage.client() as client:
        held = [await client.submit(task, {"gate": stage.gate()}) for task in (hold, hold_in_thread) * 4]
        for receipt in held:
            await stage.started(receipt.run_id)

        with locked(stage.file):
            await asyncio.sleep(sized(8, 60))
        await client.submit_many([(stroll, {})] * 10)
        stage.open_gate()
        took = await stage.drained(client)

        await stage.stop(*fleet)
        figures = await check(stage, client)
        fences = {(await client.get(receipt)).fence for receipt in held}
    report(f"drained {took:.1f} s after the lock")
    assert fences == {1}
    assert (figures.taken_over, figures.twice) == (0, 0)
    assert {line.how for line in stage.journal.of(Ended)} == {Ending.RETURNED}


async def test_a_blocked_loop_is_not_reclaimed(stage: Stage) -> None:
    fleet = [stage.worker(concurrency=1, **LEASE) for _ in range(2)]
    await stage.ready(*fleet)
    async with stage.client() as client:
        # One is blocked; the other is idle, looks after it, and could take it over.
        run = await client.submit(block, {"takes": sized(8, 30)})

        await stage.drained(client, within=60)

        await stage.stop(*fleet)
        figures = await check(stage, client)
        assert (await client.get(run)).fence == 1
    assert figures.taken_over == 0


async def test_a_worker_out_of_file_descriptors_takes_nobody_for_dead(stage: Stage) -> None:
    healthy = stage.worker(concurrency=1)
    await stage.ready(healthy)
    async with stage.client() as client:
        run = await client.submit(hold, {"gate": stage.gate()})
        await stage.started(run.run_id)
        starved = stage.worker(concurrency=1)
        await stage.ready(starved)

        greedy = await client.submit(exhaust, {"gate": stage.gate()})
        await stage.started(greedy.run_id)
        # Workers look after each other once a second.
        await asyncio.sleep(3)
        stage.open_gate()
        await stage.drained(client)

        await stage.stop(healthy, starved)
        figures = await check(stage, client)
        assert (await client.get(run)).fence == 1
    assert figures.taken_over == 0


async def test_nobody_is_reclaimed_and_nothing_pruned_when_the_clock_steps(stage: Stage) -> None:
    clock = stage.folder / "clock"
    clock.write_text("0")
    # No process is seen to be gone, so everything depends on lease expiry, which goes by the clock.
    fleet = [stage.worker(concurrency=5, clock=str(clock), unseen=True, **SHORT_LEASE) for _ in range(2)]
    await stage.ready(*fleet)
    async with stage.client() as client:
        ended = [await client.result(await client.submit(stroll), timeout=30) for _ in range(3)]
        held = [await client.submit(hold, {"gate": stage.gate()}) for _ in range(8)]
        for receipt in held:
            await stage.started(receipt.run_id)

        for step in (-3600, 86_400, 0):
            (new := stage.folder / "clock.new").write_text(str(step))
            new.replace(clock)
            await asyncio.sleep(sized(5, 30))  # longer than a lease
        stage.open_gate()
        await stage.drained(client)

        await stage.stop(*fleet)
        figures = await check(stage, client)
        fences = {(await client.get(receipt)).fence for receipt in held}
    assert fences == {1}
    assert (figures.runs, figures.taken_over, figures.twice) == (len(ended) + len(held), 0, 0)


@pytest.mark.parametrize("task", [hold, hold_in_thread], ids=lambda task: task.name)
async def test_a_late_result_of_a_frozen_worker_is_refused_and_changes_nothing(
    stage: Stage, task: Task[..., Any]
) -> None:
    frozen = stage.worker(concurrency=1, **LEASE)
    await stage.ready(frozen)
    async with stage.client() as client:
        run = await client.submit(task, {"gate": stage.gate()})
        await stage.started(run.run_id)
        other = stage.worker(concurrency=1, **LEASE)
        await stage.ready(other)

        await frozen.freeze()
        stage.open_gate()
        taken = await client.wait(run, timeout=60)
        log = [event async for event in client.events(run)]
        frozen.thaw()
        blockers = [await client.submit(hold, {"gate": stage.gate("second")}) for _ in range(2)]
        for blocker in blockers:
            await stage.started(blocker.run_id)

        assert taken.result == {"fence": 2, "process": other.name}
        assert await client.get(run) == taken
        assert [event async for event in client.events(run)] == log
        assert [event.kind for event in log].count(LAPSED) == 1
        stage.open_gate("second")
        await stage.drained(client)
        await stage.stop(frozen, other)
        figures = await check(stage, client)
    report(f"the frozen handler {' and '.join(_ends(stage, run.run_id, fence=1))} when it went on")
    # Each has room for one, so the thawed one must have taken one of the two.
    assert figures.by_process == {frozen.name: 2, other.name: 2}


# On these stores a submission claims ahead for an idle worker.
@pytest.mark.parametrize("stage", ["redis", "postgres"], indirect=True)
async def test_what_a_frozen_worker_is_given_and_loses_it_does_not_begin_when_it_goes_on(stage: Stage) -> None:
    frozen = stage.worker(concurrency=2, log_checks=True, **LEASE)
    await stage.ready(frozen)
    async with stage.client() as client:
        store = await client.open()

        async def rests() -> bool:
            return [worker.idle for worker in await store.workers()] == [True]

        await until(rests, "the worker rests")
        await frozen.freeze()
        # A thread could not be stopped when the worker learns of the loss.
        batch = await client.submit_many([(task, {"gate": stage.gate()}) for task in (hold, hold_in_thread)])
        given = [(await client.get(receipt)).state for receipt in batch]
        other = stage.worker(concurrency=2, **LEASE)
        for receipt in batch:
            await stage.started(receipt.run_id, fence=2)
        frozen.thaw()
        # The other one is full, so the thawed one claims these when it has learned of its loss.
        for _ in range(2):
            await stage.started((await client.submit(hold, {"gate": stage.gate()})).run_id)

        stage.open_gate()
        await stage.drained(client)
        await stage.stop(frozen, other)
        figures = await check(stage, client)
    begun = {receipt.run_id: stage.journal.of(Started, receipt.run_id) for receipt in batch}
    assert given == [RunState.RUNNING] * 2
    assert [[(line.fence, line.process) for line in lines] for lines in begun.values()] == [[(2, other.name)]] * 2
    assert figures.taken_over == 2


@pytest.mark.chaos
@pytest.mark.xfail(reason="every write waits out the busy timeout for the turn of the frozen process")
async def test_a_process_frozen_with_the_turn_to_write_does_not_hold_up_the_others(stage: Stage) -> None:
    fleet = [stage.worker() for _ in range(2)]
    await stage.ready(*fleet)
    async with stage.client() as client:
        # The test stands for a process that was stopped right after it had taken its turn.
        with (stage.folder / "laneway.db-lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            for _ in range(3):
                await client.result(await client.submit(linger, {"takes": 0}), timeout=10)

        await stage.stop(*fleet)
        await check(stage, client)


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_workers_frozen_at_random_points_do_no_harm(stage: Stage) -> None:
    random, freezes = seeded(), 40
    fleet = [stage.worker(concurrency=8, log_checks=True, **SHORT_LEASE) for _ in range(3)]
    await stage.ready(*fleet)
    async with stage.client() as client:
        for _ in range(freezes):
            await client.submit_many(load(random, 40, longest=0.2))
            await stage.progress(random, 40)
            victim = random.choice(fleet)
            await victim.freeze()
            # Past its lease. If it was frozen in the middle of a commit, nobody can write until it goes on.
            await asyncio.sleep(5)
            victim.thaw()

        await stage.drained(client, within=120)
        await stage.stop(*fleet)
        figures = await check(stage, client)
    assert figures.failed == 0
    assert figures.taken_over > 0


def _ends(stage: Stage, run: str, *, fence: int) -> list[str]:
    return [str(line.how) for line in stage.journal.of(Ended, run) if line.fence == fence]
