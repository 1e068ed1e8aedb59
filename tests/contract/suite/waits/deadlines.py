"""Deadlines: what becomes of a question that nobody answers in time.

A question can be answered until its last instant, by the store's clock, and not at it. From then on the run is over:
the first `submit`, `step` or `resume` ends it as cancelled, `unanswered`, before it does anything else, and so does
the answer that comes too late. Nobody looks at a clock for it: `due_in` tells workers of the next deadline as it tells
them of the next due time, and whoever rests without knowing of it is woken.
"""

from __future__ import annotations

import pytest

from laneway.core.common.instants import SECOND, instant
from laneway.core.records.policy import Mode, SessionPolicy
from laneway.core.records.run import NewRun
from laneway.core.records.states import RunState
from laneway.errors import NotWaiting
from laneway.ports.control import Answer, Cancel, Pause, Resume
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from laneway.testing.waits import question
from tests.contract.suite.frame import Part, ids, kinds, reason, states
from tests.contract.suite.waits.questions import asking, started
from tests.contract.suite.workers.wakeups import resting, woken

W, P, C = RunState.WAITING, RunState.PENDING, RunState.CANCELLED
INSTANT = 0.000001


async def expired(store: Store, run_id: str = "a") -> bool:
    """Tell whether the run has ended because nobody answered."""
    run = await store.get(run_id)
    assert (run.state is C) == (run.reason == "unanswered") == (run.ended_at is not None)
    return run.state is C


