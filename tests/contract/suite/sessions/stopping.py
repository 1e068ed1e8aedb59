"""Stopping a session: its oldest run, or all of it."""

from __future__ import annotations

import pytest

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.records.policy import Mode, SessionPolicy
from laneway.core.records.run import Receipt, ReceiptOutcome, Request
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause
from laneway.ports.sessions import Extent
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.claims.lanes import lane
from tests.contract.suite.frame import Part, counts, ids, kinds, reason, start_order, states
from tests.support.sessions import session_of

P, R, D, C = RunState.PENDING, RunState.RUNNING, RunState.DROPPED, RunState.CANCELLED


class TestStopping(Part):
    """`SessionStore.stop` and `stop_all`."""

    async def test_stop_cancels_the_oldest_active_run_and_leaves_the_rest(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat", max_concurrent=2))
        first, second = await hand.claim(9)

        assert await store.stop("c1", "chat", Extent.OLDEST) == Stopped(("s-00000",))

        assert (await store.get("s-00000")).request is Request.CANCEL
        assert (await kinds(store, "s-00000"))[-1] == "cancel_requested"
        assert (await store.get("s-00001")).request is None
        assert await states(store, "s-00002", "s-00003") == [P, P]
        assert await store.stop("c2", "chat", Extent.OLDEST) == Stopped(("s-00001",))
        assert await store.stop("c3", "chat", Extent.OLDEST) == Stopped()
        assert ids((await hand.stop(first, second, room=9)).claimed) == ["s-00002", "s-00003"]

    async def test_stop_of_a_session_that_only_waits_does_nothing(self, store: Store) -> None:
        await store.submit([*new_runs(2, "s", session="chat"), new_run("later", session="chat", delay=5)])

        assert await store.stop("c1", "chat", Extent.OLDEST) == Stopped()
        assert await store.stop("c2", "nobody", Extent.OLDEST) == Stopped()
        assert await store.stop("c3", "nobody", Extent.ALL) == Stopped()

        assert (await store.depths()).runs == {"pending": 3}
        assert await session_of(store, "nobody") is None

    async def test_stop_ends_a_run_between_attempts_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))
        await hand.fail(*await hand.claim(1))

        assert await store.stop("c1", "chat", Extent.OLDEST) == Stopped(("s-00000",))

        assert await states(store, "s-00000") == [C]
        assert ids(await hand.claim(9)) == ["s-00001"]

    async def test_stop_all_cancels_what_is_active_and_drops_what_was_never_started(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat", max_concurrent=2))
        await store.submit([new_run("later", session="chat", delay=60)])
        first, second = await hand.claim(9)

        stopped = await store.stop("c1", "chat", Extent.ALL)

        assert stopped == Stopped(("s-00000", "s-00001"), ("s-00002", "s-00003", "later"))
        assert await states(store, "s-00000", "s-00002", "s-00003", "later") == [R, D, D, D]
        assert {await reason(store, name) for name in stopped.dropped} == {"stopped"}
        assert (await store.events("later"))[0].data == {"reason": "stopped"}
        assert await kinds(store, "s-00002") == ["dropped", "done"]
        assert await counts(store) == {"dropped stopped": 3}
        assert (await lane(store, "main")).pending == 0
        await hand.stop(first, second)
        assert await states(store, "s-00000", "s-00001") == [C, C]
        assert await session_of(store, "chat") is None

    async def test_nothing_accepted_before_it_ever_starts_and_what_comes_after_it_waits_its_turn(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("running", session="chat"), new_run("future", session="chat", delay=5)])
        await store.submit([new_run("window", session="chat", policy=SessionPolicy(debounce=2))])
        claimed = await hand.claim(1)
        await store.submit([new_run("paused", session="chat", user="ann")])
        await store.change_run("c0", "paused", Pause())
        await store.submit([new_run("unjoined", session="chat", delay=3, user="ann")])
        await store.change_run("c1", "unjoined", Pause())

        await store.stop("c2", "chat", Extent.ALL)
        await store.submit([new_run("after", session="chat")])

        assert await states(store, "future", "window", "paused", "unjoined") == [D] * 4
        assert await hand.claim(9) == []
        await clock.advance(60)
        assert ids((await hand.stop(*claimed, room=9)).claimed) == ["after"]

    async def test_another_session_and_runs_of_none_are_not_touched(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat"), new_run("b", session="talk"), new_run("c", session="talk")])
        await store.submit([new_run("d"), new_run("e", session="talk", delay=5)])
        await hand.claim(2)

        await store.stop("c1", "chat", Extent.ABANDON)

        assert await states(store, "a", "b", "c", "d", "e") == [C, R, P, P, P]
        assert (await store.get("b")).request is None

    @pytest.mark.parametrize("extent", Extent)
    async def test_the_same_call_again_changes_nothing_and_says_the_same(self, store: Store, extent: Extent) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat"))
        [claimed] = await hand.claim(9)

        first = await store.stop("c1", "chat", extent)
        await store.submit([new_run("after", session="chat")])
        assert await store.stop("c1", "chat", extent) == first
        await hand.stop(claimed)
        assert await store.stop("c1", "chat", extent) == first

        assert first.cancelled == ("s-00000",)
        assert await states(store, "after") == [P]

    async def test_a_run_cancelled_before_is_not_counted_again(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat", max_concurrent=2))
        await hand.claim(9)
        await store.change_run("c1", "s-00000", Cancel())

        assert await store.stop("c2", "chat", Extent.ALL) == Stopped(("s-00001",))

    async def test_a_reset_frees_the_slots_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat", max_concurrent=2, user="ann"))
        await hand.claim(9)

        stopped = await store.stop("c1", "chat", Extent.ABANDON)
        await store.submit([new_run("after", session="chat")])

        assert stopped == Stopped(("s-00000", "s-00001"), ("s-00002",))
        assert await states(store, "s-00000", "s-00001", "s-00002") == [C, C, D]
        assert [await reason(store, name) for name in ("s-00000", "s-00002")] == ["abandoned", "reset"]
        assert await counts(store) == {"dropped reset": 1}
        assert (await lane(store, "main")).active == 0
        assert ids(await hand.claim(9)) == ["after"]

    async def test_late_writes_are_refused_after_a_reset(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat")])
        [claimed] = await hand.claim(1)
        await store.stop("c1", "chat", Extent.ABANDON)
        before = await store.events("a")

        late = [
            await hand.succeed(claimed, value="late"),
            await hand.emit(claimed, "log", {"n": 1}),
            await hand.save(claimed, {"n": 1}),
        ]

        assert [reply.refused for reply in late] == [[(claimed.number, claimed.fence)]] * 3
        assert await store.events("a") == before
        assert (await store.get("a")).result is None
        assert hand.renew().leases == []

    async def test_a_holder_is_woken_and_told(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat")])
        await hand.rest(5)

        await store.stop("c1", "chat", Extent.ALL)

        assert await hand.hears()
        assert [asked.request for asked in (await hand.step()).requests] == [Request.CANCEL]

    async def test_dropped_runs_free_their_keys(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", key="k")])
        await store.stop("c1", "chat", Extent.ALL)

        assert await store.submit([new_run("b", session="chat", key="k")]) == [Receipt(ReceiptOutcome.ACCEPTED, "b")]

    async def test_what_a_stopped_run_left_unread_is_kept(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat")])
        claimed = await hand.claim(1)
        await store.submit([new_run("m", session="chat", policy=SessionPolicy(mode=Mode.STEER))])

        await store.stop("c1", "chat", Extent.OLDEST)
        await hand.stop(*claimed)

        assert await start_order(hand) == ["m"]
