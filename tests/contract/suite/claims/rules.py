"""Rules: what is declared, what an operator sets, and which of them holds."""

from __future__ import annotations

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.states import RunState
from laneway.errors import UnknownLane
from laneway.ports.gates import Held
from laneway.ports.lanes import LaneState
from laneway.ports.settings import Hold, LaneSetting, LaneUnset, UserCap
from laneway.ports.store import Store
from laneway.ports.users import UserState
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.claims.lanes import lane
from tests.contract.suite.frame import Part, ids, start_order
from tests.contract.suite.workers.wakeups import resting, woken

DECLARED, SET = Lane("main", limit=7), Lane("main", limit=3, per_user=2)


class TestLaneRules(Part):
    """`declare_lanes`, `set_lane`, `unset_lane`."""

    async def test_what_an_operator_set_wins_and_is_kept_apart(self, store: Store) -> None:
        await store.set(LaneSetting(SET))

        await store.declare_lanes([DECLARED])

        assert await lane(store, "main") == LaneState(SET, 0, 0, ruled=True, declared=DECLARED)

    async def test_what_is_declared_holds_again_once_it_is_unset(self, store: Store) -> None:
        await store.declare_lanes([DECLARED])
        await store.set(LaneSetting(SET))

        await store.set(LaneUnset("main"))

        assert await lane(store, "main") == LaneState(DECLARED, 0, 0, declared=DECLARED)
        await store.set(LaneUnset("main"))
        assert await lane(store, "main") == LaneState(DECLARED, 0, 0, declared=DECLARED)

    async def test_the_last_setting_holds(self, store: Store) -> None:
        await store.set(LaneSetting(SET))
        await store.set(LaneSetting(Lane("main", limit=4)))

        state = await lane(store, "main")
        assert (state.lane, state.ruled) == (Lane("main", limit=4), True)

    async def test_the_last_of_several_declarations_holds(self, store: Store) -> None:
        await store.declare_lanes([DECLARED])

        await store.declare_lanes([DECLARED, Lane("main", limit=8), DECLARED])

        assert (await lane(store, "main")).lane == DECLARED

    async def test_an_operator_can_create_a_lane(self, store: Store) -> None:
        hand = await Hand(store).register()

        await store.set(LaneSetting(Lane("fast", limit=1)))
        receipts = await store.submit(new_runs(2, "r", lane="fast"))

        assert [receipt.reason for receipt in receipts] == [None, None]
        assert len(await hand.claim(5)) == 1

    async def test_a_lane_that_nobody_knows_is_refused(self, store: Store) -> None:
        with pytest.raises(UnknownLane):
            await store.set(LaneUnset("mian"))
        with pytest.raises(UnknownLane):
            await store.set(Hold(Held.LANE, "mian", held=True))
        with pytest.raises(UnknownLane):
            await store.set(UserCap("ann", "mian", 1))

        assert "mian" not in [state.lane.name for state in await store.lanes()]
        assert await store.users() == []

    async def test_a_limit_an_operator_raises_takes_effect_at_once_and_wakes(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=1)])
        await store.submit(new_runs(3, "r"))
        await hand.claim(1)
        rester = await resting(store)

        await store.set(LaneSetting(Lane("main", limit=2)))

        assert await woken(store, rester) == [rester]
        assert ids(await rester.claim(5)) == ["r-00001"]

    async def test_a_limit_an_operator_lowers_stops_nothing(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "r"))
        first, second = await hand.claim(2)

        await store.set(LaneSetting(Lane("main", limit=1)))

        assert (await store.depths()).runs == {"running": 2, "pending": 2}
        assert (await hand.succeed(first, room=5)).claimed == []
        assert ids((await hand.succeed(second, room=5)).claimed) == ["r-00002"]

    async def test_unsetting_a_cap_brings_the_parked_back(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.set(LaneSetting(Lane("main", per_user=1)))
        await store.submit(new_runs(3, "ann", user="ann"))
        assert len(await hand.claim(5)) == 1

        await store.set(LaneUnset("main"))

        assert ids(await hand.claim(5)) == ["ann-00001", "ann-00002"]

    async def test_a_paused_lane_stays_paused_whatever_is_declared_or_set(self, store: Store) -> None:
        await store.set(Hold(Held.LANE, "main", held=True))

        await store.declare_lanes([DECLARED])
        await store.set(LaneSetting(SET))
        await store.set(LaneUnset("main"))

        assert (await lane(store, "main")).paused


class TestUserCaps(Part):
    """`UserStore`."""

    async def test_a_users_own_cap_holds_in_its_lane_only(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1), Lane("team", per_user=1)])
        await store.set(UserCap("ann", "main", 2))
        await store.submit([new for name in ("main", "team") for new in new_runs(3, name, user="ann", lane=name)])
        await store.submit(new_runs(3, "bob", user="bob"))

        claimed = await hand.claim(20)

        assert sorted(ids(claimed)) == ["bob-00000", "main-00000", "main-00001", "team-00000"]

    async def test_a_raised_cap_takes_effect_at_once_and_wakes(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(4, "ann", user="ann"))
        await hand.claim(9)
        rester = await resting(store)

        await store.set(UserCap("ann", "main", 3))

        assert await woken(store, rester) == [rester]
        assert ids(await rester.claim(9)) == ["ann-00001", "ann-00002"]

    async def test_a_users_lowered_cap_stops_nothing_and_holds_new_starts(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "ann", user="ann"))
        first, second = await hand.claim(2)

        await store.set(UserCap("ann", "main", 1))

        assert (await store.depths()).runs == {"running": 2, "pending": 2}
        assert (await hand.succeed(first, room=9)).claimed == []
        assert ids((await hand.succeed(second, room=9)).claimed) == ["ann-00002"]

    async def test_a_cap_taken_back_lets_the_lanes_hold_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=2)])
        await store.set(UserCap("ann", "main", 1))
        await store.submit(new_runs(4, "ann", user="ann"))
        assert len(await hand.claim(9)) == 1

        await store.set(UserCap("ann", "main", None))

        assert ids(await hand.claim(9)) == ["ann-00001"]
        [user] = await store.users(user="ann")
        assert user == UserState(user="ann", lane="main", active=2, waiting=2)

    async def test_a_cap_above_the_lanes_wins_too(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.set(UserCap("ann", "main", 3))
        await store.submit(new_runs(4, "ann", user="ann"))

        assert len(await hand.claim(9)) == 3
        await store.declare_lanes([Lane("main", per_user=2)])
        assert await hand.claim(9) == []

    async def test_users_are_listed_by_name_and_lane_page_by_page(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", user="ann"), new_run("b", user="ann"), new_run("t", user="ann", lane="team")])
        await store.submit([new_run("c", user="bob"), new_run("nobody")])
        await store.set(UserCap("cyd", "team", 4))
        await store.set(Hold(Held.USER, "dan", held=True))
        await hand.claim(1)

        users = await store.users()

        assert [(user.user, user.lane) for user in users] == [
            ("ann", "main"),
            ("ann", "team"),
            ("bob", "main"),
            ("cyd", "team"),
            ("dan", ""),
        ]
        assert sum(user.active for user in users) + sum(user.waiting for user in users) == 4
        assert users[3] == UserState(user="cyd", lane="team", cap=4)
        assert users[4] == UserState(user="dan", lane="", paused=True)
        paged = []
        after = ("", "")
        while page := await store.users(limit=2, after=after):
            paged += page
            after = (page[-1].user, page[-1].lane)
        assert paged == users
        assert await store.users(user="ann") == users[:2]

    async def test_a_user_nothing_is_set_of_and_nothing_waits_for_is_not_kept(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", user="ann")])
        await store.set(UserCap("bob", "main", 3))
        await store.set(UserCap("bob", "main", None))

        await start_order(hand)

        assert await store.users() == []


class TestWorkerLimits(Part):
    """`Lane.worker_limit`."""

    async def test_a_worker_takes_no_more_of_a_lane_than_its_limit(self, store: Store) -> None:
        one, two = await Hand(store, "one").register(), await Hand(store, "two").register()
        await store.declare_lanes([Lane("main", worker_limit=2)])
        await store.submit([*new_runs(5, "r"), *new_runs(3, "t", lane="team")])

        mine = await one.claim(9)
        assert sorted(ids(mine)) == ["r-00000", "r-00001", "t-00000", "t-00001", "t-00002"]
        assert await one.claim(9) == []
        assert ids(await two.claim(9)) == ["r-00002", "r-00003"]

        ended = next(run for run in mine if run.lane == "main")
        assert ids((await one.succeed(ended, room=9)).claimed) == ["r-00004"]

    async def test_a_raised_limit_takes_effect_at_once_and_wakes(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", worker_limit=1)])
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r"))
        assert len((await hand.rest(5)).claimed) == 1

        await store.declare_lanes([Lane("main", worker_limit=2)])

        assert await woken(store, hand) == [hand]
        assert ids(await hand.claim(5)) == ["r-00001"]

    async def test_a_lowered_limit_stops_nothing(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "r"))
        first, second = await hand.claim(2)

        await store.declare_lanes([Lane("main", worker_limit=1)])

        assert (await hand.succeed(first, room=9)).claimed == []
        assert ids((await hand.succeed(second, room=9)).claimed) == ["r-00002"]

    async def test_what_it_took_over_from_the_dead_does_not_count(self, store: Store) -> None:
        dead, heir = await Hand(store, "dead").register(), await Hand(store, "heir").register()
        await store.declare_lanes([Lane("main", worker_limit=1)])
        await store.submit(new_runs(2, "r"))
        await dead.claim(1)
        await dead.leave()
        await heir.reclaim()

        assert ids(await heir.claim(5)) == ["r-00001"]

    async def test_a_worker_at_its_limit_is_not_woken_for_the_lane(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", worker_limit=1)])
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await hand.rest(5)
        before = hand.woken

        await store.submit([new_run("b")])

        assert await woken(store, hand) == []
        assert hand.woken == before

    async def test_nor_for_what_others_set_aside_there(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", worker_limit=1)])
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        other = await Hand(store, "other").register()
        await store.submit(new_runs(2, "m", task="mail"))
        [running] = await mailer.claim(1)
        assert await other.claim(5) == []

        assert (await mailer.rest(5)).claimed == []

        assert await woken(store, mailer) == []
        assert ids((await mailer.succeed(running, room=5)).claimed) == ["m-00001"]
        assert (await store.get("m-00000")).state is RunState.SUCCEEDED
