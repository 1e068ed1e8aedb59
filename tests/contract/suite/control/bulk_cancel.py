"""Cancelling many runs at once, in parts, each with an exact count."""

from __future__ import annotations

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import Request, RunFilter
from laneway.core.records.states import RunState
from laneway.errors import StoreUnavailable
from laneway.ports.control import Cancel, Pause, Swept
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.attempts.leases import SECONDS, pass_time
from tests.contract.suite.frame import Part, ids, kinds, start_order, states
from tests.support.invariants import all_runs
from tests.support.lossy_store import LossyStore

EVERYTHING = RunFilter()


async def every_stage(store: Store, hand: Hand) -> None:
    """Leave a run in each stage, all of the user ann but the last, in the order of their ids."""
    await store.declare_lanes([Lane("main", limit=10, per_user=3)])
    await store.submit([new_run("1 ended", user="ann")])
    await hand.succeed(*await hand.claim())
    await store.submit([new_run(name, user="ann") for name in ("2 requested", "3 running", "4 retried")])
    *_, retried = await hand.claim(3)
    await store.change_run("before", "2 requested", Cancel())
    await hand.fail(retried)
    await store.submit(
        [new_run("5 running", user="ann", session="chat"), new_run("6 held", user="ann", session="chat")]
    )
    await hand.claim()
    await store.submit([new_run(name, user="ann") for name in ("7 paused", "8 parked", "9 parked")])
    await store.change_run("before", "7 paused", Pause())
    await hand.claim(5)
    await store.submit([new_run("a future", user="ann", delay=60), new_run("b other", user="bob")])


