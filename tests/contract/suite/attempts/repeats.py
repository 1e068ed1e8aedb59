"""Repeats: an answer that got lost costs nothing, whichever verb it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.lifecycle.step import Emitted, Step, StepReply
from laneway.core.records.events import draft
from laneway.core.records.policy import Lane
from laneway.core.records.run import RunLinks
from laneway.core.records.states import RunState
from laneway.errors import LeaseLost, StoreUnavailable
from laneway.ports.control import Answer
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.frame import Part, ids, kinds, states
from tests.support.child_runs import child_of, follow_up
from tests.support.invariants import all_runs
from tests.support.lossy_store import LossyStore

T = TypeVar("T")


async def until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """Call until an answer comes."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            continue


async def step_until_answered(hand: Hand, step: Awaitable[StepReply]) -> StepReply:
    """Send the step, and the same again until an answer comes."""
    try:
        return await step
    except StoreUnavailable:
        return await until_answered(hand.repeat_last)


class TestRepeats(Part):
    """Every verb can be called again."""

    async def test_a_repeated_step_returns_the_same_claims_and_claims_nothing_more(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "r"))
        first = await hand.step(room=2)
        before = await all_runs(store)

        again = await hand.repeat_last()

        assert again == first
        assert ids(again.claimed) == ["r-00000", "r-00001"]
        assert await all_runs(store) == before
        assert await kinds(store, "r-00000") == ["started"]

    async def test_a_repeated_step_settles_and_writes_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "r"))
        first, second = await hand.claim(2)
        results = [hand.result(first, Succeeded("1"))]
        emitted = [Emitted(second.number, second.fence, (draft("log", 1),))]
        reply = await hand.step(results=results, emitted=emitted, room=1)

        again = await hand.repeat_last()

        assert again == reply
        assert again.refused == []
        assert await kinds(store, first.id) == ["started", "result", "done"]
        assert await kinds(store, second.id) == ["started", "log"]

    async def test_a_repeat_is_the_same_though_the_world_went_on(self, store: Store, clock: FakeClock) -> None:
        hand, other = await Hand(store).register(), await Hand(store, "other").register()
        await store.submit([new_run("a"), new_run("later", delay=1)])
        reply = await hand.step(room=5, park=True)
        await clock.advance(2)
        await store.submit([new_run("b")])
        await other.succeed(*await other.claim(5))

        assert await hand.repeat_last() == reply

    async def test_a_repeated_step_that_was_refused_is_refused_again(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.release(claimed)
        reply = await hand.succeed(claimed)

        again = await hand.repeat_last()

        assert again.refused == reply.refused == [(claimed.number, claimed.fence)]

    async def test_a_step_that_arrives_after_its_successor_changes_nothing(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "r"))
        await hand.claim(1)
        late = hand.last
        await hand.claim(1)

        await store.step(late)
        await store.step(Step("hand", 0, room=3))

        assert (await store.depths()).runs == {"running": 2, "pending": 3}

    async def test_each_incarnation_has_call_numbers_of_its_own(self, store: Store) -> None:
        one, two = await Hand(store, "one").register(), await Hand(store, "two").register()
        await store.submit(new_runs(2, "r"))

        assert ids(await one.claim(1)) == ["r-00000"]
        assert ids(await two.claim(1)) == ["r-00001"]
        assert ids((await one.repeat_last()).claimed) == ["r-00000"]

    async def test_registering_again_keeps_leases_and_call_number(self, store: Store) -> None:
        hand, claimed = await one_running(store)

        await hand.register()

        assert hand.renew().leases == [(claimed.number, claimed.fence)]
        assert ids((await hand.repeat_last()).claimed) == ["a"]
        assert len(await store.workers()) == 1

    async def test_leaving_again_changes_nothing(self, store: Store) -> None:
        hand, _ = await one_running(store)
        await hand.leave()
        before = await store.workers()

        await hand.leave()
        await store.leave("a stranger")

        assert await store.workers() == before
        assert await states(store, "a") == [RunState.RUNNING]

    async def test_opening_and_closing_again_is_fine(self, store: Store) -> None:
        await store.submit([new_run("a")])

        await store.open()

        assert await states(store, "a") == [RunState.PENDING]

    async def test_a_lost_answer_to_submit_leaves_one_run(self, store: Store) -> None:
        lossy = LossyStore(store)
        lossy.lose_reply("submit")
        batch = new_runs(3, "r")

        with pytest.raises(StoreUnavailable) as lost:
            await lossy.submit(batch)
        receipts = await lossy.submit(batch)

        assert lost.value.maybe_done
        assert [receipt.run_id for receipt in receipts] == [new.id for new in batch]
        assert (await store.depths()).runs == {"pending": 3}

    async def test_a_call_that_was_not_sent_can_be_sent_again(self, store: Store) -> None:
        lossy = LossyStore(store)
        hand = await Hand(lossy).register()
        await store.submit([new_run("a")])
        lossy.fail("step")

        with pytest.raises(StoreUnavailable) as failed:
            await hand.claim()
        reply = await hand.repeat_last()

        assert not failed.value.maybe_done
        assert ids(reply.claimed) == ["a"]

    async def test_a_worker_whose_every_answer_may_get_lost_executes_every_run_once(self, store: Store) -> None:
        lossy = LossyStore(store, chance=0.4, random=Random(7))
        hand = Hand(lossy)
        batch = [new_run(f"r{index}", user=f"u{index % 3}", session=f"s{index % 5}") for index in range(40)]
        await until_answered(lambda: lossy.declare_lanes([Lane("main", limit=4, per_user=2)]))
        await until_answered(lambda: lossy.submit(batch))
        await until_answered(hand.register)
        executed: list[str] = []

        reply = await step_until_answered(hand, hand.step(room=3))
        while reply.claimed:
            executed += ids(reply.claimed)
            assert sorted(store.renew(hand.name).leases) == sorted((run.number, run.fence) for run in reply.claimed)
            reply = await step_until_answered(hand, hand.succeed(*reply.claimed, room=3))

        assert sorted(executed) == sorted(new.id for new in batch)
        assert lossy.faults > 10
        assert all(run.fence == 1 for run in await all_runs(store))

    async def test_what_a_run_asks_calls_and_leaves_happens_once_though_every_answer_may_get_lost(
        self, store: Store
    ) -> None:
        lossy = LossyStore(store, chance=0.4, random=Random(3))
        hand = Hand(lossy)
        await until_answered(hand.register)
        batch = [
            new_run(f"r{index:02d}", session=f"s{index % 3}", ties=RunLinks(then=(new_run(),))) for index in range(10)
        ]
        await until_answered(lambda: lossy.submit(batch))
        mine = {new.id for new in batch}

        reply = await step_until_answered(hand, hand.step(room=1))
        while reply.claimed:
            [run] = reply.claimed
            if run.id not in mine or run.memos == 2:
                leaving = [follow_up(run)] if run.id in mine else []
                reply = await step_until_answered(hand, hand.succeed(run, room=1, leaving=leaving))
            elif run.memos == 1:
                reply = await step_until_answered(hand, hand.wait(run, child_of(run), room=1))
            else:
                await step_until_answered(hand, hand.wait(run, "ok"))
                await until_answered(partial(lossy.change_run, f"answer {run.id}", run.id, Answer("1")))
                reply = await step_until_answered(hand, hand.step(room=1))

        assert (await store.depths()).runs == {"succeeded": 40}
        assert lossy.faults > 20
        for run_id in mine:
            assert Counter(await kinds(store, run_id)) == Counter(
                {"started": 3, **dict.fromkeys(("question", "answered", "called", "returned", "result", "done"), 1)}
            )

    async def test_a_repeat_of_a_lost_incarnation_is_told_so(self, store: Store) -> None:
        hand, _ = await one_running(store)
        await hand.leave()

        with pytest.raises(LeaseLost):
            await hand.repeat_last()
