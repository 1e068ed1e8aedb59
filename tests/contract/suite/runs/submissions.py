"""Submitting: receipts, acceptance, repeats, what is kept of a submission."""

from __future__ import annotations

import pytest

from laneway.core.common.instants import instant
from laneway.core.records.codec import ARGS_LIMIT
from laneway.core.records.policy import Lane
from laneway.core.records.run import ReceiptOutcome, Run
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part
from tests.support.invariants import all_runs
from tests.support.sessions import session_of

SPECIAL = "'; drop table runs; -- \" % _ * ? [a] {x} \\ $1 :x ключ 鍵 🗝"


class TestSubmissions(Part):
    """`RunStore.submit`."""

    async def test_every_submission_gets_an_accepted_receipt_in_the_order_of_the_batch(self, store: Store) -> None:
        receipts = await store.submit([new_run("b"), new_run("a"), new_run("c")])

        assert [(receipt.outcome, receipt.run_id) for receipt in receipts] == [
            (ReceiptOutcome.ACCEPTED, "b"),
            (ReceiptOutcome.ACCEPTED, "a"),
            (ReceiptOutcome.ACCEPTED, "c"),
        ]
        assert [(receipt.reason, receipt.position) for receipt in receipts] == [(None, None), (None, 1), (None, 2)]

    async def test_a_submitted_run_is_pending_and_reads_as_it_was_given(self, store: Store, clock: FakeClock) -> None:
        new = new_run("a", args={"doc": 42}, lane="team", user="ann", session="chat", priority=-7, delay=90)

        await store.submit([new])

        run = await store.get("a")
        assert run == Run(
            id="a",
            number=run.number,
            task=new.task,
            args={"doc": 42},
            lane="team",
            user="ann",
            session="chat",
            priority=-7,
            state=RunState.PENDING,
            attempt=1,
            fence=0,
            crashes=0,
            accepted_at=instant(clock.now()),
            due_at=instant(clock.now() + new.delay),
        )

    async def test_a_run_that_has_not_started_has_an_empty_log(self, store: Store) -> None:
        await store.submit([new_run("a")])

        assert await store.events("a") == []

    async def test_acceptance_numbers_grow_within_a_batch_and_from_batch_to_batch(self, store: Store) -> None:
        await store.submit([new_run("c"), new_run("a", delay=60)])
        await store.submit([new_run("d", lane="team"), new_run("b", user="ann")])

        runs = await all_runs(store)
        assert [run.id for run in runs] == ["c", "a", "d", "b"]

    async def test_an_empty_batch_changes_nothing(self, store: Store) -> None:
        assert await store.submit([]) == []

        assert (await store.depths()).runs == {}

    async def test_a_repeated_submission_changes_nothing_and_is_accepted_again(
        self, store: Store, clock: FakeClock
    ) -> None:
        batch = [new_run("a"), new_run("b", delay=60)]
        receipts = await store.submit(batch)
        before = await all_runs(store)
        await clock.advance(1)

        again = await store.submit(batch)

        assert again == receipts
        assert await all_runs(store) == before

    async def test_a_repeat_is_known_by_its_id_alone(self, store: Store) -> None:
        await store.submit([new_run("a", args={"n": 1})])

        await store.submit([new_run("a", args={"n": 2}, lane="team", user="ann", priority=9)])

        [run] = await all_runs(store)
        assert (run.args, run.lane, run.user, run.priority) == ({"n": 1}, "main", None, 0)

    async def test_of_a_partly_repeated_batch_only_the_new_runs_are_added(self, store: Store) -> None:
        await store.submit([new_run("a"), new_run("b")])

        receipts = await store.submit([new_run("b"), new_run("c"), new_run("a"), new_run("d")])

        assert [receipt.run_id for receipt in receipts] == ["b", "c", "a", "d"]
        assert {receipt.outcome for receipt in receipts} == {ReceiptOutcome.ACCEPTED}
        assert [run.id for run in await all_runs(store)] == ["a", "b", "c", "d"]

    async def test_an_id_that_stands_twice_in_a_batch_is_one_run(self, store: Store) -> None:
        receipts = await store.submit([new_run("a", args={"n": 1}), new_run("a", args={"n": 2})])

        assert [receipt.run_id for receipt in receipts] == ["a", "a"]
        [run] = await all_runs(store)
        assert run.args == {"n": 1}

    async def test_a_repeat_while_the_run_is_running_or_after_it_ended_does_not_start_it_again(
        self, store: Store
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        [claimed] = await hand.claim()

        await store.submit([new_run("a")])
        assert await hand.claim() == []
        await hand.succeed(claimed)
        await store.submit([new_run("a")])

        assert await hand.claim() == []
        run = await store.get("a")
        assert (run.state, run.fence) == (RunState.SUCCEEDED, 1)

    async def test_a_repeat_takes_no_second_place_in_the_session(self, store: Store) -> None:
        batch = [new_run("a", session="chat"), new_run("b", session="chat")]
        await store.submit(batch)

        await store.submit(batch)

        state = await session_of(store, "chat")
        assert state is not None
        assert (state.active, state.queued) == (0, 2)

    async def test_an_unknown_lane_becomes_main_and_the_receipt_says_so(self, store: Store) -> None:
        [receipt] = await store.submit([new_run("a", lane="nowhere")])

        assert (receipt.outcome, receipt.reason) == (ReceiptOutcome.ACCEPTED, "lane_unknown")
        assert (await store.get("a")).lane == "main"

    async def test_an_unknown_lane_does_not_touch_its_neighbours(self, store: Store) -> None:
        receipts = await store.submit([new_run("a", lane="team"), new_run("b", lane="nowhere"), new_run("c")])

        assert [receipt.reason for receipt in receipts] == [None, "lane_unknown", None]
        assert [run.lane for run in await all_runs(store)] == ["team", "main", "main"]

    async def test_a_repeat_says_lane_unknown_again_though_the_lane_exists_by_now(self, store: Store) -> None:
        receipts = await store.submit([new_run("a", lane="late")])
        await store.declare_lanes([Lane("late")])

        assert await store.submit([new_run("a", lane="late")]) == receipts
        assert (await store.get("a")).lane == "main"

    async def test_a_receipt_tells_how_many_of_the_session_are_ahead(self, store: Store) -> None:
        receipts = await store.submit([new_run(session="chat") for _ in range(3)] + [new_run(session="other")])

        assert [receipt.position for receipt in receipts] == [None, 1, 2, None]

    @pytest.mark.parametrize(
        "args",
        [
            {"text": "Übergröße, 東京, עברית, 🦜, \u202e, e\u0301"},
            {"text": "before\x00after", "key\x00": ["\x00"]},
            {"text": "line\nline\r\n\ttab \\ \" ' \u2028 \x7f"},
            {"nested": {"list": [1, [2, [3, {"deep": None}]]], "empty": {}, "nothing": []}},
            {"int": 2**53 + 1, "huge": 2**80, "float": 0.1, "small": 5e-324, "minus": -0.0, "yes": True, "no": None},
            {"": "an empty name"},
            {},
        ],
        ids=["scripts", "nul", "control", "nested", "numbers", "empty name", "empty"],
    )
    async def test_arguments_come_back_as_they_were(self, store: Store, args: dict[str, object]) -> None:
        hand = await Hand(store).register()
        new = new_run("a", args=args)

        await store.submit([new])

        assert (await store.get("a")).args == args
        [claimed] = await hand.claim()
        assert claimed.args == new.args

    async def test_arguments_of_the_largest_size_are_kept_whole(self, store: Store) -> None:
        text = "ä" * ((ARGS_LIMIT - 20) // 2)

        await store.submit([new_run("a", args={"text": text})])

        assert (await store.get("a")).args == {"text": text}

    async def test_names_may_hold_any_character(self, store: Store) -> None:
        hand = await Hand(store, tasks={SPECIAL}).register()
        await store.declare_lanes([Lane(SPECIAL, limit=1, per_user=1)])

        await store.submit(
            [new_run(f"{index}", task=SPECIAL, lane=SPECIAL, user=SPECIAL, session=SPECIAL) for index in range(2)]
        )

        [claimed] = await hand.claim(2)
        assert (claimed.task, claimed.lane, claimed.user, claimed.session) == (SPECIAL,) * 4
        state = await session_of(store, SPECIAL)
        assert state is not None
        assert (state.name, state.active, state.queued) == (SPECIAL, 1, 1)

    async def test_names_that_differ_in_case_or_form_are_different(self, store: Store) -> None:
        names = ["straße", "STRASSE", "strasse", "e\u0301", "é", "a", "a "]

        await store.submit([new_run(name, user=name, session=name) for name in names])

        assert [run.user for run in await all_runs(store)] == names
        assert [(await store.get(name)).id for name in names] == names
        for name in names:
            state = await session_of(store, name)
            assert state is not None
            assert state.queued == 1

    async def test_a_batch_of_many_hundreds_is_accepted_whole_and_in_order(self, store: Store) -> None:
        batch = new_runs(1201, "many")

        receipts = await store.submit(batch)

        assert [receipt.run_id for receipt in receipts] == [new.id for new in batch]
        assert [run.id for run in await all_runs(store)] == [new.id for new in batch]
        assert (await store.depths()).runs == {"pending": 1201}