class TestBulkCancel(Part):
    """`ControlStore.cancel_where`."""

    async def test_what_has_not_ended_is_cancelled_whatever_its_stage(self, store: Store) -> None:
        hand = await Hand(store).register()
        await every_stage(store, hand)

        swept = await store.cancel_where("c", RunFilter(user="ann"))

        assert swept == Swept(8)
        runs = {run.id: run for run in await all_runs(store)}
        asked = [run.id for run in runs.values() if run.request is Request.CANCEL]
        assert asked == ["2 requested", "3 running", "5 running"]
        ended = [run.id for run in runs.values() if run.state is RunState.CANCELLED]
        assert ended == ["4 retried", "6 held", "7 paused", "8 parked", "9 parked", "a future"]
        assert (runs["1 ended"].state, runs["b other"].state) == (RunState.SUCCEEDED, RunState.PENDING)
        assert await kinds(store, "2 requested") == ["started", "cancel_requested"]
        assert await hand.hears()
        assert len((await hand.step()).requests) == 3

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (RunFilter(state=RunState.PENDING), "4689ab"),
            (RunFilter(state=RunState.RUNNING), "35"),
            (RunFilter(state=RunState.PAUSED), "7"),
            (RunFilter(state=RunState.SUCCEEDED), ""),
            (RunFilter(session="chat"), "56"),
            (RunFilter(state=RunState.PENDING, session="chat"), "6"),
            (RunFilter(user="bob", lane="main", task="work"), "b"),
            (RunFilter(task="nothing"), ""),
            (RunFilter(lane="team"), ""),
        ],
        ids=str,
    )
    async def test_only_what_fits_is_cancelled(self, store: Store, wanted: RunFilter, found: str) -> None:
        hand = await Hand(store).register()
        await every_stage(store, hand)
        before = {run.id: run for run in await all_runs(store)}

        swept = await store.cancel_where("c", wanted)

        changed = [run.id for run in await all_runs(store) if run != before[run.id]]
        assert [run_id[0] for run_id in changed] == list(found)
        assert swept == Swept(len(changed))

    async def test_it_goes_on_in_parts(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(7, "r", session="chat"))
        await hand.claim()

        first = await store.cancel_where("c1", EVERYTHING, limit=3)
        second = await store.cancel_where("c2", EVERYTHING, after=first.last or 0, limit=3)
        third = await store.cancel_where("c3", EVERYTHING, after=second.last or 0, limit=3)

        assert [first, second, third] == [Swept(3, 3), Swept(3, 6), Swept(1)]
        assert (await store.depths()).runs == {"running": 1, "cancelled": 6}

    async def test_those_requested_before_do_not_use_up_the_limit(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "r"))
        await hand.claim(3)
        for index in range(3):
            await store.change_run(f"c{index}", f"r-{index:05d}", Cancel())

        assert await store.cancel_where("c", EVERYTHING, limit=2) == Swept(2, 5)

    async def test_runs_accepted_later_can_be_left_out(self, store: Store) -> None:
        await store.submit(new_runs(4, "r"))

        assert await store.cancel_where("c", EVERYTHING, after=1, until=3) == Swept(2)
        assert [run.number for run in await all_runs(store) if run.ended] == [2, 3]

    @pytest.mark.parametrize("limit", [3, 5, 500])
    async def test_a_repeat_returns_the_same_count_and_cancels_no_more(self, store: Store, limit: int) -> None:
        lossy = LossyStore(store)
        lossy.lose_reply("cancel_where")
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "r"))
        await hand.claim()
        with pytest.raises(StoreUnavailable):
            await lossy.cancel_where("c", EVERYTHING, limit=limit)
        await store.submit(new_runs(5, "later"))

        swept = await lossy.cancel_where("c", EVERYTHING, limit=limit)

        assert swept == (Swept(limit, limit) if limit <= 5 else Swept(5))
        assert await states(store, "later-00000", "later-00004") == [RunState.PENDING] * 2

    async def test_it_may_find_nothing(self, store: Store) -> None:
        await store.submit(new_runs(2, "r"))

        assert await store.cancel_where("c", EVERYTHING, after=2) == Swept(0)
        assert await store.cancel_where("c", EVERYTHING, limit=0) == Swept(0)
        assert (await store.depths()).runs == {"pending": 2}

    async def test_leases_that_lapsed_end_at_once(self, store: Store, clock: FakeClock) -> None:
        dead, alive = await Hand(store, "dead").register(), await Hand(store, "alive").register()
        await store.submit(new_runs(2, "r"))
        await dead.claim()
        await alive.claim()
        await store.change_run("before", "r-00000", Cancel())
        await pass_time(clock, SECONDS + 1, alive)

        assert await store.cancel_where("c", EVERYTHING) == Swept(2)
        assert await states(store, "r-00000", "r-00001") == [RunState.CANCELLED, RunState.RUNNING]

    async def test_what_is_left_goes_on_in_its_order(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=3, per_user=1)])
        chats = [new_run(f"{user}-{n}", user=user, session=user) for n in range(6) for user in ("ann", "bob")]
        odd = [new_run(f"odd-{n}", user="ann", task="odd") for n in range(3)]
        await store.submit([*odd, *chats])
        claimed = await hand.claim(3)

        swept = await store.cancel_where("c", RunFilter(state=RunState.PENDING, user="ann"))

        left = {run.id for run in await all_runs(store) if run.state is RunState.PENDING}
        assert {run_id.split("-")[0] for run_id in left} == {"bob"}
        assert swept.changed == 9 - sum(run.user == "ann" for run in claimed)
        await hand.succeed(*claimed)
        order = [*ids(claimed), *await start_order(hand)]
        assert [run_id for run_id in order if run_id.startswith("bob")] == [f"bob-{n}" for n in range(6)]

    async def test_many_hundreds_are_cancelled_in_parts_of_the_limit(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", per_user=1)])
        hand = await Hand(store).register()
        await store.submit([new_run(user="ann", session=f"s{n % 7}") for n in range(700)])
        await hand.succeed(*await hand.claim(5))

        first = await store.cancel_where("c1", EVERYTHING)
        second = await store.cancel_where("c2", EVERYTHING, after=first.last or 0)

        assert (first.changed, second) == (500, Swept(199))
        assert (await store.depths()).runs == {"succeeded": 1, "cancelled": 699}
