"""Fires that were missed and are made up for: they wait their turn, whatever else their job says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.jobs.record import Misfire
from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import Lane, WhenFull
from laneway.core.records.run import Claimed
from laneway.core.schedules import Every
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run
from tests.contract.suite.frame import Part, start_order
from tests.contract.suite.jobs.overlap import MINUTE, P, fire_again, minutely, told
from tests.support.invariants import all_runs
from tests.support.jobs import fire_due, kept_job


class TestMissedFires(Part):
    """Fires that were missed and are made up for."""

    @pytest.mark.parametrize("overlap", list(Overlap))
    async def test_they_run_one_after_the_other_whatever_the_overlap_rule(
        self, store: Store, clock: FakeClock, overlap: Overlap
    ) -> None:
        hand = await Hand(store).register()
        await kept_job(store, clock.now(), Every(MINUTE), misfire=Misfire.ALL, overlap=overlap)
        await clock.advance(5 * MINUTE + 40)

        await fire_due(store)

        assert await told(store) == [("fired", "caught_up", 1)] * 5
        runs = await all_runs(store)
        nominal = [run.job.at for run in runs if run.job is not None]
        assert all(after - before == MINUTE * SECOND for before, after in pairwise(nominal))
        [claimed] = await hand.claim(9)
        await hand.release(claimed)
        assert await start_order(hand) == [run.id for run in runs]

    @pytest.mark.parametrize("overlap", list(Overlap))
    async def test_the_newest_is_made_up_for_too_though_it_is_not_late(
        self, store: Store, clock: FakeClock, overlap: Overlap
    ) -> None:
        await kept_job(store, clock.now(), Every(MINUTE), misfire=Misfire.ALL, overlap=overlap)
        await clock.advance(3 * MINUTE)

        await fire_due(store)

        assert await told(store) == [("fired", "caught_up", 1)] * 3
        assert [run.state for run in await all_runs(store)] == [P] * 3

    async def test_one_joins_what_goes_on_in_its_session(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.SKIP)
        await fire_again(store, clock)
        claimed: list[Claimed] = await hand.claim()
        await clock.advance(MINUTE + 31)

        await fire_due(store)

        assert await told(store) == [("fired", None, 1), ("fired", "caught_up", 1)]
        assert await hand.claim() == []
        assert len((await hand.succeed(*claimed, room=1)).claimed) == 1

    @pytest.mark.parametrize("when_full", list(WhenFull))
    async def test_a_full_lane_takes_fires_and_drops_nothing_for_them(
        self, store: Store, clock: FakeClock, when_full: WhenFull
    ) -> None:
        await store.declare_lanes([Lane("main", max_pending=1, when_full=when_full)])
        await store.submit([new_run("waits")])
        await kept_job(store, clock.now(), Every(MINUTE), misfire=Misfire.ALL)
        await clock.advance(3 * MINUTE)

        await fire_due(store)

        assert await told(store) == [("fired", "caught_up", 1)] * 3
        assert (await store.get("waits")).state is P
