"""Inboxes: messages that steer an active run, and what becomes of those it never read."""

from __future__ import annotations

from typing import Unpack

import pytest

from laneway.core.lifecycle.outcome import Cancelled, Failed, Outcome, Succeeded
from laneway.core.lifecycle.step import Requested
from laneway.core.records.policy import Mode, SessionPolicy
from laneway.core.records.run import Claimed, MessageKind, NewRun, Receipt, ReceiptOutcome, Request
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause, Resume
from laneway.ports.sessions import Extent
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, error, new_run
from tests.contract.suite.frame import Part, counts, ids, kinds, start_order, states
from tests.support.sessions import session_of

ACCEPTED, STEERED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.STEERED
STEER = SessionPolicy(mode=Mode.STEER)
INBOX = Fields(session="chat", policy=STEER)


def message(name: str, **fields: Unpack[Fields]) -> NewRun:
    """Return a message that steers the session."""
    return new_run(name, **INBOX | fields)


async def steered(store: Store, *names: str, hand: Hand) -> Claimed:
    """Return a run that is running, with these messages in its inbox."""
    await store.submit([new_run("a", session="chat")])
    [claimed] = await hand.claim(1)
    if names:
        await store.submit([message(name) for name in names])
    return claimed


class TestInboxes(Part):
    """Mode `steer`, `Requested.messages` and `Result.read`."""

    async def test_a_message_lies_in_the_inbox_of_the_active_run(self, store: Store) -> None:
        hand = await Hand(store).register()
        await steered(store, hand=hand)

        [receipt] = await store.submit([message("m", args={"n": 1}, user="bob")])

        assert receipt == Receipt(STEERED, "a")
        [taken] = await store.messages("a")
        assert (taken.id, taken.kind, taken.nth, taken.user) == ("m", MessageKind.STEERED, 1, "bob")
        assert await kinds(store, "a") == ["started", "steered"]
        assert await counts(store) == {"steered": 1}
        assert (await store.depths()).runs == {"running": 1}

    async def test_the_worker_is_woken_and_told_with_every_answer(self, store: Store) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, hand=hand)
        await hand.rest()
        before = hand.woken

        await store.submit([message("m1"), message("m2")])

        assert await hand.hears()
        assert hand.woken > before
        told = [Requested(claimed.number, claimed.fence, Request.STEER, 2)]
        assert (await hand.step()).requests == told
        assert hand.renew().requests == told
        assert (await hand.repeat_last()).requests == told

    async def test_a_repeated_claim_tells_what_had_come_when_it_was_made(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat")])
        first = await hand.step(room=1)
        await store.submit([message("m1"), message("m2")])

        again = await hand.repeat_last()

        assert again.claimed == first.claimed
        assert [asked.messages for asked in again.requests] == [2]

    async def test_a_cancel_and_an_inbox_are_both_told(self, store: Store) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m", hand=hand)
        await store.change_run("c", "a", Cancel())

        requests = (await hand.step()).requests

        assert [(asked.number, asked.request, asked.messages) for asked in requests] == [
            (claimed.number, Request.CANCEL, 0),
            (claimed.number, Request.STEER, 1),
        ]

    async def test_the_next_attempt_is_told_from_the_start(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", hand=hand)
        await hand.fail(claimed)
        await store.submit([message("m2")])
        await clock.advance(60)

        reply = await hand.step(room=1)

        [again] = reply.claimed
        assert again.messages == 2
        assert reply.requests == [Requested(again.number, again.fence, Request.STEER, 2)]

    async def test_the_youngest_active_run_of_the_same_task_takes_it(self, store: Store) -> None:
        hand = await Hand(store, tasks={"work", "mail"}).register()
        await store.submit(
            [
                new_run("a", session="chat", max_concurrent=4),
                new_run("b", session="chat"),
                new_run("c", session="chat", task="mail"),
            ]
        )
        await hand.claim(9)

        receipts = await store.submit([message("m1"), message("m2", task="mail"), message("m3", task="scan")])

        assert [(receipt.outcome, receipt.run_id) for receipt in receipts] == [
            (STEERED, "b"),
            (STEERED, "c"),
            (ACCEPTED, "m3"),
        ]

    async def test_a_run_that_is_to_be_cancelled_takes_no_more(self, store: Store) -> None:
        hand = await Hand(store).register()
        await steered(store, hand=hand)
        await store.change_run("c", "a", Cancel())

        assert await store.submit([message("m")]) == [Receipt(ACCEPTED, "m", position=1)]

    async def test_a_run_between_attempts_or_paused_takes_it(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, hand=hand)
        await hand.fail(claimed)
        await store.submit([message("m1")])
        await store.change_run("c1", "a", Pause())
        await store.submit([message("m2")])
        await clock.advance(60)
        await store.change_run("c2", "a", Resume())

        reply = await hand.step(room=1)

        assert [asked.messages for asked in reply.requests] == [2]

    async def test_what_was_read_is_done_with_the_run(self, store: Store) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", "m2", hand=hand)

        await hand.succeed(claimed, read=2)

        assert (await store.depths()).runs == {"succeeded": 1}
        assert await session_of(store, "chat") is None

    @pytest.mark.parametrize("outcome", [Succeeded("1"), Failed(error(kind="bad_result")), Cancelled()])
    async def test_what_is_unread_becomes_a_run_when_the_run_ends(self, store: Store, outcome: Outcome) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", "m2", "m3", hand=hand)
        await store.submit([new_run("next", session="chat")])
        if isinstance(outcome, Cancelled):
            await store.change_run("c", "a", Cancel())

        await hand.settle([claimed], outcome, read=1)

        run = await store.get("m2")
        assert (run.state, run.messages, run.session) == (RunState.PENDING, 1, "chat")
        [merged] = await store.messages("m2")
        assert (merged.id, merged.kind, merged.nth) == ("m3", MessageKind.MERGED, 1)
        assert await kinds(store, "m2") == ["merged"]
        assert await counts(store) == {"steered": 3}
        assert await start_order(hand) == ["next", "m2"]

    async def test_each_task_and_user_gets_a_run_of_its_own_in_its_lane(self, store: Store) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, hand=hand)
        await store.submit(
            [
                message("m1", user="ann", lane="team", priority=3),
                message("m2", user="bob"),
                message("m3", user="ann"),
                message("m4"),
            ]
        )

        await hand.succeed(claimed)

        runs = [await store.get(name) for name in ("m1", "m2", "m4")]
        assert [(run.user, run.lane, run.priority, run.messages) for run in runs] == [
            ("ann", "team", 3, 1),
            ("bob", "main", 0, 0),
            (None, "main", 0, 0),
        ]
        assert (await store.depths()).runs == {"succeeded": 1, "pending": 3}
        assert await start_order(hand) == ["m1", "m2", "m4"]

    async def test_no_newcomer_gets_between_the_run_and_what_it_left_unread(self, store: Store) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", hand=hand)

        assert ids((await hand.succeed(claimed, room=1)).claimed) == ["m1"]

    async def test_a_retry_makes_no_runs_and_the_last_attempts_count_decides(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", "m2", hand=hand)
        await hand.settle([claimed], Failed(error()), read=2)
        assert (await store.depths()).runs == {"pending": 1}
        await clock.advance(60)

        [again] = await hand.claim(1)
        await hand.succeed(again, read=1)

        assert await states(store, "m2") == [RunState.PENDING]
        assert (await store.depths()).runs == {"succeeded": 1, "pending": 1}

    async def test_a_run_cancelled_between_attempts_leaves_what_its_last_attempt_did_not_read(
        self, store: Store
    ) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", "m2", hand=hand)
        await hand.settle([claimed], Failed(error()), read=1)

        await store.change_run("c", "a", Cancel())

        assert await states(store, "a", "m2") == [RunState.CANCELLED, RunState.PENDING]

    @pytest.mark.parametrize("names", [(), ("m1",)])
    async def test_what_comes_after_an_attempt_was_not_read_by_it_whatever_it_says(
        self, store: Store, names: tuple[str, ...]
    ) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, *names, hand=hand)
        await hand.settle([claimed], Failed(error()), read=5)
        await store.submit([message("m2")])

        await store.change_run("c", "a", Cancel())

        assert await start_order(hand) == ["m2"]

    async def test_an_interrupt_drops_what_is_unread(self, store: Store) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", "m2", hand=hand)
        await store.submit([new_run("i", session="chat", policy=SessionPolicy(mode=Mode.INTERRUPT))])

        reply = await hand.step(results=[hand.result(claimed, Cancelled(), read=1)], room=9)

        assert ids(reply.claimed) == ["i"]
        assert await counts(store) == {"steered": 2, "dropped unread": 1}
        assert (await store.depths()).runs == {"cancelled": 1, "running": 1}

    @pytest.mark.parametrize("abandon", [False, True])
    async def test_stop_all_drops_what_is_unread(self, store: Store, abandon: bool) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", "m2", hand=hand)

        await store.stop("c", "chat", Extent.ABANDON if abandon else Extent.ALL)
        await hand.step(results=[hand.result(claimed, Cancelled())])

        assert await counts(store) == {"steered": 2, "dropped unread": 2}
        assert (await store.depths()).runs == {"cancelled": 1}
        assert await session_of(store, "chat") is None

    async def test_a_run_cancelled_first_and_interrupted_then_drops_its_inbox(self, store: Store) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", hand=hand)
        await store.change_run("c", "a", Cancel())
        await store.stop("s", "chat", Extent.ALL)

        await hand.stop(claimed)

        assert await counts(store) == {"steered": 1, "dropped unread": 1}

    @pytest.mark.parametrize("mode", [Mode.STEER, Mode.COLLECT])
    async def test_a_repeated_message_gets_its_first_receipt_and_changes_nothing(
        self, store: Store, mode: Mode
    ) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, hand=hand)
        await store.submit([new_run("q", session="chat")])
        repeated = new_run("m", session="chat", policy=SessionPolicy(mode=mode))
        taker = "a" if mode is Mode.STEER else "q"
        first = Receipt(ReceiptOutcome(MessageKind.STEERED if mode is Mode.STEER else MessageKind.MERGED), taker)

        assert await store.submit([repeated, repeated]) == [first, first]
        assert await store.submit([repeated]) == [first]
        assert len(await store.messages(taker)) == 1
        await hand.succeed(claimed)
        assert await store.submit([repeated]) == [first]
        if mode is Mode.STEER:
            assert await states(store, "m") == [RunState.PENDING]
        await start_order(hand)

        assert await store.submit([repeated]) == [first]

    async def test_a_message_taken_twice_is_known_by_whom_it_was_taken_first_until_that_is_pruned(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        claimed = await steered(store, "m1", "m2", hand=hand)
        await hand.fail(claimed, failure=error(kind="bad_result"))
        await start_order(hand)
        await clock.advance(60)
        await store.prune(OldRuns({RunState.SUCCEEDED: 0}))

        assert await store.submit([message("m2")]) == [Receipt(STEERED, "a")]
        await store.prune(OldRuns({RunState.FAILED: 0}))

        assert (await store.depths()).runs == {}
        assert (await store.submit([message("m2")]))[0].outcome is ACCEPTED

    async def test_a_lapse_loses_no_message(self, store: Store) -> None:
        dead, heir = await Hand(store, "dead").register(), await Hand(store, "heir").register()
        await steered(store, "m1", hand=dead)
        await dead.leave()
        lapsed = (await heir.reclaim()).lapsed
        await store.submit([message("m2")])
        assert (await heir.step()).requests == []
        await heir.lapse(*lapsed)

        reply = await heir.step(room=1)

        assert [asked.messages for asked in reply.requests] == [2]
