"""Turns: users of a lane take turns, priority is a head start, nobody starves."""

from __future__ import annotations

from collections import Counter

import pytest

from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids, start_order, widen

HEAD_START = 1000  # turns a step of priority is worth: a promise, so it is written here once more


class Turns(Part):
    """The order of one lane."""

    async def test_users_take_turns(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run(f"{user}{n}", user=user) for user in ("ann", "bob", "cyd") for n in range(3)])

        order = await start_order(hand)

        assert order == ["ann0", "bob0", "cyd0", "ann1", "bob1", "cyd1", "ann2", "bob2", "cyd2"]

    async def test_a_users_runs_start_in_the_order_they_became_startable(self, store: Store) -> None:
        hand = await Hand(store).register()
        for index in range(5):
            await store.submit([new_run(f"ann{index}", user="ann"), new_run(f"bob{index}", user="bob")])
            await hand.succeed(*await hand.claim(1))

        order = await start_order(hand)

        for user in ("ann", "bob"):
            mine = [run_id for run_id in order if run_id.startswith(user)]
            assert mine == sorted(mine)

    @pytest.mark.parametrize("started", [0, 1, 17])
    async def test_a_thousand_waiting_runs_delay_another_users_by_one_place(self, store: Store, started: int) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(1000, "ann", user="ann"))
        await hand.succeed(*await hand.claim(started))

        await store.submit([new_run("bob", user="bob")])

        assert "bob" in ids(await hand.claim(2))

    async def test_a_newcomer_waits_for_the_rest_of_a_round_and_one_more_at_most(self, store: Store) -> None:
        hand = await Hand(store).register()
        users = [f"user{index}" for index in range(10)]
        await store.submit([new for user in users for new in new_runs(50, user, user=user)])
        await hand.succeed(*await hand.claim(25))

        await store.submit([new_run("new", user="newcomer")])

        order = await start_order(hand)
        before = Counter(run_id.split("-")[0] for run_id in order[: order.index("new")])
        assert max(before.values()) <= 2

    async def test_runs_without_a_user_share_one_turn(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(50, "none"), new_run("ann", user="ann")])

        assert "ann" in ids(await hand.claim(2))

    async def test_a_user_whose_backlog_is_done_starts_afresh(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(60, "ann", user="ann"), new_run("bob", user="bob")])
        await start_order(hand)

        await store.submit([new_run("bob-2", user="bob"), new_run("ann-2", user="ann"), new_run("bob-3", user="bob")])

        assert await start_order(hand) == ["bob-2", "ann-2", "bob-3"]

    async def test_a_retry_does_not_go_behind_its_users_backlog(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(300, "ann", user="ann"), *new_runs(300, "bob", user="bob")])
        [first, *_] = await hand.claim(4)

        await hand.fail(first)
        await clock.advance(60)

        assert first.id in ids(await hand.claim(2))

    async def test_a_released_run_is_the_next_of_its_user(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(100, "ann", user="ann"))
        claimed = await hand.claim(3)

        await hand.release(*claimed)

        assert ids(await hand.claim(3)) == ids(claimed)

    async def test_a_users_own_urgent_run_goes_first(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(20, "ann", user="ann"), new_run("urgent", user="ann", priority=1)])

        assert ids(await hand.claim(1)) == ["urgent"]

    async def test_a_step_of_priority_is_a_head_start_of_a_thousand_turns(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit([new_run("bob", user="bob"), *new_runs(1300, "ann", user="ann", priority=1)])

        order = ids(await hand.claim(1301))

        assert order.index("bob") == HEAD_START

    async def test_a_low_priority_run_starts_before_a_flood_is_over(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit([*new_runs(1300, "ann", user="ann"), new_run("low", user="bob", priority=-1)])

        order = ids(await hand.claim(1301))

        assert order.index("low") <= HEAD_START + 1

    async def test_the_head_start_is_counted_in_turns_not_in_runs(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        flood = [new for user in ("ann", "bob") for new in new_runs(1100, user, user=user)]
        await store.submit([*flood, new_run("low", user="dan", priority=-1)])

        order = ids(await hand.claim(2201))

        assert 2 * (HEAD_START - 1) <= order.index("low") <= 2 * (HEAD_START + 1)

    async def test_a_burst_at_one_priority_does_not_punish_newcomers_at_another(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit(new_runs(600, "burst", user="ann", priority=5))
        await hand.succeed(*await hand.claim(600))

        await store.submit(new_runs(3, "bob", user="bob"))
        await store.submit(new_runs(3, "cyd", user="cyd", priority=5))
        await store.submit(new_runs(3, "dan", user="dan"))

        order = [run_id.split("-")[0] for run_id in await start_order(hand)]
        assert order == ["cyd", "cyd", "cyd", "bob", "dan", "bob", "dan", "bob", "dan"]

    async def test_a_priority_that_stood_empty_starts_where_the_others_are(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit(new_runs(700, "ann", user="ann"))
        await hand.succeed(*await hand.claim(600))

        await store.submit(new_runs(1200, "bob", user="bob", priority=1))

        order = ids(await hand.claim(1300))
        assert order.index("ann-00600") == HEAD_START

    async def test_a_priority_that_stood_empty_gets_no_shorter_way_than_its_head_start(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit(new_runs(600, "ann", user="ann", priority=1))
        await hand.succeed(*await hand.claim(600))

        await store.submit([new_run("low", user="bob"), *new_runs(1200, "cyd", user="cyd", priority=1)])

        order = ids(await hand.claim(1201))
        assert order.index("low") == HEAD_START

    async def test_of_several_priorities_the_one_that_has_come_least_far_is_joined(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit([new_run("zero", user="ann"), *new_runs(1700, "bob", user="bob", priority=2)])
        await hand.succeed(*await hand.claim(500))

        await store.submit([new_run("new", user="cyd", priority=1)])

        order = ids(await hand.claim(1100))
        assert order.index("new") == HEAD_START - 500 + 1

    async def test_priorities_from_lowest_to_highest_are_ordered(self, store: Store) -> None:
        hand = await Hand(store).register()
        levels = [0, -100, 7, 100, -1]

        await store.submit([new_run(f"p{level}", user="ann", priority=level) for level in levels])

        assert await start_order(hand) == ["p100", "p7", "p0", "p-1", "p-100"]
