"""What becomes of fires, on record."""

from __future__ import annotations

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.jobs.fire_decision import Fired, Firing, by_hand
from laneway.core.jobs.record import FIRES_KEPT, FireKind, FireRecord, Misfire
from laneway.core.records.states import RunState
from laneway.core.schedules import Cron, Every
from laneway.ports.control import Cancel
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from tests.contract.suite.frame import Part
from tests.support.invariants import all_runs
from tests.support.jobs import (
    all_fires,
    fire_due,
    kept_job,
    standing,
)


class TestFireRecords(Part):
    """What `JobStore.fires` returns."""

    async def test_skips_that_tell_the_same_are_one_record(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now(), Every(60))
        for _ in range(4):
            await clock.advance(60)
            await fire_due(store)

        fired, skipped = await all_fires(store)

        start = made.state.next_at or 0
        assert (fired.kind, fired.nth) == (FireKind.FIRED, 1)
        assert (skipped.kind, skipped.reason, skipped.count) == (FireKind.SKIPPED, "overlap", 3)
        assert (skipped.first, skipped.last, skipped.nth) == (start + 60 * SECOND, start + 180 * SECOND, 2)
        assert skipped.at == clock.now()
        assert (await standing(store)).state.skipped == 3

    async def test_records_are_read_newest_first_page_by_page(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), Cron("* * * * *"), misfire=Misfire.ALL)
        await clock.advance(300)
        await fire_due(store)

        newest = await store.fires("j", limit=2)
        rest = await store.fires("j", before=newest[-1].nth)

        assert [record.nth for record in (*newest, *rest)] == [5, 4, 3, 2, 1]
        assert [record.run_id for record in (*rest[::-1], *newest[::-1])] == [run.id for run in await all_runs(store)]
        assert await store.fires("j", before=1) == await store.fires("j", limit=0) == await store.fires("other") == []

    async def test_the_newest_thousand_records_are_kept(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        stepped = FireRecord(kind=FireKind.CLOCK_STEPPED, first=0, last=1)

        await store.fire([Firing(job_id="j", records=(stepped,) * (FIRES_KEPT - 1))])
        await store.fire([by_hand(made, "mine", clock.now())])
        assert len(await all_fires(store)) == FIRES_KEPT
        await store.fire([Firing(job_id="j", records=(stepped,) * 2)])

        numbers = [record.nth for record in await all_fires(store)]
        assert numbers == list(range(3, FIRES_KEPT + 3))
        assert (await standing(store)).state.records == FIRES_KEPT + 2

    async def test_a_run_that_is_known_though_its_record_is_gone_is_not_made_again(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = await kept_job(store, clock.now())
        await store.fire([by_hand(made, "mine", clock.now())])
        await store.change_run("c", "mine", Cancel())
        stepped = FireRecord(kind=FireKind.CLOCK_STEPPED, first=0, last=1)
        await store.fire([Firing(job_id="j", records=(stepped,) * FIRES_KEPT)])

        assert await store.fire([by_hand(made, "mine", clock.now())]) == [Fired(True, (None,))]

        state = (await standing(store)).state
        assert (state.fired, state.last_state) == (1, RunState.CANCELLED)

    @pytest.mark.parametrize("periods", [1, 10, 1000])
    async def test_a_stretch_of_missed_fires_is_one_record(self, store: Store, clock: FakeClock, periods: int) -> None:
        made = await kept_job(store, clock.now(), Every(60), misfire=Misfire.SKIP)
        await clock.advance(60 * periods + 31)

        await fire_due(store)

        [record] = await store.fires("j")
        first = made.state.next_at or 0
        assert (record.kind, record.reason, record.count) == (FireKind.MISSED, "skips_missed", periods)
        assert (record.first, record.last) == (first, first + (periods - 1) * 60 * SECOND)
        assert await all_runs(store) == []
        assert (await standing(store)).state.missed == periods
