"""Which jobs are due, in which order, and what a clock that is set back does to that."""

from __future__ import annotations

import msgspec

from laneway.core.common.instants import SECOND
from laneway.core.jobs.fire_decision import Fired, set_back
from laneway.core.jobs.plan import switched
from laneway.core.jobs.record import FireKind, JobRecord
from laneway.core.records.job_tie import Overlap
from laneway.core.schedules import Every
from laneway.ports.jobs import DueJobs, EditJob
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from tests.contract.suite.frame import Part
from tests.support.invariants import all_runs
from tests.support.jobs import (
    HOUR,
    all_fires,
    fire_due,
    job_of,
    kept_job,
    new_job,
    standing,
)


async def due_ids(store: Store) -> list[str]:
    """Return which jobs are due."""
    return [job.id for job in (await store.due_jobs()).jobs]


class TestDueJobsInOrder(Part):
    """`JobStore.due_jobs` and `restart_time`."""

    async def test_nothing_is_due_before_its_time(self, store: Store, clock: FakeClock) -> None:
        assert await store.due_jobs() == DueJobs(clock.now())
        made = await kept_job(store, clock.now())
        await clock.advance(HOUR - 0.000001)
        assert await store.due_jobs() == DueJobs(clock.now(), [], made.state.fire_at)

        await clock.advance(0.000001)

        assert await store.due_jobs() == DueJobs(clock.now(), [made], None)

    async def test_the_longest_due_comes_first(self, store: Store, clock: FakeClock) -> None:
        for job_id, period in (("d", 30), ("a", 20), ("c", 10), ("b", 20), ("later", 90)):
            await kept_job(store, clock.now(), Every(period), id=job_id)
        start = clock.now()
        await clock.advance(60)

        found = await store.due_jobs()

        assert [job.id for job in found.jobs] == ["c", "a", "b", "d"]
        assert found.next_at == start + 90 * SECOND

    async def test_what_is_due_is_read_page_by_page(self, store: Store, clock: FakeClock) -> None:
        for number in range(7):
            await kept_job(store, clock.now(), Every((10, 12, 15)[number // 3]), id=f"{number}")
        await clock.advance(60)
        found: list[JobRecord] = []
        after = (0, "")

        while page := (await store.due_jobs(limit=2, after=after)).jobs:
            found += page
            after = (page[-1].state.fire_at or 0, page[-1].id)

        assert [job.id for job in found] == list("0123456")
        assert (await store.due_jobs(limit=0)).jobs == []

    async def test_looking_changes_nothing(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await clock.advance(5 * HOUR)

        looked = [await store.due_jobs() for _ in range(3)]

        assert looked == [DueJobs(clock.now(), [made], None)] * 3
        assert (await job_of(store), await all_fires(store)) == (made, [])

    async def test_a_job_that_is_off_is_not_due(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await kept_job(store, clock.now(), id="never on", enabled=False)
        await clock.advance(HOUR)
        await store.change_job(
            EditJob(msgspec.structs.replace(switched(made, clock.now(), "UTC", on=False), call="off"))
        )

        assert await store.due_jobs() == DueJobs(clock.now())

    async def test_a_job_that_moves_is_due_where_it_went(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        sooner = new_job(clock.now(), Every(60), id="j")
        await store.change_job(EditJob(msgspec.structs.replace(sooner, call="sooner")))
        await clock.advance(60)
        assert await due_ids(store) == ["j"]

        await store.change_job(EditJob(msgspec.structs.replace(made, version=2, call="later")))

        assert await store.due_jobs() == DueJobs(clock.now(), [], made.state.fire_at)

    async def test_a_clock_that_was_set_back_is_told_until_time_is_taken_as_it_is(
        self, store: Store, clock: FakeClock
    ) -> None:
        await kept_job(store, clock.now())
        assert (await store.due_jobs()).behind == 0
        await clock.advance(HOUR)
        assert (await store.due_jobs()).behind == 0
        await fire_due(store)

        clock.step(-90 * 60)

        assert (await store.due_jobs()).behind == 90 * 60 * SECOND
        await store.restart_time()
        await store.restart_time()
        assert (await store.due_jobs()).behind == 0

    async def test_what_was_due_is_not_once_the_clock_is_set_back(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await clock.advance(HOUR)
        assert await due_ids(store) == ["j"]

        clock.step(-1)

        assert (await store.due_jobs()).jobs == []
        assert (await store.due_jobs()).next_at == made.state.fire_at
        clock.step(1)
        assert await due_ids(store) == ["j"]

    async def test_a_fire_is_set_back_with_the_clock_and_comes_once(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), Every(60), overlap=Overlap.ALLOW)
        for _ in range(3):
            await clock.advance(60)
            await fire_due(store)
        clock.step(-150)
        back = set_back(await standing(store), clock.now(), "UTC")
        assert back is not None

        assert await store.fire([back]) == [Fired(True)]

        soonest = (await standing(store)).state.next_at
        assert soonest == clock.now() + 30 * SECOND
        assert (await all_fires(store))[-1].kind is FireKind.CLOCK_STEPPED
        await clock.advance(30)
        [again] = await fire_due(store)
        assert again == Fired(True, (None,))
        assert len(await all_runs(store)) == 3
        assert (await standing(store)).state.next_at == soonest + 60 * SECOND
