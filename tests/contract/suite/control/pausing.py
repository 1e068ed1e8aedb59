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
from laneway.ports.control import Cancel, Pause, Resume, RunChange
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.attempts.leases import dead_and_heir
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.control.stages import PENDING, UNSTARTED, between_attempts, named, released
from tests.contract.suite.frame import Part, ids, kinds, start_order, states
from tests.support.sessions import session_of


class TestPausing(Part):
    """`ControlStore.pause` and `resume`."""

    @pytest.mark.parametrize("stage", PENDING, ids=named)
    async def test_a_pending_run_is_paused_at_once_and_starts_when_resumed(
        self, store: Store, clock: FakeClock, stage: Callable[[Store], Awaitable[None]]
    ) -> None:
        await stage(store)
        before, log = await store.get("a"), await kinds(store, "a")
        await clock.advance(1)

        run = await store.change_run("p", "a", Pause())

        assert (run.state, run.request, run.ended_at) == (RunState.PAUSED, None, None)
        assert (run.due_at, run.fence, run.error) == (before.due_at, before.fence, before.error)
        assert await store.runs(RunFilter(state=RunState.PAUSED), limit=5) == [run]
        assert (await store.depths()).runs["paused"] == 1
        assert await kinds(store, "a") == [*log, "paused"]
        hand = await Hand(store, "late").register()
        await clock.advance(60)
        assert "a" not in await start_order(hand)

        again = await store.change_run("r", "a", Resume())

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
            await store.change_run(f"p{call}", "a", Pause())
            await store.change_run(f"r{call}", "a", Resume())

        assert await kinds(store, "a") == ["paused", "resumed"] * 3

    @pytest.mark.parametrize("changes", [[Pause()], [Pause(), Resume()]], ids=["pause", "resume"])
    async def test_a_repeated_call_changes_nothing(self, store: Store, changes: list[RunChange]) -> None:
        await store.submit([new_run("a")])
        [*_, last] = [await store.change_run(f"{nth}", "a", change) for nth, change in enumerate(changes)]
        log = await kinds(store, "a")

        assert await store.change_run(f"{len(changes) - 1}", "a", changes[-1]) == last
        assert await kinds(store, "a") == log

    async def test_pausing_what_is_paused_changes_nothing(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        asked = await store.change_run("p", "a", Pause())
        assert await store.change_run("q", "a", Pause()) == asked
        await hand.pause(claimed)
        paused = await store.get("a")

        assert await store.change_run("s", "a", Pause()) == paused
        assert await kinds(store, "a") == ["started", "pause_requested", "paused"]

    async def test_a_running_run_is_paused_when_it_reaches_a_checkpoint(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.rest()

        run = await store.change_run("p", "a", Pause())

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
        await store.change_run("p", "a", Pause())

        reply = await hand.settle([claimed], outcome, room=1)

        run = await store.get("a")
        assert (run.state, reply.claimed, reply.due_in) == (RunState.PAUSED, [], None)
        assert (await kinds(store, "a"))[-1] == "paused"
        assert (run.due_at > instant(clock.now())) is not isinstance(outcome, Released)
        await store.change_run("r", "a", Resume())
        assert ids(await hand.claim()) == ([] if run.due_at > instant(clock.now()) else ["a"])

    async def test_a_requested_pause_turns_a_lapse_into_paused(self, store: Store) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        await heir.reclaim("dead")
        await store.change_run("p", claimed.id, Pause())

        reply = await heir.lapse(*(await heir.reclaim()).lapsed, room=1)

        run = await store.get(claimed.id)
        assert (reply.claimed, run.state, run.crashes) == ([], RunState.PAUSED, 1)

    @pytest.mark.parametrize("hopeless", [False, True])
    async def test_a_run_that_ends_has_nothing_left_to_pause(self, store: Store, hopeless: bool) -> None:
        hand, claimed = await one_running(store)
        await store.change_run("p", "a", Pause())

        await (hand.fail(claimed, failure=error(kind="gave_up")) if hopeless else hand.succeed(claimed))

        run = await store.get("a")
        assert (run.state, run.request) == (RunState.FAILED if hopeless else RunState.SUCCEEDED, None)

    async def test_a_requested_pause_can_be_taken_back(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await store.change_run("p", "a", Pause())

        run = await store.change_run("r", "a", Resume())

        assert (run.state, run.request) == (RunState.RUNNING, None)
        assert (await hand.step()).requests == []
        await hand.release(claimed)
        assert await kinds(store, "a") == ["started", "pause_requested", "resumed", "released"]

    async def test_a_handler_that_paused_for_a_request_taken_back_is_started_again(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await store.change_run("p", "a", Pause())
        await store.change_run("r", "a", Resume())

        reply = await hand.pause(claimed, room=1)

        assert ids(reply.claimed) == ["a"]
        assert await kinds(store, "a") == ["started", "pause_requested", "resumed", "released", "started"]

    async def test_a_cancel_wins_over_a_requested_pause(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await store.change_run("p", "a", Pause())

        run = await store.change_run("c", "a", Cancel())

        assert run.request is Request.CANCEL
        with pytest.raises(WrongState, match="a cancelled run cannot be paused"):
            await store.change_run("q", "a", Pause())
        with pytest.raises(WrongState, match="a running run cannot be resumed"):
            await store.change_run("r", "a", Resume())
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
            await store.change_run("c", "a", Cancel(abandon=True))
        before, log = await store.get("a"), await kinds(store, "a")

        with pytest.raises(WrongState, match=f"a {state} run cannot be resumed"):
            await store.change_run("r", "a", Resume())

        assert (await store.get("a"), await kinds(store, "a")) == (before, log)

    @pytest.mark.parametrize("state", ["succeeded", "cancelled"])
    async def test_what_has_ended_is_not_paused(self, store: Store, state: str) -> None:
        hand, claimed = await one_running(store)
        if state == "cancelled":
            await store.change_run("c", "a", Cancel())
        await hand.succeed(claimed)

        with pytest.raises(WrongState, match=f"a {state} run cannot be paused"):
            await store.change_run("p", "a", Pause())


class TestPausedSessions(Part):
    """What a pause does to a session, and to the order of what waits."""

    async def test_a_started_run_keeps_its_place_in_its_session(self, store: Store) -> None:
        await released(store)
        hand = await Hand(store, "next").register()

        await store.change_run("p", "a", Pause())

        assert await hand.claim(5) == []
        session = await session_of(store, "chat")
        assert session is not None
        assert (session.active, session.queued) == (1, 1)
        await store.change_run("r", "a", Resume())
        assert await start_order(hand) == ["a", "b"]

    async def test_one_that_has_its_place_goes_on_there_though_the_clock_was_set_back(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "r", session="chat"))
        await store.change_run("p", "r-00000", Pause())
        clock.step(-3600)

        await store.change_run("r", "r-00000", Resume())

        assert await start_order(hand) == ["r-00000", "r-00001"]

    async def test_a_cancelled_one_frees_it(self, store: Store) -> None:
        await released(store)
        hand = await Hand(store, "next").register()
        await store.change_run("p", "a", Pause())

        await store.change_run("c", "a", Cancel())

        assert ids(await hand.claim(5)) == ["b"]

    @pytest.mark.parametrize("which", [0, 1])
    async def test_one_that_has_joined_keeps_its_place_and_those_behind_it_wait(self, store: Store, which: int) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r", session="chat"))
        await store.change_run("p", f"r-{which:05d}", Pause())

        before = await start_order(hand)
        session = await session_of(store, "chat")
        await store.change_run("r", f"r-{which:05d}", Resume())

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
        await store.change_run("p", f"r-{which:05d}", Pause())
        clock.step(-3600)

        await store.change_run("r", f"r-{which:05d}", Resume())
        clock.step(3600)
        await hand.step()  # what is due by now joins

        session = await session_of(store, "chat")
        assert session is not None
        assert (session.active, session.queued) == (0, 3)
        assert await start_order(hand) == [f"r-{index:05d}" for index in range(3)]

    async def test_a_cancelled_one_that_was_paused_in_its_place_lets_the_next_go_on(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "r", session="chat"))
        for index in (0, 2):
            await store.change_run(f"p{index}", f"r-{index:05d}", Pause())

        await store.change_run("c0", "r-00000", Cancel())
        assert await start_order(hand) == ["r-00001"]
        await store.change_run("c2", "r-00002", Cancel())

        assert await start_order(hand) == ["r-00003"]
        assert await session_of(store, "chat") is None

    async def test_one_paused_before_it_was_due_joins_the_tail_when_resumed(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(2, "r", session="chat"), new_run("later", session="chat", delay=1)])
        await store.change_run("p", "later", Pause())
        await clock.advance(1)
        await store.submit([new_run("last", session="chat")])

        await store.change_run("r", "later", Resume())

        assert await start_order(hand) == ["r-00000", "r-00001", "last", "later"]

    async def test_an_idle_session_is_not_kept_for_one_paused_before_it_was_due(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", delay=1)])

        await store.change_run("p", "a", Pause())

        assert await session_of(store, "chat") is None

    async def test_a_run_paused_before_its_due_time_waits_for_it_when_resumed(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", delay=10)])
        await store.change_run("p", "a", Pause())
        assert (await hand.step(room=1)).due_in is None

        await store.change_run("r", "a", Resume())

        assert (await hand.step(room=1)).due_in == 10 * SECOND
        await clock.advance(10)
        assert ids(await hand.claim()) == ["a"]

    async def test_a_retry_waits_for_its_due_time_also_through_a_pause(self, store: Store, clock: FakeClock) -> None:
        await between_attempts(store)
        due_at = (await store.get("a")).due_at
        await store.change_run("p", "a", Pause())

        run = await store.change_run("r", "a", Resume())

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
        await store.change_run("p", claimed.id, Pause())

        reply = await hand.pause(claimed, room=5)

        assert ids(reply.claimed) == ["bob"]
        assert ids((await hand.succeed(*reply.claimed, room=5)).claimed) == ["ann-00001"]

    async def test_workers_are_woken_for_what_is_resumed(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await store.change_run("p", "a", Pause())
        await hand.rest()

        await store.change_run("r", "a", Resume())

        assert await hand.hears()
