"""Pausing and resuming, in every stage of a run's life."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from laneway.core.common.instants import SECOND, instant
from laneway.core.lifecycle.outcome import Failed, Outcome, Released, Snoozed
from laneway.core.records.policy import Lane
from laneway.core.records.run import Request, RunFilter
from laneway.core.records.states import RunState
from laneway.errors import WrongState
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.attempts.leases import dead_and_heir
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.control.stages import PENDING, UNSTARTED, between_attempts, named, released
from tests.contract.suite.frame import Part, ids, kinds, start_order, states


class TestPausing(Part):
    """`ControlStore.pause` and `resume`."""

    @pytest.mark.parametrize("stage", PENDING, ids=named)
    async def test_a_pending_run_is_paused_at_once_and_starts_when_resumed(
        self, store: Store, clock: FakeClock, stage: Callable[[Store], Awaitable[None]]
    ) -> None:
        await stage(store)
        before, log = await store.get("a"), await kinds(store, "a")
        await clock.advance(1)

        run = await store.pause("p", "a")

        assert (run.state, run.request, run.ended_at) == (RunState.PAUSED, None, None)
        assert (run.due_at, run.fence, run.error) == (before.due_at, before.fence, before.error)
        assert await store.runs(RunFilter(state=RunState.PAUSED), limit=5) == [run]
        assert (await store.count())["paused"] == 1
        assert await kinds(store, "a") == [*log, "paused"]
        hand = await Hand(store, "late").register()
        await clock.advance(60)
        assert "a" not in await start_order(hand)

        again = await store.resume("r", "a")

        assert (again.state, again.due_at, again.fence) == (RunState.PENDING, before.due_at, before.fence)
        assert "a" not in [run.id for run in await store.runs(RunFilter(state=RunState.PAUSED), limit=5)]
        assert (await hand.reclaim("other", "hand")).more is False
        await hand.succeed(*(await hand.reclaim()).lapsed)
        assert "a" in await start_order(hand)
        assert (await kinds(store, "a"))[: len(log) + 3] == [*log, "paused", "resumed", "started"]

    @pytest.mark.parametrize("stage", UNSTARTED, ids=named)
    async def test_resuming_at_once_leaves_the_counts_right(
        self, store: Store, stage: Callable[[Store], Awaitable[None]]
    ) -> None:
        await stage(store)

        for call in range(3):
            await store.pause(f"p{call}", "a")
            await store.resume(f"r{call}", "a")

        assert await kinds(store, "a") == ["paused", "resumed"] * 3

    @pytest.mark.parametrize("verb", ["pause", "resume"])
    async def test_a_repeated_call_changes_nothing(self, store: Store, verb: str) -> None:
        await store.submit([new_run("a")])
        first = await store.pause("p", "a")
        if verb == "resume":
            first = await store.resume("r", "a")
        log = await kinds(store, "a")

        assert await getattr(store, verb)(verb[0], "a") == first
        assert await kinds(store, "a") == log

    async def test_pausing_what_is_paused_changes_nothing(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        asked = await store.pause("p", "a")
        assert await store.pause("q", "a") == asked
        await hand.pause(claimed)
        paused = await store.get("a")

        assert await store.pause("s", "a") == paused
        assert await kinds(store, "a") == ["started", "pause_requested", "paused"]

    async def test_a_running_run_is_paused_when_it_reaches_a_checkpoint(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.rest()

        run = await store.pause("p", "a")

        assert (run.state, run.request) == (RunState.RUNNING, Request.PAUSE)
        assert await hand.hears()
        assert [told.request for told in (await hand.step()).requests] == [Request.PAUSE]
        reply = await hand.pause(claimed, room=1)
        assert (reply.claimed, reply.requests) == ([], [])
        run = await store.get("a")
        assert (run.state, run.request, run.worker, run.attempt) == (RunState.PAUSED, None, None, 1)
        assert [state.active for state in await store.lanes() if state.lane.name == "main"] == [0]

    @pytest.mark.parametrize("outcome", [Released(), Snoozed(5 * SECOND), Failed(error())], ids=str)
    async def test_a_requested_pause_turns_any_return_to_pending_into_paused(
        self, store: Store, clock: FakeClock, outcome: Outcome
    ) -> None:
        hand, claimed = await one_running(store)
        await store.pause("p", "a")

        reply = await hand.settle([claimed], outcome, room=1)

        run = await store.get("a")
        assert (run.state, reply.claimed, reply.due_in) == (RunState.PAUSED, [], None)
        assert (await kinds(store, "a"))[-1] == "paused"
        assert (run.due_at > instant(clock.now())) is not isinstance(outcome, Released)
        await store.resume("r", "a")
        assert ids(await hand.claim()) == ([] if run.due_at > instant(clock.now()) else ["a"])

    async def test_a_requested_pause_turns_a_lapse_into_paused(self, store: Store) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        await heir.reclaim("dead")
        await store.pause("p", claimed.id)

        reply = await heir.lapse(*(await heir.reclaim()).lapsed, room=1)

        run = await store.get(claimed.id)
        assert (reply.claimed, run.state, run.crashes) == ([], RunState.PAUSED, 1)

    @pytest.mark.parametrize("hopeless", [False, True])
    async def test_a_run_that_ends_has_nothing_left_to_pause(self, store: Store, hopeless: bool) -> None:
        hand, claimed = await one_running(store)
        await store.pause("p", "a")

        await (hand.fail(claimed, failure=error(kind="gave_up")) if hopeless else hand.succeed(claimed))

        run = await store.get("a")
        assert (run.state, run.request) == (RunState.FAILED if hopeless else RunState.SUCCEEDED, None)

    async def test_a_requested_pause_can_be_taken_back(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await store.pause("p", "a")

        run = await store.resume("r", "a")

        assert (run.state, run.request) == (RunState.RUNNING, None)
        assert (await hand.step()).requests == []
        await hand.release(claimed)
        assert await kinds(store, "a") == ["started", "pause_requested", "resumed", "released"]

    async def test_a_handler_that_paused_for_a_request_taken_back_is_started_again(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await store.pause("p", "a")
        await store.resume("r", "a")

        reply = await hand.pause(claimed, room=1)

        assert ids(reply.claimed) == ["a"]
        assert await kinds(store, "a") == ["started", "pause_requested", "resumed", "released", "started"]

    async def test_a_cancel_wins_over_a_requested_pause(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await store.pause("p", "a")

        run = await store.cancel("c", "a")

        assert run.request is Request.CANCEL
        with pytest.raises(WrongState, match="a cancelled run cannot be paused"):
            await store.pause("q", "a")
        with pytest.raises(WrongState, match="a running run cannot be resumed"):
            await store.resume("r", "a")
        assert await store.get("a") == run
        await hand.pause(claimed)
        assert await states(store, "a") == [RunState.CANCELLED]

    @pytest.mark.parametrize("state", ["pending", "running", "succeeded", "cancelled"])
    async def test_only_a_paused_run_is_resumed(self, store: Store, state: str) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        claimed = [] if state == "pending" else await hand.claim()
        if state == "succeeded":
            await hand.succeed(*claimed)
        if state == "cancelled":
            await store.cancel("c", "a", abandon=True)
        before, log = await store.get("a"), await kinds(store, "a")

        with pytest.raises(WrongState, match=f"a {state} run cannot be resumed"):
            await store.resume("r", "a")

        assert (await store.get("a"), await kinds(store, "a")) == (before, log)

    @pytest.mark.parametrize("state", ["succeeded", "cancelled"])
    async def test_what_has_ended_is_not_paused(self, store: Store, state: str) -> None:
        hand, claimed = await one_running(store)
        if state == "cancelled":
            await store.cancel("c", "a")
        await hand.succeed(claimed)

        with pytest.raises(WrongState, match=f"a {state} run cannot be paused"):
            await store.pause("p", "a")


class TestPausedSessions(Part):
    """What a pause does to a session, and to the order of what waits."""

    async def test_a_started_run_keeps_its_place_in_its_session(self, store: Store) -> None:
        await released(store)
        hand = await Hand(store, "next").register()

        await store.pause("p", "a")

        assert await hand.claim(5) == []
        session = await store.session("chat")
        assert session is not None
        assert (session.active, session.queued) == (1, 1)
        await store.resume("r", "a")
        assert await start_order(hand) == ["a", "b"]

    async def test_one_that_has_its_place_goes_on_there_though_the_clock_was_set_back(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "r", session="chat"))
        await store.pause("p", "r-00000")
        clock.step(-3600)

        await store.resume("r", "r-00000")

        assert await start_order(hand) == ["r-00000", "r-00001"]

    async def test_a_cancelled_one_frees_it(self, store: Store) -> None:
        await released(store)
        hand = await Hand(store, "next").register()
        await store.pause("p", "a")

        await store.cancel("c", "a")

        assert ids(await hand.claim(5)) == ["b"]

    @pytest.mark.parametrize("which", [0, 1])
    async def test_one_that_has_joined_keeps_its_place_and_those_behind_it_wait(self, store: Store, which: int) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r", session="chat"))
        await store.pause("p", f"r-{which:05d}")

        before = await start_order(hand)
        session = await store.session("chat")
        await store.resume("r", f"r-{which:05d}")

        assert before == [f"r-{index:05d}" for index in range(which)]
        assert session is not None
        assert (session.active, session.queued) == (0, 3 - which)
        assert await start_order(hand) == [f"r-{index:05d}" for index in range(which, 3)]

    @pytest.mark.parametrize("which", [0, 1])
    async def test_a_clock_set_back_while_it_is_paused_does_not_make_it_join_twice(
        self, store: Store, clock: FakeClock, which: int
    ) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r", session="chat"))
        await store.pause("p", f"r-{which:05d}")
        clock.step(-3600)

        await store.resume("r", f"r-{which:05d}")
        clock.step(3600)
        await hand.step()  # what is due by now joins

        session = await store.session("chat")
        assert session is not None
        assert (session.active, session.queued) == (0, 3)
        assert await start_order(hand) == [f"r-{index:05d}" for index in range(3)]

    async def test_a_cancelled_one_that_was_paused_in_its_place_lets_the_next_go_on(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "r", session="chat"))
        for index in (0, 2):
            await store.pause(f"p{index}", f"r-{index:05d}")

        await store.cancel("c0", "r-00000")
        assert await start_order(hand) == ["r-00001"]
        await store.cancel("c2", "r-00002")

        assert await start_order(hand) == ["r-00003"]
        assert await store.session("chat") is None

    async def test_one_paused_before_it_was_due_joins_the_tail_when_resumed(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(2, "r", session="chat"), new_run("later", session="chat", delay=1)])
        await store.pause("p", "later")
        await clock.advance(1)
        await store.submit([new_run("last", session="chat")])

        await store.resume("r", "later")

        assert await start_order(hand) == ["r-00000", "r-00001", "last", "later"]

    async def test_an_idle_session_is_not_kept_for_one_paused_before_it_was_due(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", delay=1)])

        await store.pause("p", "a")

        assert await store.session("chat") is None

    async def test_a_run_paused_before_its_due_time_waits_for_it_when_resumed(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", delay=10)])
        await store.pause("p", "a")
        assert (await hand.step(room=1)).due_in is None

        await store.resume("r", "a")

        assert (await hand.step(room=1)).due_in == 10 * SECOND
        await clock.advance(10)
        assert ids(await hand.claim()) == ["a"]

    async def test_a_retry_waits_for_its_due_time_also_through_a_pause(self, store: Store, clock: FakeClock) -> None:
        await between_attempts(store)
        due_at = (await store.get("a")).due_at
        await store.pause("p", "a")

        run = await store.resume("r", "a")

        assert (run.due_at, run.attempt) == (due_at, 2)
        hand = await Hand(store, "next").register()
        assert await hand.claim() == []
        await clock.advance(60)
        assert [claimed.attempt for claimed in await hand.claim()] == [2]

    async def test_a_paused_run_takes_no_turn_and_no_slot(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=1, per_user=1)])
        await store.submit([*new_runs(2, "ann", user="ann"), new_run("bob", user="bob")])
        [claimed] = await hand.claim(5)
        await store.pause("p", claimed.id)

        reply = await hand.pause(claimed, room=5)

        assert ids(reply.claimed) == ["bob"]
        assert ids((await hand.succeed(*reply.claimed, room=5)).claimed) == ["ann-00001"]

    async def test_workers_are_woken_for_what_is_resumed(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await store.pause("p", "a")
        await hand.rest()

        await store.resume("r", "a")

        assert await hand.hears()
