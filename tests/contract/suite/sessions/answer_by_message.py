"""Answering by message: a session in which what comes while a run asks is the answer (`while_waiting="answer"`).

The message becomes no run. Its arguments are the answer to the first question of the oldest run of its user that asks;
it is kept with that run, so that a repeat of it, and its key, are known. In every other way it is an answer: the run
goes on in the same step, or is paused if that was requested, and who comes next finds nobody asking.
"""

from __future__ import annotations

import pytest

from laneway.core.records.memos import MemoKind
from laneway.core.records.policy import Lane, Mode, SessionPolicy, WhenFull, WhileWaiting
from laneway.core.records.run import MessageKind, Receipt, ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.errors import NotWaiting
from laneway.ports.control import Answer, Pause, Resume
from laneway.ports.store import Store
from laneway.testing.hand import Hand, new_run
from tests.contract.suite.attempts.memos import recalled
from tests.contract.suite.frame import Part, counts, ids, kinds, start_order, states
from tests.contract.suite.sessions.while_waiting import ANSWERED, ask_in_chat, message
from tests.contract.suite.waits.questions import answer_memo, started
from tests.support.child_runs import child_of

W, P = RunState.WAITING, RunState.PENDING
ACCEPTED, STEERED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.STEERED
HEEDED = [Mode.QUEUE, Mode.COLLECT, Mode.STEER]


class TestAnswerByMessage(Part):
    """`while_waiting="answer"`."""

    @pytest.mark.parametrize("mode", HEEDED)
    async def test_the_message_is_the_answer(self, store: Store, mode: Mode) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.submit([message("b", user="bob")])

        receipts = await store.submit([message("m", mode, args={"text": "yes"})])

        assert receipts == [ANSWERED]
        assert await recalled(store) == [answer_memo('{"text":"yes"}')]
        assert await kinds(store, "a") == ["started", "question", "answered"]
        assert (await store.events("a"))[-1].data == {"name": "ok", "answer": {"text": "yes"}}
        [taken] = await store.messages("a")
        assert (taken.id, taken.kind, taken.nth, taken.user) == ("m", MessageKind.ANSWERED, 1, "ann")
        assert await counts(store) == {"answered": 1}
        assert (await store.depths()).runs == {"pending": 2}
        reply = await hand.step(room=5)
        assert (ids(reply.claimed), reply.requests) == (["a"], [])

    async def test_a_repeat_gets_the_same_receipt_and_answers_nothing_else(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER)

        assert await store.submit([message(), message()]) == [ANSWERED, ANSWERED]
        [again] = await hand.claim()
        await hand.wait(again, "next")
        assert await store.submit([message()]) == [ANSWERED]
        assert await states(store, "a") == [W]
        await store.change_run("c", "a", Answer("1"))
        await hand.succeed(*await hand.claim())

        assert await store.submit([message()]) == [ANSWERED]
        assert (await store.depths()).runs == {"succeeded": 1}

    async def test_its_key_stands_for_the_run(self, store: Store) -> None:
        await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.submit([message("m", key="k", args={"n": 1})])

        receipts = await store.submit([message("n", key="k", args={"n": 1}), message("o", key="k", args={"n": 2})])

        assert receipts == [
            Receipt(ReceiptOutcome.EXISTING, "a", state=P),
            Receipt(ReceiptOutcome.REFUSED, "a", "key_conflict"),
        ]

    async def test_the_next_message_finds_nobody_asking(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER)

        receipts = await store.submit([message("m1"), message("m2")])

        assert receipts == [ANSWERED, Receipt(ACCEPTED, "m2", position=1)]
        assert await start_order(hand) == ["a", "m2"]

    async def test_the_oldest_that_asks_is_answered_and_its_first_question(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER, "one", "two", most=2)
        await store.submit([message("x", inside=True)])
        [other] = await hand.claim()
        await hand.wait(other, "ok")

        await store.submit([message(args={"n": 1})])
        assert await states(store, "a", "x") == [P, W]
        assert [(memo.kind, memo.name) for memo in await recalled(store)] == [(MemoKind.ANSWER, "one")]

        assert await store.submit([message("n")]) == [Receipt(STEERED, "x", "answered")]

    async def test_it_counts_for_a_run_that_waits_for_a_called_run_too(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat", policy=SessionPolicy(while_waiting="answer"))
        await hand.wait(claimed, "ok", child_of(claimed, delay=60))

        assert await store.submit([message()]) == [ANSWERED]

    async def test_a_person_s_answer_that_comes_later_is_too_late(self, store: Store) -> None:
        await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.submit([message()])

        with pytest.raises(NotWaiting):
            await store.change_run("c", "a", Answer("1"))

    async def test_it_passes_a_lane_that_is_full(self, store: Store) -> None:
        await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.declare_lanes([Lane("main", max_pending=1, when_full=WhenFull.REFUSE)])
        await store.submit([new_run("b")])

        assert await store.submit([message()]) == [ANSWERED]

    async def test_a_requested_pause_takes_hold(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat", policy=SessionPolicy(while_waiting="answer"))
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, "ok")

        assert await store.submit([message()]) == [ANSWERED]

        assert await states(store, "a") == [RunState.PAUSED]

    async def test_a_pause_that_was_taken_back_leaves_it_asking(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat", policy=SessionPolicy(while_waiting="answer"))
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, "ok")
        await store.change_run("r", "a", Resume())

        assert await store.submit([message()]) == [ANSWERED]

        assert await states(store, "a") == [P]

    async def test_a_resting_worker_is_woken(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER)
        await hand.rest()

        await store.submit([message()])

        assert await hand.hears()

    async def test_a_message_s_other_rules_are_taken_too(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.submit([message("b", user="bob")])

        policy = SessionPolicy(max_concurrent=2)
        assert await store.submit([message(policy=policy)]) == [ANSWERED]

        assert sorted(ids(await hand.claim(5))) == ["a", "b"]

    async def test_answers_stand_before_what_was_merged_and_steered(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([message("a", rule=WhileWaiting.ANSWER), message("merged", Mode.COLLECT)])
        [claimed] = await hand.claim()
        await store.submit([message("steered", Mode.STEER)])
        await hand.wait(claimed, "ok")
        await store.submit([message("answered")])
        [again] = await hand.claim()
        await hand.wait(again, "next")
        await store.submit([message("answered too")])

        taken = await store.messages("a")

        assert [(one.id, one.kind.value, one.nth) for one in taken] == [
            ("answered", "answered", 1),
            ("answered too", "answered", 2),
            ("merged", "merged", 1),
            ("steered", "steered", 1),
        ]
        assert [one.id for one in await store.messages("a", after=2, limit=1)] == ["merged"]
        reply = await hand.step(room=1)
        assert [run.messages for run in reply.claimed] == [4]
        assert [asked.messages for asked in reply.requests] == [1]

    async def test_an_answer_that_was_not_steered_is_not_left_over(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.submit([message()])

        await hand.succeed(*await hand.claim())

        assert (await store.depths()).runs == {"succeeded": 1}

    async def test_a_run_that_is_tried_again_by_hand_does_not_inherit_it(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.submit([message()])
        await hand.succeed(*await hand.claim())

        await store.submit([new_run("b", retry_of="a")])

        assert (await store.messages("b"), await recalled(store, "b")) == ([], [])
