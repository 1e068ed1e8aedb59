"""Checkpoints and time-outs: what an attempt leaves for the next one, and for whoever ends it."""

from __future__ import annotations

from laneway.core.lifecycle.outcome import Released, Succeeded
from laneway.core.lifecycle.step import Emitted, Saved
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import Request
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause, Resume
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.attempts.leases import dead_and_heir
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.frame import Part, ids, kinds


class TestCheckpoints(Part):
    """`Step.saved`, and the state that comes back."""

    async def test_the_newest_state_comes_back_with_the_next_claim(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        assert claimed.state is None
        await hand.save(claimed, {"page": 1})
        await hand.save(claimed, {"page": [2, "ü"]})
        await hand.release(claimed)

        [again] = await hand.claim()

        assert again.state == '{"page":[2,"ü"]}'
        assert (await hand.repeat_last()).claimed == [again]
        await hand.release(again)
        [third] = await hand.claim()
        assert third.state == again.state

    async def test_it_comes_back_also_in_the_step_that_saved_and_released(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.release(claimed)
        [again] = await hand.claim()
        saved, released = Saved(again.number, again.fence, "7"), hand.result(again, Released())

        reply = await hand.step(saved=[saved], results=[released], room=1)

        assert [run.state for run in reply.claimed] == ["7"]
        assert reply.refused == []

    async def test_it_comes_back_after_a_pause(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.save(claimed, 5)
        await store.change_run("p", "a", Pause())
        await hand.pause(claimed)
        await store.change_run("r", "a", Resume())

        assert [run.state for run in await hand.claim()] == ["5"]

    async def test_each_run_has_its_own(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r"))
        first, second, third = await hand.claim(3)
        await hand.step(saved=[Saved(first.number, 1, '"1"'), Saved(third.number, 1, '"3"')])
        await hand.release(first, second, third)

        assert [(run.id, run.state) for run in await hand.claim(3)] == [
            (first.id, '"1"'),
            (second.id, None),
            (third.id, '"3"'),
        ]

    async def test_it_is_refused_under_a_fence_that_is_not_the_newest(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.release(claimed)
        [again] = await hand.claim()

        reply = await hand.save(claimed, "late")

        assert reply.refused == [(claimed.number, 1)]
        await hand.release(again)
        assert [run.state for run in await hand.claim()] == [None]

    async def test_it_is_refused_to_whoever_does_not_hold_the_lease(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        other = await Hand(store, "other").register()

        reply = await other.save(claimed, "mine")

        assert reply.refused == [(claimed.number, 1)]
        await hand.release(claimed)
        assert [run.state for run in await hand.claim()] == [None]

    async def test_a_refused_one_does_not_touch_its_neighbours(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        saved = [Saved(99, 1, "1"), Saved(claimed.number, 1, "2"), Saved(claimed.number, 9, "3")]

        reply = await hand.step(saved=saved)

        assert sorted(reply.refused) == [(1, 9), (99, 1)]
        await hand.release(claimed)
        assert [run.state for run in await hand.claim()] == ["2"]

    async def test_it_forgets_the_crashes_before_it(self, store: Store) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        await heir.reclaim("dead")
        [second] = (await heir.lapse(*(await heir.reclaim()).lapsed, room=1)).claimed
        assert (second.crashes, (await store.get(claimed.id)).crashes) == (1, 1)

        await heir.save(second, 1)

        assert (await store.get(claimed.id)).crashes == 0
        last = await Hand(store, "last").register()
        [lapsed] = (await last.reclaim("heir")).lapsed
        assert (lapsed.crashes, lapsed.state) == (0, "1")

    async def test_what_goes_on_is_written_before_what_ends(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        lease = (claimed.number, claimed.fence)

        reply = await hand.step(
            emitted=[Emitted(*lease, (("log", "1"),))],
            saved=[Saved(*lease, "1")],
            overdue=[lease],
            results=[hand.result(claimed, Succeeded("2"))],
        )

        assert reply.refused == []
        assert await kinds(store, "a") == ["started", "log", "result", "done"]


class TestTimeOuts(Part):
    """`Step.overdue`."""

    async def test_whoever_ends_an_overdue_attempt_settles_it_as_timed_out(self, store: Store) -> None:
        dead, [claimed], heir = await dead_and_heir(store)
        await dead.overdue(claimed)

        [lapsed] = (await heir.reclaim("dead")).lapsed
        await heir.lapse(lapsed)

        run = await store.get(claimed.id)
        assert lapsed.timed_out
        assert run.error is not None
        assert (run.state, run.error.kind, run.attempt, run.crashes) == (RunState.PENDING, "timed_out", 2, 0)
        assert await kinds(store, claimed.id) == ["started", "lapsed", "retrying"]

    async def test_it_is_not_retried_if_the_policy_says_so(self, store: Store) -> None:
        dead, [claimed], _ = await dead_and_heir(store)
        await dead.overdue(claimed)
        heir = await Hand(store, "strict", policy=TaskPolicy(retry=Retry(on_timeout=False))).register()

        await heir.lapse(*(await heir.reclaim("dead")).lapsed)

        run = await store.get(claimed.id)
        assert (run.state, run.reason) == (RunState.FAILED, "timed_out")

    async def test_it_holds_for_that_attempt_only(self, store: Store) -> None:
        dead, [claimed], heir = await dead_and_heir(store)
        await dead.overdue(claimed)
        await dead.release(claimed)
        [again] = await dead.claim()
        await dead.step(overdue=[(claimed.number, claimed.fence), (99, 1)])

        [lapsed] = (await heir.reclaim("dead")).lapsed

        assert (again.timed_out, lapsed.timed_out) == (False, False)

    async def test_a_cancel_wins_over_it(self, store: Store) -> None:
        dead, [claimed], heir = await dead_and_heir(store)
        await dead.overdue(claimed)
        await store.change_run("c", claimed.id, Cancel())

        await heir.lapse(*(await heir.reclaim("dead")).lapsed)

        assert (await store.get(claimed.id)).state is RunState.CANCELLED
        assert await kinds(store, claimed.id) == ["started", "cancel_requested", "lapsed", "done"]


class TestRequests(Part):
    """`StepReply.requests` and `RenewReply.requests`."""

    async def test_each_worker_is_told_of_its_own_until_they_are_settled(self, store: Store) -> None:
        one, two = await Hand(store, "one").register(), await Hand(store, "two").register()
        await store.submit(new_runs(4, "r"))
        first, second = await one.claim(2)
        third, fourth = await two.claim(2)
        await store.change_run("1", first.id, Cancel())
        await store.change_run("2", third.id, Pause())

        for _ in range(2):
            assert [(told.number, told.request) for told in one.renew().requests] == [(first.number, Request.CANCEL)]
            assert [(told.number, told.request) for told in (await two.step()).requests] == [
                (third.number, Request.PAUSE)
            ]
        assert (await one.succeed(second)).requests == one.renew().requests
        assert (await one.stop(first)).requests == one.renew().requests == []
        assert (await two.succeed(third, fourth)).requests == []

    async def test_an_heir_is_not_told_of_what_it_does_not_execute(self, store: Store) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        await store.change_run("p", claimed.id, Pause())
        await heir.reclaim("dead")

        assert ((await heir.step()).requests, heir.renew().requests) == ([], [])

    async def test_a_run_that_tries_another_again_names_it(self, store: Store, clock: FakeClock) -> None:
        again = [new_run("b", retry_of="a"), new_run("c", retry_of="a", delay=5), new_run("d")]

        await store.submit([new_run("a"), *again])

        assert [(await store.get(name)).retry_of for name in "abcd"] == [None, "a", "a", None]
        hand = await Hand(store).register()
        await clock.advance(5)
        assert sorted(ids(await hand.claim(4))) == ["a", "b", "c", "d"]
