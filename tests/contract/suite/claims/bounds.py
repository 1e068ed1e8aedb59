"""Bounds: how many runs of a lane may be pending, and what a submission gets when so many are."""

from __future__ import annotations

import pytest

from laneway.core.lifecycle.outcome import Cancelled, Succeeded
from laneway.core.queue.claim import MOST_MOVES
from laneway.core.records.policy import Lane, Mode, SessionPolicy, WhenFull
from laneway.core.records.run import Receipt, ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.ports.control import Pause
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.claims.lanes import lane
from tests.contract.suite.frame import Part, counts, ids, kinds, reason, start_order, states
from tests.support.sessions import session_of

ACCEPTED, REFUSED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.REFUSED


async def bound(store: Store, most: int, when_full: WhenFull) -> None:
    """Bound the lane main."""
    await store.declare_lanes([Lane("main", max_pending=most, when_full=when_full)])


class TestBounds(Part):
    """`Lane.max_pending`."""

    async def test_a_full_lane_that_refuses_makes_no_run_and_counts_it(self, store: Store) -> None:
        await bound(store, 2, WhenFull.REFUSE)

        receipts = await store.submit(new_runs(4, "r"))

        assert [receipt.outcome for receipt in receipts] == [ACCEPTED, ACCEPTED, REFUSED, REFUSED]
        assert receipts[2] == Receipt(REFUSED, "r-00002", "lane_full")
        assert (await store.depths()).runs == {"pending": 2}
        assert await counts(store) == {"refused lane_full": 2}
        assert (await lane(store, "main")).pending == 2

    async def test_a_full_lane_that_lets_wait_says_so_and_counts_nothing(self, store: Store) -> None:
        hand = await Hand(store).register()
        await bound(store, 1, WhenFull.WAIT)
        _, waits = await store.submit(new_runs(2, "r"))
        assert waits == Receipt(REFUSED, "r-00001", "lane_wait")
        assert await counts(store) == {}

        await hand.claim(1)
        [again] = await store.submit([new_run("r-00001")])

        assert again == Receipt(ACCEPTED, "r-00001")
        assert (await store.depths()).runs == {"running": 1, "pending": 1}

    async def test_a_full_lane_that_drops_drops_the_run_accepted_first(self, store: Store) -> None:
        hand = await Hand(store).register()
        await bound(store, 2, WhenFull.DROP_OLD)
        await store.submit([new_run("a", priority=9), new_run("b")])

        [receipt] = await store.submit([new_run("c")])

        assert receipt == Receipt(ACCEPTED, "c", position=1)
        assert await states(store, "a", "b", "c") == [RunState.DROPPED, RunState.PENDING, RunState.PENDING]
        assert await reason(store, "a") == "lane_full"
        dropped, done = await store.events("a")
        assert (dropped.kind, dropped.data) == ("dropped", {"reason": "lane_full"})
        assert (done.kind, done.data) == ("done", {"state": "dropped"})
        assert await counts(store) == {"dropped lane_full": 1}
        assert await start_order(hand) == ["b", "c"]

    async def test_what_is_dropped_may_be_a_run_of_the_future_or_one_a_session_holds(self, store: Store) -> None:
        await bound(store, 3, WhenFull.DROP_OLD)
        await store.submit([new_run("later", delay=60), *new_runs(2, "s", session="chat")])

        await store.submit([new_run("a"), new_run("b")])

        assert await states(store, "later", "s-00000", "s-00001") == [
            RunState.DROPPED,
            RunState.DROPPED,
            RunState.PENDING,
        ]
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.active, state.queued) == (0, 1)

    async def test_with_nothing_to_drop_the_new_one_is_refused(self, store: Store) -> None:
        hand = await Hand(store).register()
        await bound(store, 1, WhenFull.DROP_OLD)
        await store.submit([new_run("a")])
        await hand.fail(*await hand.claim(1))

        [receipt] = await store.submit([new_run("b")])

        assert receipt == Receipt(REFUSED, "b", "lane_full")
        assert await states(store, "a") == [RunState.PENDING]
        assert await counts(store) == {"refused lane_full": 1}

    async def test_a_bound_lowered_below_what_waits_makes_way_for_one_more(self, store: Store) -> None:
        await store.submit(new_runs(5, "r"))

        await bound(store, 2, WhenFull.DROP_OLD)
        await store.submit([new_run("new")])

        assert (await store.depths()).runs == {"dropped": 4, "pending": 2}
        assert await states(store, "r-00004", "new") == [RunState.PENDING, RunState.PENDING]

    async def test_a_bound_lowered_far_below_what_waits_is_reached_step_by_step(self, store: Store) -> None:
        await store.submit(new_runs(MOST_MOVES + 100, "r"))

        await bound(store, 2, WhenFull.DROP_OLD)
        await store.submit([new_run("a")])
        assert (await store.depths()).runs == {"dropped": MOST_MOVES, "pending": 101}
        await store.submit([new_run("b")])

        assert (await store.depths()).runs == {"dropped": MOST_MOVES + 100, "pending": 2}
        assert await states(store, "a", "b") == [RunState.PENDING, RunState.PENDING]

    @pytest.mark.parametrize("when_full", [WhenFull.REFUSE, WhenFull.WAIT])
    @pytest.mark.parametrize("policy", [SessionPolicy(mode=Mode.INTERRUPT), SessionPolicy(cap=2)])
    async def test_who_displaces_others_takes_their_room(
        self, store: Store, when_full: WhenFull, policy: SessionPolicy
    ) -> None:
        hand = await Hand(store).register()
        await bound(store, 2, when_full)
        await store.submit([new_run("a", session="chat")])
        [active] = await hand.claim(1)
        await store.submit([new_run("b", session="chat"), new_run("c", session="chat")])

        [receipt] = await store.submit([new_run("d", session="chat", policy=policy)])

        assert receipt.outcome is ACCEPTED
        assert await states(store, "b", "d") == [RunState.DROPPED, RunState.PENDING]
        await hand.settle([active], Cancelled() if policy.mode is Mode.INTERRUPT else Succeeded("1"))

    async def test_who_displaces_a_run_of_another_lane_does_not(self, store: Store) -> None:
        await bound(store, 1, WhenFull.REFUSE)
        await store.submit([new_run("a"), new_run("b", session="chat", lane="team")])

        [receipt] = await store.submit([new_run("c", session="chat", policy=SessionPolicy(mode=Mode.INTERRUPT))])

        assert receipt == Receipt(REFUSED, "c", "lane_full")
        assert await states(store, "b") == [RunState.PENDING]

    @pytest.mark.parametrize("when_full", WhenFull)
    async def test_what_the_engine_makes_passes(self, store: Store, when_full: WhenFull) -> None:
        await bound(store, 1, when_full)
        await store.submit([new_run("a")])

        receipts = await store.submit([new_run("b", inside=True), new_run("c", inside=True, session="chat")])

        assert [receipt.outcome for receipt in receipts] == [ACCEPTED, ACCEPTED]
        assert (await store.depths()).runs == {"pending": 3}
        assert await counts(store) == {}

    @pytest.mark.parametrize("when_full", WhenFull)
    async def test_what_comes_back_passes(self, store: Store, clock: FakeClock, when_full: WhenFull) -> None:
        hand = await Hand(store).register()
        await bound(store, 2, when_full)
        await store.submit(new_runs(2, "r"))
        retried, released = await hand.claim(2)
        await store.submit(new_runs(2, "s"))

        await hand.fail(retried)
        await hand.release(released)

        assert (await lane(store, "main")).pending == 4
        await clock.advance(60)
        assert len(await start_order(hand)) == 4

    @pytest.mark.parametrize("when_full", WhenFull)
    async def test_only_pending_runs_count_wherever_they_wait(self, store: Store, when_full: WhenFull) -> None:
        hand = await Hand(store).register()
        await bound(store, 5, when_full)
        await store.submit([new_run("running"), new_run("paused")])
        await hand.claim(1)
        await store.change_run("call", "paused", Pause())

        await store.submit(
            [
                new_run("later", delay=60),
                *new_runs(2, "s", session="chat"),
                new_run("a"),
                new_run("elsewhere", lane="team"),
            ]
        )
        [last] = await store.submit([new_run("b")])

        assert last == Receipt(ACCEPTED, "b", position=4)
        assert (await lane(store, "main")).pending == 5
        if when_full is WhenFull.REFUSE:
            assert (await store.submit([new_run("c")]))[0].outcome is REFUSED

    async def test_a_message_that_another_run_takes_needs_no_room(self, store: Store) -> None:
        await bound(store, 1, WhenFull.REFUSE)
        policy = SessionPolicy(mode=Mode.COLLECT)
        await store.submit([new_run("a", session="chat")])

        [merged] = await store.submit([new_run("b", session="chat", policy=policy)])

        assert merged == Receipt(ReceiptOutcome.MERGED, "a")
        assert await counts(store) == {"merged": 1}

    async def test_a_message_that_is_refused_displaces_nobody_and_gives_no_rule(self, store: Store) -> None:
        hand = await Hand(store).register()
        await bound(store, 2, WhenFull.REFUSE)
        await store.submit(new_runs(2, "s", session="chat"))
        claimed = await hand.claim(1)
        await store.submit([new_run("t", session="chat"), *new_runs(2, "other", inside=True, delay=60)])

        policy = SessionPolicy(mode=Mode.INTERRUPT, max_concurrent=5, cap=1)
        [refused] = await store.submit([new_run("x", session="chat", policy=policy)])

        assert refused == Receipt(REFUSED, "x", "lane_full")
        assert await states(store, "s-00000", "s-00001", "t") == [RunState.RUNNING, RunState.PENDING, RunState.PENDING]
        assert (await store.get("s-00000")).request is None
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.rule.max_concurrent, state.rule.cap) == (1, 1000)
        assert ids((await hand.succeed(*claimed, room=5)).claimed) == ["s-00001"]

    async def test_a_refused_message_leaves_no_session_behind(self, store: Store) -> None:
        await bound(store, 1, WhenFull.REFUSE)
        await store.submit([new_run("a")])

        await store.submit([new_run("b", session="chat")])

        assert await session_of(store, "chat") is None

    async def test_a_position_is_how_many_wait_in_the_lane(self, store: Store) -> None:
        hand = await Hand(store).register()
        receipts = await store.submit([*new_runs(3, "r"), new_run("later", delay=5), new_run("t", lane="team")])
        assert [receipt.position for receipt in receipts] == [None, 1, 2, None, None]

        await hand.claim(2)
        [receipt] = await store.submit([new_run("last")])

        assert (await lane(store, "main")).pending in (3, 4)
        assert receipt.position == (await lane(store, "main")).pending - 1
        assert (await store.submit([new_run("last")]))[0].position is None
        assert await kinds(store, "last") == []
