"""Caps: how many runs of one user may be active in a lane, and what becomes of those that wait for it."""

from __future__ import annotations

from collections import Counter

from laneway.core.records.policy import Lane
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids, start_order


class TestCaps(Part):
    """`Lane.per_user`."""

    async def test_a_user_is_never_over_the_cap(self, store: Store) -> None:
        one, two = await Hand(store, "one").register(), await Hand(store, "two").register()
        await store.declare_lanes([Lane("main", per_user=2)])
        await store.submit(new_runs(6, "ann", user="ann"))

        mine, yours = await one.claim(5), await two.claim(5)

        assert (ids(mine), ids(yours)) == (["ann-00000", "ann-00001"], [])

    async def test_a_user_at_the_cap_does_not_hold_up_others(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=2)])
        await store.submit([*new_runs(100, "ann", user="ann"), *new_runs(3, "bob", user="bob"), new_run("nobody")])

        claimed = await hand.claim(20)

        assert Counter(run.user for run in claimed) == {"ann": 2, "bob": 2, None: 1}

    async def test_runs_without_a_user_have_no_cap(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(5, "none"))

        assert len(await hand.claim(10)) == 5

    async def test_a_cap_counts_within_its_lane_only(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1), Lane("team", per_user=2)])
        await store.submit([*new_runs(5, "main", user="ann"), *new_runs(5, "team", user="ann", lane="team")])

        claimed = await hand.claim(10)

        assert Counter(run.lane for run in claimed) == {"main": 1, "team": 2}

    async def test_parked_runs_come_back_one_by_one_in_their_order(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(5, "ann", user="ann"))
        order: list[str] = []

        claimed = await hand.claim(5)
        while claimed:
            assert len(claimed) == 1
            order += ids(claimed)
            claimed = (await hand.succeed(*claimed, room=5)).claimed

        assert order == [f"ann-{index:05d}" for index in range(5)]

    async def test_a_run_that_comes_while_others_are_parked_goes_behind_them(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([new_run("a", user="ann"), new_run("b", user="ann")])
        claimed = await hand.claim(5)
        await store.submit([new_run("c", user="ann")])
        await hand.succeed(*claimed)
        await store.submit([new_run("d", user="ann")])

        assert await start_order(hand) == ["b", "c", "d"]

    async def test_a_run_that_came_back_is_not_overtaken_by_a_later_one_of_its_user(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([*new_runs(3, "none"), *new_runs(3, "ann", user="ann")])
        started = await hand.claim(4)
        assert ids(started) == ["none-00000", "ann-00000", "none-00001", "none-00002"]

        await hand.succeed(*started)

        assert await start_order(hand) == ["ann-00001", "ann-00002"]

    async def test_a_delayed_run_does_not_overtake_one_of_its_user_that_came_back(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([new_run("delayed", user="ann", delay=1), *new_runs(2, "ann", user="ann")])
        started = await hand.claim(5)
        await hand.succeed(*started)

        await clock.advance(1)

        assert await start_order(hand) == ["ann-00001", "delayed"]

    async def test_an_urgent_run_overtakes_one_of_its_user_that_came_back(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(2, "ann", user="ann"))
        await hand.succeed(*await hand.claim(5))

        await store.submit([new_run("urgent", user="ann", priority=1)])

        assert await start_order(hand) == ["urgent", "ann-00001"]

    async def test_a_users_urgent_run_overtakes_the_parked_ones(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(4, "ann", user="ann"))
        claimed = await hand.claim(5)

        await store.submit([new_run("urgent", user="ann", priority=1)])

        assert ids((await hand.succeed(*claimed, room=5)).claimed) == ["urgent"]

    async def test_users_with_parked_runs_take_turns(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=2, per_user=1)])
        await store.submit([new for user in ("ann", "bob", "cyd") for new in new_runs(4, user, user=user)])
        order: list[str | None] = []

        claimed = await hand.claim(2)
        while claimed:
            assert len({run.user for run in claimed}) == len(claimed)
            order += [run.user for run in claimed]
            claimed = (await hand.succeed(*claimed, room=2)).claimed

        assert Counter(order) == {"ann": 4, "bob": 4, "cyd": 4}
        assert all(len(set(order[at : at + 3])) == 3 for at in (0, 3, 6, 9))

    async def test_a_raised_cap_lets_the_parked_start_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(6, "ann", user="ann"))
        await hand.claim(10)

        await store.declare_lanes([Lane("main", per_user=3)])

        assert ids(await hand.claim(10)) == ["ann-00001", "ann-00002"]

    async def test_one_parked_run_is_back_at_a_time_however_often_lanes_are_set(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(6, "ann", user="ann"))
        await hand.claim(10)

        for cap in (5, 4, 5, None):
            await store.declare_lanes([Lane("main", per_user=cap)])

        [main] = [state for state in await store.lanes() if state.lane.name == "main"]
        assert (main.active, main.ready) == (1, 1)

    async def test_a_parked_run_of_an_unknown_task_does_not_keep_the_next_from_coming_back(self, store: Store) -> None:
        hand = await Hand(store, tasks={"mail"}).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([new_run(f"ann{at}", user="ann", task=task) for at, task in enumerate(["mail"] * 2)])
        claimed = await hand.claim(5)
        await store.submit(
            [new_run("scan", user="ann", task="scan", priority=1), new_run("last", user="ann", task="mail")]
        )

        reply = await hand.succeed(*claimed, room=5)
        assert ids(reply.claimed) == ["ann1"]

        assert ids((await hand.succeed(*reply.claimed, room=5)).claimed) == ["last"]

    async def test_a_removed_cap_lets_all_the_parked_start_in_order(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(6, "ann", user="ann"))
        await hand.claim(10)
        await store.declare_lanes([Lane("main")])
        await store.submit([new_run("last", user="ann")])

        assert ids(await hand.claim(10)) == [*(f"ann-{index:05d}" for index in range(1, 6)), "last"]

    async def test_a_lowered_cap_stops_nothing_and_holds_new_starts(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=3)])
        await store.submit(new_runs(6, "ann", user="ann"))
        first, second, third = await hand.claim(10)

        await store.declare_lanes([Lane("main", per_user=1)])

        assert (await store.depths()).runs == {"running": 3, "pending": 3}
        assert (await hand.succeed(first, room=10)).claimed == []
        assert (await hand.succeed(second, room=10)).claimed == []
        assert ids((await hand.succeed(third, room=10)).claimed) == ["ann-00003"]

    async def test_a_cap_set_while_runs_are_waiting_holds_them(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "ann", user="ann"))

        await store.declare_lanes([Lane("main", per_user=1)])

        assert await start_order(hand) == [f"ann-{index:05d}" for index in range(4)]

    async def test_a_retry_of_a_user_at_the_cap_waits_and_then_goes_before_the_backlog(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(9, "ann", user="ann"))
        [failed] = await hand.claim(5)
        [running] = (await hand.fail(failed, room=5)).claimed
        await clock.advance(60)

        assert await hand.claim(5) == []
        reply = await hand.succeed(running, room=5)

        assert failed.id in [*ids(reply.claimed), *ids((await hand.succeed(*reply.claimed, room=5)).claimed)]

    async def test_the_slot_of_a_run_that_waits_for_its_retry_is_free(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=1, per_user=1)])
        await store.submit(new_runs(2, "ann", user="ann"))
        claimed = await hand.claim(5)

        reply = await hand.fail(*claimed, room=5)

        assert ids(reply.claimed) == ["ann-00001"]

    async def test_a_claim_that_moved_many_aside_says_more_and_the_next_finds_what_is_behind(
        self, store: Store
    ) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([*new_runs(1200, "ann", user="ann", priority=1), new_run("bob", user="bob")])
        claimed: list[str] = []
        more: list[bool] = []

        while not more or more[-1]:
            reply = await hand.step(room=10)
            claimed += ids(reply.claimed)
            more.append(reply.more)

        assert claimed == ["ann-00000", "bob"]
        assert more[0]
        assert len(more) <= 5
        await store.declare_lanes([Lane("main")])  # the others need not come one by one

    async def test_a_parked_run_is_not_in_the_ready_order(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(5, "ann", user="ann"))

        await hand.claim(5)

        [main] = [state for state in await store.lanes() if state.lane.name == "main"]
        assert (main.active, main.ready) == (1, 0)

    async def test_the_default_background_lane_runs_one_at_a_time_per_user(self, store: Store) -> None:
        hand = await Hand(store).register()
        users = ("ann", "bob", "cyd", "dan")
        await store.submit([new for user in users for new in new_runs(2, user, user=user, lane="background")])

        claimed = await hand.claim(10)

        assert [run.user for run in claimed] == ["ann", "bob", "cyd"]
