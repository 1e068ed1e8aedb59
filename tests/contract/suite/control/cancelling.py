"""Control: a cancel in every stage of a run's life, and what goes on behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from laneway.core.common.instants import instant
from laneway.core.lifecycle.outcome import Failed, Outcome, Paused, Released, Snoozed, Succeeded
from laneway.core.records.policy import Lane
from laneway.core.records.run import Request
from laneway.core.records.states import RunState
from laneway.errors import StoreUnavailable, UnknownRun, WrongState
from laneway.ports.control import Answer, Cancel, Pause, Resume
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.attempts.leases import SECONDS, dead_and_heir, pass_time
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.control.stages import NOT_RUNNING, brought_back, named, released
from tests.contract.suite.frame import Part, ids, kinds, start_order
from tests.support.lossy_store import LossyStore

ENDED = ["cancel_requested", "done"]


class TestCancelling(Part):
    """`ControlStore.cancel`."""

    @pytest.mark.parametrize("stage", NOT_RUNNING, ids=named)
    async def test_a_run_that_is_not_running_ends_at_once(
        self, store: Store, clock: FakeClock, stage: Callable[[Store], Awaitable[None]]
    ) -> None:
        await stage(store)
        before, log = await store.get("a"), await kinds(store, "a")
        await clock.advance(1)

        run = await store.change_run("c", "a", Cancel())

        assert run == await store.get("a")
        assert (run.state, run.ended_at, run.reason) == (RunState.CANCELLED, instant(clock.now()), None)
        assert (run.attempt, run.fence, run.due_at, run.error) == (
            before.attempt,
            before.fence,
            before.due_at,
            before.error,
        )
        assert await kinds(store, "a") == [*log, *ENDED]
        assert (await store.events("a"))[-1].data == {"state": "cancelled"}
        hand = await Hand(store, "late").register()
        assert "a" not in ids(await hand.claim(10))

    @pytest.mark.parametrize("stage", NOT_RUNNING, ids=named)
    async def test_cancelling_again_changes_nothing(
        self, store: Store, stage: Callable[[Store], Awaitable[None]]
    ) -> None:
        await stage(store)
        run = await store.change_run("c", "a", Cancel())
        log = await kinds(store, "a")

        assert await store.change_run("c", "a", Cancel()) == run
        assert await store.change_run("d", "a", Cancel(abandon=True)) == run
        assert await kinds(store, "a") == log

    async def test_a_running_run_is_requested_to_and_its_worker_woken_and_told(self, store: Store) -> None:
        hand, claimed = await one_running(store)

        run = await store.change_run("c", "a", Cancel())

        assert (run.state, run.request, run.worker) == (RunState.RUNNING, Request.CANCEL, "hand")
        assert await hand.hears()
        assert await kinds(store, "a") == ["started", "cancel_requested"]
        asked = (await hand.step()).requests
        assert [(told.number, told.fence, told.request) for told in asked] == [(claimed.number, 1, Request.CANCEL)]
        assert hand.renew().requests == (await hand.repeat_last()).requests == asked
        reply = await hand.stop(claimed)
        assert reply.requests == []
        assert await kinds(store, "a") == ["started", "cancel_requested", "stopped", "done"]
        assert (await store.get("a")).request is None

    @pytest.mark.parametrize(
        "outcome",
        [
            *(Succeeded("1"), Failed(error()), Failed(error(kind="gave_up")), Failed(error(kind="timed_out"))),
            *(Released(), Snoozed(5_000_000), Paused()),
        ],
        ids=str,
    )
    async def test_a_stored_cancel_wins_over_whatever_the_attempt_comes_to(
        self, store: Store, outcome: Outcome
    ) -> None:
        hand, claimed = await one_running(store)
        await hand.emit(claimed, "log", 1)
        await store.change_run("c", "a", Cancel())

        reply = await hand.settle([claimed], outcome, room=1)

        run = await store.get("a")
        assert (reply.refused, reply.claimed) == ([], [])
        assert (run.state, run.result, run.error, run.attempt) == (RunState.CANCELLED, None, None, 1)
        assert await kinds(store, "a") == ["started", "log", "cancel_requested", "stopped", "done"]

    async def test_a_result_that_was_written_first_stands(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.succeed(claimed, value=1)
        before = await store.get("a")

        with pytest.raises(WrongState, match="a succeeded run cannot be cancelled"):
            await store.change_run("c", "a", Cancel())

        assert await store.get("a") == before
        assert await kinds(store, "a") == ["started", "result", "done"]

    async def test_an_unknown_run_is_named(self, store: Store) -> None:
        await store.submit([new_run("abc")])

        for change in (Cancel(), Pause(), Resume(), Answer("1")):
            with pytest.raises(UnknownRun, match="no run 'ab'"):
                await store.change_run("c", "ab", change)

    async def test_the_heir_of_a_cancelled_run_ends_it_cancelled(self, store: Store) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        await store.change_run("c", claimed.id, Cancel())
        [lapsed] = (await heir.reclaim("dead")).lapsed

        reply = await heir.lapse(lapsed, room=1)

        run = await store.get(claimed.id)
        assert (reply.claimed, reply.requests) == ([], [])
        assert (run.state, run.error) == (RunState.CANCELLED, None)
        assert await kinds(store, claimed.id) == ["started", "cancel_requested", "lapsed", "done"]

    async def test_a_run_whose_lease_was_taken_over_ends_at_once(self, store: Store) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        [lapsed] = (await heir.reclaim("dead")).lapsed

        run = await store.change_run("c", claimed.id, Cancel())

        assert (run.state, run.worker, run.reason) == (RunState.CANCELLED, None, None)
        assert await kinds(store, claimed.id) == ["started", *ENDED]
        assert (await heir.lapse(lapsed)).refused == [(lapsed.number, lapsed.fence)]
        assert heir.renew().leases == []

    async def test_a_run_whose_worker_left_ends_at_once(self, store: Store) -> None:
        dead, [claimed], heir = await dead_and_heir(store)
        await dead.leave()

        run = await store.change_run("c", claimed.id, Cancel())

        assert run.state is RunState.CANCELLED
        assert [worker.incarnation.id for worker in await store.workers()] == ["heir"]
        assert (await heir.reclaim()).more is False

    async def test_a_run_whose_worker_has_lapsed_ends_at_once_also_if_it_was_requested_to(
        self, store: Store, clock: FakeClock
    ) -> None:
        dead, [first, second], heir = await dead_and_heir(store, runs=2)
        await store.change_run("early", first.id, Cancel())
        await pass_time(clock, SECONDS + 1, heir)

        assert (await store.change_run("c", first.id, Cancel())).state is RunState.CANCELLED
        assert (await store.change_run("d", second.id, Cancel())).state is RunState.CANCELLED
        assert await kinds(store, first.id) == ["started", *ENDED]
        assert (await dead.succeed(first, second)).refused == [(1, 1), (2, 1)]

    async def test_an_abandoned_run_ends_at_once_and_its_worker_is_refused(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=1)])
        await store.submit([new_run("a", session="chat"), new_run("b", session="chat")])
        [claimed] = await hand.claim()
        await store.change_run("c", "a", Cancel())

        run = await store.change_run("d", "a", Cancel(abandon=True))

        assert (run.state, run.reason, run.fence) == (RunState.CANCELLED, "abandoned", 1)
        assert await kinds(store, "a") == ["started", *ENDED]
        assert (await hand.repeat_last()).claimed == []
        assert (await hand.emit(claimed, "log", 1)).refused == [(claimed.number, 1)]
        reply = await hand.succeed(claimed, room=1)
        assert (reply.refused, ids(reply.claimed)) == ([(claimed.number, 1)], ["b"])

    async def test_a_lost_answer_costs_nothing(self, store: Store) -> None:
        lossy = LossyStore(store)
        hand, claimed = await one_running(store)
        await store.submit([new_run("b")])

        for change in (Pause(), Resume(), Cancel()):
            lossy.lose_reply("change_run")
            lossy.fail("change_run")
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await lossy.change_run(f"{change}", "b", change)
            await lossy.change_run(f"{change}", "b", change)

        assert await kinds(store, "b") == ["paused", "resumed", *ENDED]
        await hand.succeed(claimed)


class TestRunsBehindCancelled(Part):
    """What goes on behind a run that was cancelled or paused before its turn."""

    async def test_the_next_of_the_session_is_admitted(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "r", session="chat"))

        for index in (0, 2):
            await store.change_run(f"c{index}", f"r-{index:05d}", Cancel())

        assert await start_order(hand) == ["r-00001", "r-00003"]

    async def test_a_started_run_that_is_cancelled_gives_its_place_to_the_next(self, store: Store) -> None:
        await released(store)
        hand = await Hand(store, "next").register()

        await store.change_run("c", "a", Cancel())

        assert ids(await hand.claim(5)) == ["b"]

    async def test_the_next_of_the_users_parked_set_comes_back(self, store: Store) -> None:
        await brought_back(store)
        hand = await Hand(store, "next").register()

        await store.change_run("c", "a", Cancel())

        assert ids(await hand.claim(5)) == ["c"]

    async def test_resting_workers_are_woken_for_what_goes_on(self, store: Store) -> None:
        hand, other = await Hand(store).register(), await Hand(store, "other", tasks=["other"]).register()
        await store.submit([new_run("a", session="chat"), new_run("b", session="chat", task="other")])
        await hand.claim()
        await other.rest()

        await store.change_run("c", "a", Cancel(abandon=True))

        assert await other.hears()
        assert ids(await other.claim()) == ["b"]

    async def test_a_user_is_not_punished_for_what_was_cancelled(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(50, "ann", user="ann"), *new_runs(3, "bob", user="bob")])
        for index in range(50):
            await store.change_run(f"c{index}", f"ann-{index:05d}", Cancel())

        await store.submit([new_run("new", user="ann")])

        assert "new" in (await start_order(hand))[:2]

    async def test_a_users_parked_set_keeps_its_order(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(new_runs(5, "ann", user="ann"))
        claimed = await hand.claim(5)
        await store.change_run("c", "ann-00002", Cancel())
        await store.change_run("p", "ann-00001", Pause())

        await hand.succeed(*claimed)

        assert await start_order(hand) == ["ann-00003", "ann-00004"]
