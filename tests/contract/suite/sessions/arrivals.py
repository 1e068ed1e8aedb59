"""Arrivals: what a message does to a session that is busy, by its mode and the session's rules."""

from __future__ import annotations

import pytest

from laneway.core.queue.claim import MOST_MOVES
from laneway.core.records.policy import Mode, SessionPolicy
from laneway.core.records.run import MessageKind, Receipt, ReceiptOutcome, Request
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, counts, ids, kinds, reason, start_order, states

ACCEPTED, MERGED, STEERED, REFUSED = (
    ReceiptOutcome.ACCEPTED,
    ReceiptOutcome.MERGED,
    ReceiptOutcome.STEERED,
    ReceiptOutcome.REFUSED,
)
P, R, D = RunState.PENDING, RunState.RUNNING, RunState.DROPPED
# By mode and situation: the receipt, and what became of the queued run `q` and of the active one `a`.
TABLE = {
    (Mode.QUEUE, "idle"): (Receipt(ACCEPTED, "new"), None, None),
    (Mode.QUEUE, "queued"): (Receipt(ACCEPTED, "new", position=1), P, None),
    (Mode.QUEUE, "active"): (Receipt(ACCEPTED, "new", position=1), None, R),
    (Mode.QUEUE, "both"): (Receipt(ACCEPTED, "new", position=2), P, R),
    (Mode.COLLECT, "idle"): (Receipt(ACCEPTED, "new"), None, None),
    (Mode.COLLECT, "queued"): (Receipt(MERGED, "q"), P, None),
    (Mode.COLLECT, "active"): (Receipt(ACCEPTED, "new", position=1), None, R),
    (Mode.COLLECT, "both"): (Receipt(MERGED, "q"), P, R),
    (Mode.INTERRUPT, "idle"): (Receipt(ACCEPTED, "new"), None, None),
    (Mode.INTERRUPT, "queued"): (Receipt(ACCEPTED, "new"), D, None),
    (Mode.INTERRUPT, "active"): (Receipt(ACCEPTED, "new", position=1), None, R),
    (Mode.INTERRUPT, "both"): (Receipt(ACCEPTED, "new", position=1), D, R),
    (Mode.REJECT, "idle"): (Receipt(ACCEPTED, "new"), None, None),
    (Mode.REJECT, "queued"): (Receipt(REFUSED, "new", "session_busy"), P, None),
    (Mode.REJECT, "active"): (Receipt(REFUSED, "new", "session_busy"), None, R),
    (Mode.REJECT, "both"): (Receipt(REFUSED, "new", "session_busy"), P, R),
    (Mode.STEER, "idle"): (Receipt(ACCEPTED, "new"), None, None),
    (Mode.STEER, "queued"): (Receipt(ACCEPTED, "new", position=1), P, None),
    (Mode.STEER, "active"): (Receipt(STEERED, "a"), None, R),
    (Mode.STEER, "both"): (Receipt(STEERED, "a"), P, R),
}
COUNTED = {MERGED: "merged", STEERED: "steered", REFUSED: "refused session_busy"}


