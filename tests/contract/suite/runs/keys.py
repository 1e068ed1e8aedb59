"""Keys: the same submission again gets what the first one made."""

from __future__ import annotations

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.common.keys import KEPT
from laneway.core.records.policy import Lane, Mode, SessionPolicy, WhenFull
from laneway.core.records.run import Receipt, ReceiptOutcome
from laneway.core.records.states import TERMINAL, RunState
from laneway.ports.control import Cancel
from laneway.ports.sessions import Extent
from laneway.ports.settings import TaskDisabled
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, error, new_run
from tests.contract.suite.frame import Part, counts, start_order
from tests.support.sessions import session_of

ACCEPTED, EXISTING, REFUSED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.EXISTING, ReceiptOutcome.REFUSED
DAY = KEPT / SECOND
EVERYTHING = dict.fromkeys(TERMINAL, 0)


class TestKeys(Part):
    """`NewRun.key`."""

    async def test_the_same_key_gets_the_run_and_the_state_it_is_in(self, store: Store) -> None:
        hand = await Hand(store).register()
        first, second = await store.submit(
            [new_run("a", key="k", args={"x": 1, "y": 2}), new_run("b", key="k", args={"y": 2, "x": 1})]
        )
        assert (first, second) == (Receipt(ACCEPTED, "a"), Receipt(EXISTING, "a", state=RunState.PENDING))

        [claimed] = await hand.claim(1)
        again = new_run("c", key="k", args={"x": 1, "y": 2})
        assert await store.submit([again]) == [Receipt(EXISTING, "a", state=RunState.RUNNING)]
        await hand.succeed(claimed)

        assert await store.submit([again]) == [Receipt(EXISTING, "a", state=RunState.SUCCEEDED)]
        assert (await store.depths()).runs == {"succeeded": 1}
        assert await counts(store) == {}

    @pytest.mark.parametrize("other", [Fields(task="mail"), Fields(user="bob"), Fields(user=None), Fields(key="l")])
    async def test_a_key_is_unique_per_task_and_user(self, store: Store, other: Fields) -> None:
        mine = Fields(user="ann", key="k")
        await store.submit([new_run("a", **mine)])

        [receipt] = await store.submit([new_run("b", **mine | other)])

        assert (receipt.outcome, receipt.run_id) == (ACCEPTED, "b")

    async def test_lanes_sessions_and_priorities_do_not_make_it_another(self, store: Store) -> None:
        await store.submit([new_run("a", key="k")])

        [receipt] = await store.submit([new_run("b", key="k", lane="team", session="chat", priority=3, delay=5)])

        assert receipt == Receipt(EXISTING, "a", state=RunState.PENDING)
        assert await session_of(store, "chat") is None

    async def test_a_key_with_other_arguments_is_a_conflict(self, store: Store) -> None:
        await store.submit([new_run("a", key="k", args={"x": 1})])

        [receipt] = await store.submit([new_run("b", key="k", args={"x": 2})])

        assert receipt == Receipt(REFUSED, "a", "key_conflict")
        assert await counts(store) == {"refused key_conflict": 1}
        assert (await store.depths()).runs == {"pending": 1}

    async def test_an_id_the_store_has_seen_comes_before_its_key(self, store: Store) -> None:
        await store.submit([new_run("a", key="k"), new_run("b")])

        assert await store.submit([new_run("a", key="k"), new_run("b", key="k")]) == [
            Receipt(ACCEPTED, "a"),
            Receipt(ACCEPTED, "b"),
        ]

    async def test_what_is_refused_stores_no_key(self, store: Store) -> None:
        await store.set(TaskDisabled("work", disabled=True))
        await store.submit([new_run("a", key="k")])
        await store.set(TaskDisabled("work", disabled=False))
        await store.declare_lanes([Lane("main", max_pending=1, when_full=WhenFull.WAIT)])
        await store.submit([new_run("first")])
        await store.submit([new_run("b", key="k")])
        await store.declare_lanes([Lane("main")])

        [receipt] = await store.submit([new_run("c", key="k", args={"x": 1})])

        assert (receipt.outcome, receipt.run_id) == (ACCEPTED, "c")

    async def test_a_failed_or_cancelled_run_keeps_its_key(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", key="k")])
        await hand.fail(*await hand.claim(1), failure=error(kind="bad_result"))
        await store.submit([new_run("b", key="l")])
        await store.change_run("c", "b", Cancel())

        receipts = await store.submit([new_run("c", key="k"), new_run("d", key="l")])

        assert receipts == [
            Receipt(EXISTING, "a", state=RunState.FAILED),
            Receipt(EXISTING, "b", state=RunState.CANCELLED),
        ]

    async def test_a_dropped_run_frees_its_key_and_those_of_what_it_took(self, store: Store) -> None:
        policy = SessionPolicy(mode=Mode.COLLECT)
        await store.submit([new_run("a", key="k", session="chat", policy=policy)])
        await store.submit([new_run("m", key="l", session="chat", policy=policy)])
        await store.stop("c", "chat", Extent.ALL)

        receipts = await store.submit([new_run("b", key="k"), new_run("c", key="l")])

        assert [(receipt.outcome, receipt.run_id) for receipt in receipts] == [(ACCEPTED, "b"), (ACCEPTED, "c")]

    @pytest.mark.parametrize("mode", [Mode.COLLECT, Mode.STEER])
    async def test_the_key_of_a_message_stands_for_the_run_that_took_it(self, store: Store, mode: Mode) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat", args={"x": 0})])
        if mode is Mode.STEER:
            await hand.claim(1)
        state = RunState.RUNNING if mode is Mode.STEER else RunState.PENDING
        await store.submit([new_run("m", key="k", session="chat", policy=SessionPolicy(mode=mode), args={"x": 1})])

        same, other = await store.submit([new_run("n", key="k", args={"x": 1}), new_run("o", key="k", args={"x": 0})])

        assert same == Receipt(EXISTING, "a", state=state)
        assert other == Receipt(REFUSED, "a", "key_conflict")
        assert (await store.get("a")).messages == 1

    async def test_a_key_is_kept_for_a_day_though_its_run_is_pruned(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", key="k")])
        await start_order(hand)
        await clock.advance(60)
        assert await store.prune(OldRuns(EVERYTHING)) == 1

        assert await store.submit([new_run("b", key="k")]) == [Receipt(EXISTING, "a")]
        assert await store.submit([new_run("b", key="k", args={"x": 1})]) == [Receipt(REFUSED, "a", "key_conflict")]
        await clock.advance(DAY)
        await store.prune(OldRuns(EVERYTHING))

        assert await store.submit([new_run("b", key="k")]) == [Receipt(ACCEPTED, "b")]

    async def test_a_key_is_kept_as_long_as_its_run(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", key="k")])
        await start_order(hand)
        await clock.advance(2 * DAY)
        await store.prune(OldRuns({}))

        assert await store.submit([new_run("b", key="k")]) == [Receipt(EXISTING, "a", state=RunState.SUCCEEDED)]
        await store.prune(OldRuns(EVERYTHING))

        assert await store.submit([new_run("b", key="k")]) == [Receipt(ACCEPTED, "b")]
