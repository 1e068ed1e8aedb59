"""Memos: results that a run keeps, so that no later attempt repeats the work.

A memo is written under the lease, by the step that saves it, and is there from then on: for the next attempt, whoever
executes it, however the one before ended, and for whoever looks at the run after its end. It is found by kind and name;
writing it again takes the place of the old one. `recall` returns memos by when they were written; a claim says how many
there are, so that a worker of a run without any asks nothing.
"""

from __future__ import annotations

import pytest

from laneway.core.lifecycle.outcome import Failed, Outcome, Released, Snoozed, Succeeded
from laneway.core.lifecycle.step import Saved
from laneway.core.records.codec import RESULT_LIMIT
from laneway.core.records.memos import Memo, MemoKind
from laneway.core.records.states import RunState
from laneway.ports.control import Answer
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from laneway.testing.waits import step_memo
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.frame import Part, kinds

ONE, TWO = step_memo("one", 1), step_memo("two", 2, nth=2)


async def recalled(store: Store, run_id: str = "a") -> list[Memo]:
    """Return the run's memos."""
    return (await store.recall(run_id)).memos


class TestMemos(Part):
    """`Saved.memo` and `RunStore.recall`."""

    async def test_what_was_saved_is_recalled_in_order(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        assert (claimed.memos, await recalled(store)) == (0, [])

        assert (await hand.keep(claimed, ONE)).refused == []
        await hand.keep(claimed, TWO, step_memo("an early name", nth=3))

        assert await recalled(store) == [ONE, TWO, step_memo("an early name", nth=3)]
        assert await kinds(store, "a") == ["started"]
        assert (await store.recall("a")).wait is None

    async def test_all_of_a_memo_comes_back(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        whole = Memo(kind=MemoKind.STEP, name="ü\\ '", value='"\\u0000ü"', about="a hash", nth=7, attempt=3)

        await hand.keep(claimed, whole, step_memo("nothing"))

        assert await recalled(store) == [whole, step_memo("nothing")]

    @pytest.mark.parametrize("outcome", [Released(), Failed(error()), Snoozed(5_000_000)], ids=str)
    async def test_the_next_attempt_is_told_how_many_there_are(
        self, store: Store, clock: FakeClock, outcome: Outcome
    ) -> None:
        hand, claimed = await one_running(store)
        await hand.keep(claimed, ONE, TWO)
        await hand.settle([claimed], outcome)
        await clock.advance(60)

        [again] = await hand.claim()

        assert again.memos == 2
        assert (await hand.repeat_last()).claimed == [again]
        assert await recalled(store) == [ONE, TWO]

    async def test_a_memo_of_the_same_kind_and_name_takes_the_place_of_the_old_one(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.keep(claimed, ONE, TWO)

        await hand.keep(claimed, step_memo("one", "new"))

        assert await recalled(store) == [TWO, step_memo("one", "new")]
        await hand.release(claimed)
        assert [run.memos for run in await hand.claim()] == [2]

    async def test_an_answer_and_a_step_of_one_name_are_two(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.keep(claimed, step_memo("ok", 1))
        await hand.wait(claimed, "ok")

        await store.change_run("c", "a", Answer("2"))

        assert [(memo.kind, memo.value) for memo in await recalled(store)] == [
            (MemoKind.STEP, "1"),
            (MemoKind.ANSWER, "2"),
        ]

    async def test_each_run_has_memos_of_its_own(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r"))
        first, second, third = await hand.claim(3)

        saved = [Saved(first.number, 1, memo=ONE), Saved(third.number, 1, memo=TWO), Saved(first.number, 1, memo=TWO)]
        await hand.step(saved=saved)

        assert [await recalled(store, run.id) for run in (first, second, third)] == [[ONE, TWO], [], [TWO]]

    async def test_it_survives_whoever_saved_it(self, store: Store) -> None:
        dead, claimed = await one_running(store, "dead")
        heir = await Hand(store, "heir").register()
        await dead.keep(claimed, ONE)
        await dead.leave()
        [lapsed] = (await heir.reclaim()).lapsed
        assert lapsed.memos == 1

        await heir.lapse(lapsed)

        assert [run.memos for run in await heir.claim()] == [1]
        assert await recalled(store) == [ONE]

    async def test_it_ends_a_row_of_crashes(self, store: Store) -> None:
        heir = await Hand(store, "heir").register()
        await store.submit([new_run("a")])
        for index in range(5):
            dead = await Hand(store, f"dead {index}").register()
            [claimed] = await dead.claim()
            await dead.keep(claimed, step_memo(f"step {index}"))
            await dead.leave()
            await heir.lapse(*(await heir.reclaim()).lapsed)

        run = await store.get("a")
        assert (run.state, run.crashes) == (RunState.PENDING, 1)

    async def test_it_is_there_after_the_end(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.keep(claimed, ONE)

        await hand.succeed(claimed)

        assert await recalled(store) == [ONE]

    async def test_the_step_that_settles_can_save_too(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        saved = Saved(claimed.number, claimed.fence, memo=ONE)

        reply = await hand.step(saved=[saved], results=[hand.result(claimed, Released())], room=1)

        assert reply.refused == []
        assert [run.memos for run in reply.claimed] == [1]
        assert await recalled(store) == [ONE]

    async def test_it_goes_along_with_a_checkpoint(self, store: Store) -> None:
        hand, claimed = await one_running(store)

        await hand.step(saved=[Saved(claimed.number, claimed.fence, '"state"', '{"n":1}', ONE)])
        await hand.release(claimed)

        [again] = await hand.claim()
        assert (again.state, again.prepared, again.memos) == ('"state"', '{"n":1}', 1)

    async def test_who_lost_the_lease_saves_nothing(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.release(claimed)
        await hand.claim()

        reply = await hand.keep(claimed, ONE)

        assert reply.refused == [(claimed.number, claimed.fence)]
        assert await recalled(store) == []

    async def test_a_repeated_step_saves_once(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.keep(claimed, ONE)
        late = hand.last
        await hand.keep(claimed, step_memo("one", "new"), TWO)

        await hand.repeat_last()
        await store.step(late)

        assert await recalled(store) == [step_memo("one", "new"), TWO]

    async def test_a_run_that_is_tried_again_by_hand_begins_without(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.keep(claimed, ONE)
        await hand.fail(claimed, failure=error(kind="bad_result"))

        await store.submit([new_run("b", retry_of="a")])

        assert [run.memos for run in await hand.claim()] == [0]
        assert await recalled(store, "b") == []

    async def test_many_and_large_ones_are_kept(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        memos = [step_memo(f"step {index:03d}", index, nth=index) for index in range(300)]
        large = step_memo("large", "x" * (RESULT_LIMIT - 2))

        await hand.keep(claimed, *reversed(memos))
        await hand.keep(claimed, large)

        assert await recalled(store) == [*reversed(memos), large]

    @pytest.mark.parametrize("outcome", [Succeeded("1"), Failed(error(kind="bad_result"))], ids=str)
    async def test_a_pruned_run_takes_its_memos_along(self, store: Store, clock: FakeClock, outcome: Outcome) -> None:
        hand, claimed = await one_running(store)
        await hand.keep(claimed, ONE)
        await hand.settle([claimed], outcome)
        await clock.advance(1)
        await store.prune(OldRuns({RunState.SUCCEEDED: 0, RunState.FAILED: 0}))

        await store.submit([new_run("a")])

        assert await recalled(store) == []