class TestArrivals(Part):
    """The five modes in every situation."""

    @pytest.mark.parametrize(("mode", "situation"), TABLE)
    async def test_what_a_message_does(self, store: Store, mode: Mode, situation: str) -> None:
        hand = await Hand(store).register()
        if situation in ("active", "both"):
            await store.submit([new_run("a", session="chat")])
            await hand.claim(1)
        if situation in ("queued", "both"):
            await store.submit([new_run("q", session="chat")])

        [receipt] = await store.submit([new_run("new", session="chat", policy=SessionPolicy(mode=mode))])

        expected, queued, active = TABLE[mode, situation]
        assert receipt == expected
        if queued is not None:
            assert await states(store, "q") == [queued]
        if active is not None:
            run = await store.get("a")
            assert (run.state, run.request is Request.CANCEL) == (active, mode is Mode.INTERRUPT)
        expected_counts = {COUNTED[receipt.outcome]: 1} if receipt.outcome in COUNTED else {}
        if queued is D:
            expected_counts["dropped interrupted"] = 1
        assert await counts(store) == expected_counts
        count = (await store.depths()).runs
        is_made = receipt.outcome is ACCEPTED
        assert sum(count.values()) == is_made + (queued is not None) + (active is not None)

    async def test_a_message_that_is_taken_is_an_event_of_the_run_that_took_it(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat")])
        await hand.claim(1)
        await store.submit([new_run("q", session="chat")])
        collect, steer = SessionPolicy(mode=Mode.COLLECT), SessionPolicy(mode=Mode.STEER)

        await store.submit(
            [
                new_run("m1", session="chat", policy=collect, args={"n": 1}),
                new_run("m2", session="chat", policy=collect, args={"n": 2}, lane="team", priority=3),
                new_run("s1", session="chat", policy=steer),
            ]
        )

        assert [(event.kind, event.data) for event in await store.events("q")] == [
            ("merged", {"message": "m1", "nth": 1}),
            ("merged", {"message": "m2", "nth": 2}),
        ]
        assert (await store.events("a"))[-1].data == {"message": "s1", "nth": 1}
        assert await kinds(store, "a") == ["started", "steered"]
        first, second = await store.messages("q")
        assert (first.id, first.kind, first.nth, first.args) == ("m1", MessageKind.MERGED, 1, '{"n":1}')
        assert (second.nth, second.lane, second.priority, second.user) == (2, "team", 3, None)
        assert [message.id for message in await store.messages("q", after=1)] == ["m2"]
        assert [message.id for message in await store.messages("q", limit=1)] == ["m1"]
        assert ((await store.get("q")).messages, (await store.get("a")).messages) == (2, 1)
        assert (await counts(store), await counts(store, "team")) == ({"merged": 1, "steered": 1}, {"merged": 1})

    @pytest.mark.parametrize("other", [{"user": "bob"}, {"task": "mail"}])
    async def test_a_message_is_collected_by_the_last_queued_run_of_its_task_and_user(
        self, store: Store, other: dict[str, str]
    ) -> None:
        await store.submit([new_run("q1", session="chat"), new_run("q2", session="chat")])
        policy = SessionPolicy(mode=Mode.COLLECT)

        [mine] = await store.submit([new_run("m1", session="chat", policy=policy)])
        [theirs] = await store.submit([new_run("m2", session="chat", policy=policy, **other)])  # type: ignore[arg-type] # a task or a user

        assert mine == Receipt(MERGED, "q2")
        assert theirs == Receipt(ACCEPTED, "m2", position=2)

    async def test_a_paused_run_that_is_queued_still_collects(self, store: Store) -> None:
        await store.submit(new_runs(2, "q", session="chat"))
        await store.change_run("c", "q-00001", Pause())

        [receipt] = await store.submit([new_run("m", session="chat", policy=SessionPolicy(mode=Mode.COLLECT))])

        assert receipt == Receipt(MERGED, "q-00001")

    async def test_an_interrupt_starts_when_all_it_cancelled_have_stopped(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat", max_concurrent=2))
        first, second = await hand.claim(9)

        policy = SessionPolicy(mode=Mode.INTERRUPT, max_concurrent=5)
        [receipt] = await store.submit([new_run("new", session="chat", policy=policy)])

        assert receipt == Receipt(ACCEPTED, "new", position=2)
        assert await states(store, "s-00002", "s-00003") == [D, D]
        assert [await reason(store, name) for name in ("s-00002", "s-00003")] == ["interrupted", "interrupted"]
        assert await kinds(store, "s-00002") == ["dropped", "done"]
        assert (await kinds(store, first.id))[-1] == "cancel_requested"
        assert await counts(store) == {"dropped interrupted": 2}
        assert (await hand.stop(first, room=9)).claimed == []
        assert ids((await hand.stop(second, room=9)).claimed) == ["new"]

    async def test_an_interrupt_ends_what_nobody_executes_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat", max_concurrent=3))
        retried, paused, running = await hand.claim(3)
        await hand.fail(retried)
        await store.change_run("c", paused.id, Pause())
        await hand.pause(paused)

        policy = SessionPolicy(mode=Mode.INTERRUPT)
        await store.submit([new_run("new", session="chat", policy=policy), new_run("next", session="chat")])

        assert await states(store, retried.id, paused.id) == [RunState.CANCELLED] * 2
        assert await hand.claim(9) == []
        assert ids((await hand.stop(running, room=9)).claimed) == ["new", "next"]

    async def test_what_comes_behind_an_interrupt_waits_behind_it(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat", max_concurrent=3))
        first, second = await hand.claim(9)
        policy = SessionPolicy(mode=Mode.INTERRUPT)
        await store.submit([new_run("new", session="chat", policy=policy), new_run("next", session="chat")])

        await hand.stop(first)
        await store.change_run("c", "new", Cancel())

        assert await hand.claim(9) == []
        assert ids((await hand.stop(second, room=9)).claimed) == ["next"]

    async def test_of_two_interrupts_the_second_drops_the_first(self, store: Store) -> None:
        hand = await Hand(store).register()
        policy = SessionPolicy(mode=Mode.INTERRUPT)
        await store.submit([new_run("a", session="chat")])
        claimed = await hand.claim(1)

        await store.submit([new_run(name, session="chat", policy=policy) for name in ("b", "c")])

        assert await states(store, "a", "b", "c") == [R, D, P]
        assert ids((await hand.stop(*claimed, room=9)).claimed) == ["c"]

    @pytest.mark.parametrize("mode", Mode)
    async def test_runs_of_the_future_are_left_alone(self, store: Store, clock: FakeClock, mode: Mode) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("later", session="chat", delay=5)])

        [receipt] = await store.submit([new_run("new", session="chat", policy=SessionPolicy(mode=mode))])

        assert receipt == Receipt(ACCEPTED, "new")
        await clock.advance(5)
        assert await start_order(hand) == ["new", "later"]

    @pytest.mark.parametrize("mode", Mode)
    async def test_what_is_for_later_or_made_by_the_engine_only_waits(self, store: Store, mode: Mode) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))
        await hand.claim(1)
        policy = SessionPolicy(mode=mode, cap=1)

        receipts = await store.submit(
            [
                new_run("later", session="chat", policy=policy, delay=5),
                new_run("inside", session="chat", policy=policy, inside=True),
            ]
        )

        assert [receipt.outcome for receipt in receipts] == [ACCEPTED, ACCEPTED]
        assert await states(store, "s-00000", "s-00001") == [R, P]
        assert (await store.get("s-00000")).request is None
        assert await counts(store) == {}

    async def test_a_message_is_judged_when_all_that_is_due_is_lined_up(self, store: Store, clock: FakeClock) -> None:
        await store.submit(
            [*new_runs(MOST_MOVES, "late", delay=1), new_run("first", session="form", delay=1), new_run("z", delay=1)]
        )
        await clock.advance(2)
        reject, collect = (SessionPolicy(mode=mode) for mode in (Mode.REJECT, Mode.COLLECT))
        messages = [
            new_run("new", session="form", policy=reject),
            new_run("a", session="chat", policy=collect),
            new_run("b", session="chat", policy=collect),
        ]

        early = await store.submit([*messages, new_run("plain")])
        assert early[:3] == [Receipt(REFUSED, new.id, "session_wait") for new in messages]
        assert early[3].accepted
        assert await counts(store) == {}
        receipts = await store.submit(messages)

        assert [(receipt.outcome, receipt.run_id, receipt.reason) for receipt in receipts] == [
            (REFUSED, "new", "session_busy"),
            (ACCEPTED, "a", None),
            (MERGED, "a", None),
        ]