class TestDeadlines(Part):
    """`Question.until`."""

    async def test_the_last_instant_is_the_one_before_the_deadline(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store)
        await clock.advance(60 - INSTANT)
        await hand.step()
        assert not await expired(store)

        assert (await store.change_run("c", "a", Answer("1"))).state is P

    async def test_a_late_answer_ends_the_run_and_says_so(self, store: Store, clock: FakeClock) -> None:
        await asking(store)
        await clock.advance(60)

        for call in ("c", "c", "d"):
            with pytest.raises(NotWaiting, match="run a waits for no answer: it is cancelled"):
                await store.change_run(call, "a", Answer("1"))

        run = await store.get("a")
        assert (run.state, run.reason, run.ended_at) == (C, "unanswered", instant(clock.now()))
        assert await kinds(store, "a") == ["started", "question", "unanswered", "done"]
        told, done = (await store.events("a"))[-2:]
        assert (told.data, done.data) == ({"name": "ok"}, {"state": "cancelled"})
        assert (await store.recall("a")).memos == []

    async def test_a_step_ends_it_and_lets_the_next_of_its_session_go_on(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store, session="chat")
        await store.submit([new_run("b", session="chat", user="bob")])
        await clock.advance(60)

        reply = await hand.step(room=5)

        assert await expired(store)
        assert ids(reply.claimed) == ["b"]
        assert reply.due_in is None

    async def test_a_submission_ends_it_before_it_looks_at_the_session(self, store: Store, clock: FakeClock) -> None:
        await asking(store, session="chat", policy=SessionPolicy(while_waiting="answer"))
        await clock.advance(60)

        [receipt] = await store.submit([new_run("m", session="chat", user="ann")])

        assert await expired(store)
        assert (receipt.outcome.value, receipt.run_id) == ("accepted", "m")
        assert await states(store, "m") == [P]

    async def test_a_resume_ends_it_before_the_resumed_run_takes_its_turn(self, store: Store, clock: FakeClock) -> None:
        await asking(store)
        await store.submit([new_run("b")])
        await store.change_run("p", "b", Pause())
        await clock.advance(60)

        await store.change_run("r", "b", Resume())

        assert await expired(store)

    async def test_a_worker_is_told_how_long_it_is_until_then(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await started(store)
        await store.submit([new_run("later", delay=90)])

        assert (await hand.wait(claimed, "ok")).due_in == 60 * SECOND
        await clock.advance(10)
        assert (await hand.step()).due_in == 50 * SECOND
        await store.submit([new_run("sooner", delay=20)])
        assert (await hand.step()).due_in == 20 * SECOND
        await store.change_run("c", "a", Answer("1"))
        await store.change_run("d", "sooner", Cancel())

        assert (await hand.step()).due_in == 80 * SECOND

    async def test_a_worker_that_rests_without_knowing_of_it_is_woken(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await started(store)
        other = await resting(store)

        await hand.wait(claimed, "ok")

        assert await woken(store, other) == [other]
        assert (await other.rest()).due_in == 60 * SECOND
        await clock.advance(60)
        await other.rest()
        assert await expired(store)

    async def test_a_worker_that_knows_of_it_is_left_alone(self, store: Store) -> None:
        hand = await asking(store)
        other = await resting(store)
        await store.submit([new_run("b")])
        [claimed] = await hand.claim()
        await other.rest()

        await hand.wait(claimed, question("later", timeout=300))

        assert await woken(store, other) == []

    async def test_the_first_of_several_deadlines_counts(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await started(store)
        reply = await hand.wait(claimed, question("slow", timeout=90), question("quick", timeout=20))
        assert reply.due_in == 20 * SECOND
        await clock.advance(20)

        with pytest.raises(NotWaiting):
            await store.change_run("c", "a", Answer("1", name="slow"))

        assert await expired(store)
        assert (await store.events("a"))[-2].data == {"name": "quick"}

    async def test_a_question_that_stands_open_keeps_its_deadline(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store, "one", "two")
        run = await store.get("a")
        assert run.wait is not None
        await clock.advance(50)
        await store.change_run("c", "a", Answer("2", name="two"))
        [again] = await hand.claim()
        reply = await hand.wait(again, run.wait.questions[0])
        assert reply.due_in == 10 * SECOND

        await clock.advance(10)
        await hand.step()

        assert await expired(store)

    async def test_a_question_asked_after_its_time_is_over_ends_the_run_in_the_next_step(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await asking(store, "one", "two")
        run = await store.get("a")
        assert run.wait is not None
        await store.change_run("c", "a", Answer("2", name="two"))
        [again] = await hand.claim()
        await clock.advance(100)

        reply = await hand.wait(again, run.wait.questions[0])

        assert reply.due_in == 0
        await hand.step()
        assert await expired(store)

    async def test_an_answered_run_does_not_expire(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store)
        await store.change_run("c", "a", Answer("1"))
        await clock.advance(100)

        [again] = await hand.claim()

        assert (await hand.succeed(again)).refused == []
        assert (await store.get("a")).state is RunState.SUCCEEDED

    async def test_a_run_that_was_to_be_paused_expires_too(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await started(store)
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, "ok")
        await clock.advance(60)

        await hand.step()

        assert await expired(store)
        assert (await store.get("a")).request is None

    async def test_a_crowd_expires_in_one_step(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(30, "r", user="ann"))
        for run in await hand.claim(30):
            await hand.wait(run, "ok")
        await store.change_run("c", "r-00007", Answer("1"))
        await clock.advance(61)

        await hand.step()

        assert (await store.depths()).runs == {"cancelled": 29, "pending": 1}

    async def test_what_its_inbox_held_unread_becomes_a_run(self, store: Store, clock: FakeClock) -> None:
        policy = SessionPolicy(mode=Mode.STEER, while_waiting="queue")
        hand = await asking(store, session="chat")
        message: NewRun = new_run("m", session="chat", user="ann", policy=policy)
        assert [receipt.outcome.value for receipt in await store.submit([message])] == ["steered"]
        await clock.advance(60)

        assert ids((await hand.step(room=5)).claimed) == ["m"]
        assert await reason(store, "a") == "unanswered"

    async def test_a_clock_that_jumps_back_puts_the_deadline_off(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store)
        clock.step(-3600)
        await clock.advance(60)
        await hand.step()
        assert await states(store, "a") == [W]

        clock.step(3600)
        await hand.step()

        assert await expired(store)
