"""Claiming ahead: a store may make the next step of an idle worker for it; only the time it takes shows that.

A store need not do this. The tests state what holds in either case: the worker, once woken, makes the step that it has
offered, and receives what it would have received.
"""

from __future__ import annotations

import asyncio

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.liveness import LEASE
from laneway.core.records.policy import Lane
from laneway.core.records.states import RunState
from laneway.errors import LeaseLost
from laneway.ports.moves import Reopen, Shut
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids, kinds, states
from tests.contract.suite.workers.wakeups import idle


async def lending(store: Store, name: str = "lender", room: int = 1, tasks: tuple[str, ...] = ("work",)) -> Hand:
    """Return a worker that has nothing to do, rests and lends its next step."""
    hand = await Hand(store, name, tasks=tasks).register()
    assert (await hand.offer_step(room)).claimed == []
    return hand


class TestClaimAhead(Part):
    """`lends` of a step."""

    async def test_a_lender_is_woken_and_has_its_run_once(self, store: Store) -> None:
        hand, other = await lending(store), await Hand(store, "other").register()

        await store.submit([new_run("a")])

        assert await hand.hears()
        [claimed] = await hand.claim()
        assert (await hand.repeat_last()).claimed == [claimed]
        assert (claimed.id, claimed.fence, claimed.attempt) == ("a", 1, 1)
        assert await other.claim() == []
        assert await kinds(store, "a") == ["started"]

    async def test_what_a_lender_got_is_settled_by_its_next_step(self, store: Store) -> None:
        hand = await lending(store)
        await store.submit([new_run("a")])

        reply = await hand.succeed(*await hand.claim(), value=7)

        assert reply.refused == []
        assert (await store.get("a")).result == 7

    async def test_a_lender_that_steps_at_the_same_moment_has_the_same(self, store: Store) -> None:
        hand = await lending(store, room=3)

        _, claimed = await asyncio.gather(store.submit([new_run("a")]), hand.claim(3))

        again = (await hand.repeat_last()).claimed
        assert again == claimed
        assert ids([*claimed, *await hand.claim(3)]) == ["a"]

    async def test_a_repeat_of_the_step_before_is_answered_as_that_was(self, store: Store) -> None:
        hand = await lending(store)
        await store.submit([new_run("a")])

        again = await hand.repeat_last()

        assert (again.claimed, again.refused, again.more) == ([], [], False)
        assert ids(await hand.claim()) == ["a"]

    async def test_a_repeat_of_the_step_before_knows_nothing_of_more(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", per_user=1)])
        hand = await lending(store, room=10)
        await store.submit([*new_runs(990, "ann", user="ann", priority=1), new_run("bob", user="bob")])

        before = await hand.repeat_last()

        assert (before.claimed, before.refused, before.more) == ([], [], False)
        given = await hand.step(room=10, park=True)
        assert (ids(given.claimed), given.more) == (["ann-00000"], True)
        await store.declare_lanes([Lane("main")])  # the others need not come one by one

    async def test_a_lender_that_wants_nothing_gives_back_what_it_was_given(self, store: Store) -> None:
        hand, other = await lending(store), await Hand(store, "other").register()
        await store.submit([new_run("a")])

        given = (await hand.step(room=0)).claimed
        await hand.release(*given)

        [claimed] = await other.claim()
        assert (claimed.id, claimed.attempt, claimed.crashes) == ("a", 1, 0)

    async def test_results_come_in_the_step_after_the_one_that_was_lent(self, store: Store) -> None:
        dead, hand = await Hand(store, "dead").register(), await Hand(store, "heir").register()
        await store.submit([new_run("a")])
        await dead.claim()
        await hand.offer_step()
        [lapsed] = (await hand.reclaim("dead")).lapsed
        await store.submit([new_run("b")])

        claimed = await hand.claim()
        reply = await hand.step(results=[hand.result(lapsed, Succeeded("1"))])

        assert ids(claimed) == ["b"]
        assert reply.refused == []
        assert await states(store, "a", "b") == [RunState.SUCCEEDED, RunState.RUNNING]

    async def test_a_lender_gets_no_more_than_it_has_room_for(self, store: Store) -> None:
        hand, other = await lending(store, room=3), await Hand(store, "other").register()

        await store.submit(new_runs(5, "r"))

        assert len(await hand.claim(3)) == 3
        assert len(await other.claim(9)) == 2

    async def test_a_lender_gets_no_more_than_the_lane_lets_start(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=2)])
        hand, other = await lending(store, room=9), await lending(store, "other", room=9)

        await store.submit(new_runs(5, "r"))

        assert len([*await hand.claim(9), *await other.claim(9)]) == 2

    async def test_lenders_share_what_one_of_them_has_no_room_for(self, store: Store) -> None:
        hands = [await lending(store, f"w{index}") for index in range(3)]

        await store.submit(new_runs(2, "r"))

        claimed = [run for hand in hands for run in await hand.claim()]
        assert sorted(ids(claimed)) == ["r-00000", "r-00001"]

    async def test_a_limit_per_worker_holds_for_lenders(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=9, worker_limit=1)])
        one, two = await lending(store, "one", room=5), await lending(store, "two", room=5)

        await store.submit(new_runs(3, "r"))

        assert [len(await one.claim(5)), len(await two.claim(5))] == [1, 1]

    async def test_a_lender_that_knows_no_such_task_gets_nothing(self, store: Store) -> None:
        hand = await lending(store, tasks=("other",))

        await store.submit([new_run("a")])

        assert await hand.claim() == []
        assert await states(store, "a") == [RunState.PENDING]

    async def test_a_lender_is_told_of_an_earlier_due_time(self, store: Store, clock: FakeClock) -> None:
        hand = await lending(store)

        await store.submit([new_run("a", delay=3)])

        assert await hand.hears()
        reply = await hand.step(room=1, park=True)
        assert (reply.claimed, reply.due_in) == ([], 3 * SECOND)
        await clock.advance(3)
        assert ids(await hand.claim()) == ["a"]

    async def test_who_ends_a_run_lets_a_lender_start_the_next(self, store: Store) -> None:
        busy, hand = await Hand(store, "busy").register(), await Hand(store, "lender").register()
        await store.submit([new_run("a", session="s"), new_run("b", session="s")])
        claimed = await busy.claim()
        await hand.offer_step()

        await busy.succeed(*claimed)

        assert await hand.hears()
        assert ids(await hand.claim()) == ["b"]

    async def test_a_lender_that_was_given_something_is_woken_for_more_and_gets_it(self, store: Store) -> None:
        hand = await lending(store, room=2)
        await store.submit([new_run("a")])
        await store.submit([new_run("b")])

        first = await hand.step(room=2, park=True)
        second = await hand.step(room=2 - len(first.claimed))

        assert ids([*first.claimed, *second.claimed]) == ["a", "b"]

    async def test_one_that_was_given_runs_lends_no_more(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        [claimed] = (await hand.offer_step(room=2)).claimed
        await store.submit([new_run("b")])

        await hand.succeed(claimed)

        assert await states(store, "a", "b") == [RunState.SUCCEEDED, RunState.PENDING]

    async def test_a_step_that_rests_no_more_lends_no_more(self, store: Store) -> None:
        hand = await lending(store)
        await hand.step()

        await store.submit([new_run("a")])

        assert await idle(store) == []
        assert await states(store, "a") == [RunState.PENDING]

    async def test_a_lender_that_has_lapsed_is_given_nothing(self, store: Store, clock: FakeClock) -> None:
        other = await Hand(store, "other").register()
        await lending(store, "frozen")
        for _ in range(4):
            await clock.advance(LEASE / SECOND / 3)
            other.renew()

        await store.submit([new_run("a")])

        assert ids(await other.claim()) == ["a"]

    async def test_what_a_dead_lender_was_given_is_taken_over(self, store: Store) -> None:
        await lending(store, "dead")
        other = await Hand(store, "other").register()
        await store.submit([new_run("a")])

        await other.lapse(*(await other.reclaim("dead")).lapsed)

        assert ids(await other.claim()) == ["a"]

    async def test_a_lender_that_is_gone_hears_that_its_leases_are_lost(self, store: Store) -> None:
        hand, other = await lending(store, "dead"), await Hand(store, "other").register()
        await store.submit([new_run("a")])
        await other.lapse(*(await other.reclaim("dead")).lapsed)

        with pytest.raises(LeaseLost):
            await hand.claim()

    async def test_a_lender_that_has_left_is_given_nothing(self, store: Store) -> None:
        hand = await lending(store)
        await hand.leave()

        await store.submit([new_run("a")])

        assert await states(store, "a") == [RunState.PENDING]

    async def test_a_lender_of_a_store_that_is_shut_is_given_nothing(self, store: Store) -> None:
        busy, hand = await Hand(store, "busy").register(), await Hand(store, "lender").register()
        await store.submit([new_run("a", session="s"), new_run("b", session="s")])
        claimed = await busy.claim()
        await hand.offer_step()
        await store.move(Shut("move", "elsewhere"))

        await busy.succeed(*claimed)

        assert (await hand.claim()) == []
        assert await states(store, "b") == [RunState.PENDING]
        await store.move(Reopen("move"))
