"""Lanes: created, changed and counted at run time."""

from __future__ import annotations

from laneway.core.records.policy import DEFAULT_LANES, Lane
from laneway.ports.lanes import LaneState
from laneway.ports.store import Store
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids


async def lane(store: Store, name: str) -> LaneState:
    """Return the lane of that name."""
    [state] = [state for state in await store.lanes() if state.lane.name == name]
    return state


class TestLanes(Part):
    """`LaneStore`."""

    async def test_the_default_lanes_exist_from_the_start_and_are_empty(self, store: Store) -> None:
        lanes = sorted(DEFAULT_LANES, key=lambda lane: lane.name)
        expected = [LaneState(lane, 0, 0, declared=lane) for lane in lanes]

        assert await store.lanes() == expected

    async def test_a_new_lane_takes_runs_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()

        await store.declare_lanes([Lane("fast", limit=2, per_user=1)])
        [receipt] = await store.submit([new_run("a", lane="fast")])

        assert receipt.reason is None
        [claimed] = await hand.claim(5)
        assert claimed.lane == "fast"
        state = await lane(store, "fast")
        assert (state.lane, state.active, state.ready) == (Lane("fast", limit=2, per_user=1), 1, 0)

    async def test_setting_lanes_leaves_the_others_alone(self, store: Store) -> None:
        before = {state.lane.name: state for state in await store.lanes()}

        await store.declare_lanes([Lane("main", limit=7), Lane("new", limit=1)])

        after = {state.lane.name: state for state in await store.lanes()}
        assert after == before | {
            name: LaneState(Lane(name, limit=limit), 0, 0, declared=Lane(name, limit=limit))
            for name, limit in (("main", 7), ("new", 1))
        }

    async def test_a_lane_set_twice_at_once_is_as_the_last_says(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=7), Lane("main", limit=8)])

        assert (await lane(store, "main")).lane == Lane("main", limit=8)

    async def test_of_a_lane_set_twice_at_once_the_first_lets_nothing_go_on(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=9, per_user=1)])
        await store.submit(new_runs(3, "ann", user="ann"))
        await hand.claim(9)

        await store.declare_lanes([Lane("main", limit=9, per_user=3), Lane("main", limit=8, per_user=1)])

        assert (await lane(store, "main")).ready == 0
        assert await hand.claim(9) == []

    async def test_setting_the_same_again_changes_nothing(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=2, per_user=1)])
        await store.submit(new_runs(4, "ann", user="ann"))
        await hand.claim(4)
        before = await store.lanes()

        await store.declare_lanes([Lane("main", limit=2, per_user=1)])
        await store.declare_lanes([])

        assert await store.lanes() == before
        assert await hand.claim(4) == []

    async def test_a_lane_counts_what_is_active_and_what_is_ready(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(5, "r"), new_run("later", delay=60), new_run("t", lane="team")])
        await store.submit([new_run("s1", session="chat"), new_run("s2", session="chat")])

        claimed = await hand.claim(4)

        main, team = await lane(store, "main"), await lane(store, "team")
        assert (main.active + team.active, main.ready + team.ready) == (4, 3)
        await hand.succeed(*claimed)
        main, team = await lane(store, "main"), await lane(store, "team")
        assert (main.active, team.active) == (0, 0)

    async def test_a_lowered_limit_stops_nothing_and_holds_new_starts(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "r"))
        first, second, third = await hand.claim(3)

        await store.declare_lanes([Lane("main", limit=1)])

        assert (await lane(store, "main")).active == 3
        assert (await hand.succeed(first, room=5)).claimed == []
        assert (await hand.succeed(second, room=5)).claimed == []
        assert ids((await hand.succeed(third, room=5)).claimed) == ["r-00003"]

    async def test_a_raised_limit_takes_effect_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=1)])
        await store.submit(new_runs(5, "r"))
        await hand.claim(5)

        await store.declare_lanes([Lane("main", limit=3)])

        assert ids(await hand.claim(5)) == ["r-00001", "r-00002"]
