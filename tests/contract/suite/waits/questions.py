"""Questions: a run asks a person, waits without holding a slot, and goes on with the answer.

A handler that asks is unwound; its run is settled as *waiting* for the answer to one or more questions, each with a
name and a last instant that the store sets. Nobody executes it meanwhile: the slots of its lane and of its user are
free for others, while its session, whose order must hold, keeps its place (unless the session lets others pass).

An answer names a question and is kept as a memo before the run is pending again, in one step. So it cannot get lost
between the two, and a crash of whoever starts the run again costs nothing: the memo is there for the next one.

The first answer wins. Every other one (to another name, to a run that never asked, that was answered, that has ended)
changes nothing and says so; only the same call again gets the reply that it got first.
"""

from __future__ import annotations

from typing import Unpack

import pytest

from laneway.core.common.instants import SECOND, instant
from laneway.core.records.memos import Memo, MemoKind
from laneway.core.records.policy import Lane
from laneway.core.records.run import Claimed, Gate, Reason, RunFilter
from laneway.core.records.states import RunState
from laneway.errors import BadSetting, NotWaiting, StoreUnavailable, UnknownRun
from laneway.ports.control import Answer, Pause
from laneway.ports.gates import Held
from laneway.ports.settings import Hold
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, error, new_run
from laneway.testing.waits import question
from tests.contract.suite.claims.lanes import lane
from tests.contract.suite.frame import Part, ids, kinds, states
from tests.support.lossy_store import LossyStore

W, P, R = RunState.WAITING, RunState.PENDING, RunState.RUNNING


async def started(store: Store, **fields: Unpack[Fields]) -> tuple[Hand, Claimed]:
    """Return a worker that executes the run `a`, and the run."""
    hand = await Hand(store).register()
    await store.submit([new_run("a", **Fields(user="ann") | fields)])
    [claimed] = await hand.claim()
    return hand, claimed


async def asking(store: Store, *names: str, **fields: Unpack[Fields]) -> Hand:
    """Return the worker of a run `a` that waits for the answers to these questions, or to one called `ok`."""
    hand, claimed = await started(store, **fields)
    await hand.wait(claimed, *names or ("ok",))
    return hand


def answer_memo(value: str, name: str = "ok") -> Memo:
    """Return the memo of an answer."""
    return Memo(kind=MemoKind.ANSWER, name=name, value=value)


class TestQuestions(Part):
    """Runs that wait for an answer, and `ports.control.Answer`."""

    async def test_a_run_that_asks_waits_and_says_what_it_asked_and_until_when(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand, claimed = await started(store)
        await clock.advance(1)

        reply = await hand.wait(claimed, question("colour", timeout=90), room=5)

        assert (reply.refused, reply.claimed) == ([], [])
        run = await store.get("a")
        assert (run.state, run.worker, run.attempt, run.fence, run.crashes) == (W, None, 1, 1, 0)
        until = clock.now() + 90 * SECOND
        assert run.wait is not None
        assert (run.wait.questions, run.wait.calls) == ((question("colour", timeout=90, until=until),), ())
        assert (await store.recall("a")).memos == []
        assert await kinds(store, "a") == ["started", "question"]
        asked = (await store.events("a"))[-1]
        assert asked.data == {"name": "colour", "question": "colour?", "timeout": 90}
        assert asked.at == instant(clock.now())
        assert hand.renew().leases == []

    async def test_it_holds_no_slot_of_its_lane_and_user(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1, per_user=1)])
        hand, claimed = await started(store)
        await store.submit([new_run("b", user="ann")])
        assert await hand.claim() == []

        reply = await hand.wait(claimed, "ok", room=5)

        assert ids(reply.claimed) == ["b"]
        state = await lane(store, "main")
        assert (state.active, state.ready, state.pending) == (1, 0, 0)

    async def test_once_answered_it_takes_a_slot_like_any_other(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1)])
        hand = await asking(store)
        await store.submit([new_run("b", user="ann")])
        other = await hand.claim(5)

        await store.change_run("c", "a", Answer("1"))

        assert await hand.claim(5) == []
        assert ids((await hand.succeed(*other, room=5)).claimed) == ["a"]

    async def test_who_asks_once_more_what_stands_open_says_nothing_of_it(self, store: Store) -> None:
        hand = await asking(store, "one", "two")
        await store.change_run("c1", "a", Answer("1", name="one"))
        [claimed] = await hand.claim()
        await hand.emit(claimed, "mark", 1)
        wait = (await store.recall("a")).wait
        assert wait is not None

        await hand.wait(claimed, wait.questions[1])

        await store.change_run("c2", "a", Answer("2", name="two"))
        assert await kinds(store, "a") == [
            *("started", "question", "question", "answered"),
            *("started", "mark", "answered"),
        ]
        assert await store.check() == []

    async def test_an_answer_is_kept_and_the_run_goes_on(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store)
        await clock.advance(5)

        run = await store.change_run("c", "a", Answer('{"colour":["red","\\u0000ü"]}'))

        assert run == await store.get("a")
        assert (run.state, run.attempt, run.fence, run.wait) == (P, 1, 1, None)
        assert await kinds(store, "a") == ["started", "question", "answered"]
        answered = (await store.events("a"))[-1]
        assert answered.data == {"name": "ok", "answer": {"colour": ["red", "\x00ü"]}}
        recalled = await store.recall("a")
        assert recalled.memos == [answer_memo('{"colour":["red","\\u0000ü"]}')]
        assert recalled.wait is not None
        [again] = await hand.claim()
        assert (again.id, again.fence, again.attempt, again.crashes, again.memos) == ("a", 2, 1, 0, 1)
        await hand.succeed(again, value=1)
        assert await kinds(store, "a") == ["started", "question", "answered", "started", "result", "done"]

    async def test_a_resting_worker_is_woken_for_it(self, store: Store) -> None:
        hand = await asking(store)
        await hand.rest()

        await store.change_run("c", "a", Answer("1"))

        assert await hand.hears()
        assert ids(await hand.claim()) == ["a"]

    async def test_who_follows_along_hears_of_the_answer(self, store: Store) -> None:
        await asking(store)
        told: list[int] = []
        stop = store.watch(lambda: told.append(1))

        await store.change_run("c", "a", Answer("1"))

        assert (await store.events("a", after=2))[0].kind == "answered"
        stop()

    async def test_of_two_answers_the_first_wins(self, store: Store) -> None:
        await asking(store)
        await store.change_run("c", "a", Answer("1"))

        with pytest.raises(NotWaiting, match="run a waits for no answer: it is pending"):
            await store.change_run("d", "a", Answer("2"))

        assert (await store.recall("a")).memos == [answer_memo("1")]
        assert (await kinds(store, "a")).count("answered") == 1

    async def test_the_same_call_again_gets_the_run_and_changes_nothing(self, store: Store) -> None:
        hand = await asking(store)
        first = await store.change_run("c", "a", Answer("1"))

        assert await store.change_run("c", "a", Answer("1")) == first
        await hand.claim()
        assert (await store.change_run("c", "a", Answer("1", name="ok"))).state is R

        assert (await store.recall("a")).memos == [answer_memo("1")]
        assert (await kinds(store, "a")).count("answered") == 1

    async def test_a_lost_reply_costs_nothing(self, store: Store) -> None:
        lossy = LossyStore(store)
        await asking(store)
        lossy.fail("change_run")
        lossy.lose_reply("change_run")

        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await lossy.change_run("c", "a", Answer("1"))

        assert (await lossy.change_run("c", "a", Answer("1"))).state is P
        assert (await kinds(store, "a")).count("answered") == 1

    async def test_an_answer_to_another_name_is_told_so_and_changes_nothing(self, store: Store) -> None:
        await asking(store, "colour")

        with pytest.raises(NotWaiting, match="it is waiting for the answer to 'colour', not 'size'"):
            await store.change_run("c", "a", Answer("1", name="size"))

        assert await states(store, "a") == [W]
        assert (await store.recall("a")).memos == []
        assert (await store.change_run("c", "a", Answer("2", name="colour"))).state is P

    async def test_an_answer_that_crosses_the_next_question_does_not_answer_it(self, store: Store) -> None:
        hand = await asking(store, "first")
        await store.change_run("c", "a", Answer("1", name="first"))
        [again] = await hand.claim()
        await hand.wait(again, "second")

        with pytest.raises(NotWaiting):
            await store.change_run("d", "a", Answer("2", name="first"))

        assert await states(store, "a") == [W]
        await store.change_run("e", "a", Answer("3", name="second"))
        assert (await store.recall("a")).memos == [answer_memo("1", "first"), answer_memo("3", "second")]

    async def test_of_several_questions_one_answer_lets_it_go_on(self, store: Store) -> None:
        hand = await asking(store, "one", "two")

        await store.change_run("c", "a", Answer("2", name="two"))

        [again] = await hand.claim()
        assert again.memos == 1
        assert (await store.recall("a")).memos == [answer_memo("2", "two")]
        with pytest.raises(NotWaiting):
            await store.change_run("d", "a", Answer("1", name="one"))

    async def test_with_several_questions_an_answer_must_say_which(self, store: Store) -> None:
        await asking(store, "one", "two")

        with pytest.raises(BadSetting, match="say which is answered: one, two"):
            await store.change_run("c", "a", Answer("1"))

        assert await states(store, "a") == [W]

    async def test_a_question_that_stands_open_is_asked_on_and_not_told_twice(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await asking(store, "one", "two")
        before = await store.get("a")
        assert before.wait is not None
        [one, _] = before.wait.questions
        await clock.advance(10)
        await store.change_run("c", "a", Answer("2", name="two"))

        [again] = await hand.claim()
        await hand.wait(again, one)

        run = await store.get("a")
        assert run.wait is not None
        assert run.wait.questions == (one,)
        assert (await kinds(store, "a")).count("question") == 2

    async def test_a_run_that_does_not_ask_takes_no_answer(self, store: Store) -> None:
        await store.submit([new_run("b", delay=60), new_run("p")])
        await store.change_run("p", "p", Pause())
        hand, claimed = await started(store)

        for name, found in (("a", "running"), ("b", "pending"), ("p", "paused")):
            with pytest.raises(NotWaiting, match=f"run {name} waits for no answer: it is {found}"):
                await store.change_run("c", name, Answer("1"))
        with pytest.raises(UnknownRun):
            await store.change_run("c", "nobody", Answer("1"))
        with pytest.raises(UnknownRun):
            await store.recall("nobody")

        assert (await hand.succeed(claimed)).refused == []

    async def test_a_run_that_has_ended_takes_no_answer(self, store: Store) -> None:
        hand = await asking(store)
        await store.change_run("c", "a", Answer("1"))
        await hand.succeed(*await hand.claim())
        log = await kinds(store, "a")

        with pytest.raises(NotWaiting, match="it is succeeded"):
            await store.change_run("d", "a", Answer("2", name="ok"))

        assert await kinds(store, "a") == log
        assert (await store.recall("a")).memos == [answer_memo("1")]

    async def test_a_crash_between_the_answer_and_the_restart_loses_nothing(self, store: Store) -> None:
        dead, heir = await Hand(store, "dead").register(), await asking(store)
        await store.change_run("c", "a", Answer("1"))
        assert ids(await dead.claim()) == ["a"]
        await dead.leave()

        await heir.lapse(*(await heir.reclaim()).lapsed)

        [again] = await heir.claim()
        assert (again.fence, again.crashes, again.memos) == (3, 1, 1)
        assert (await store.recall("a")).memos == [answer_memo("1")]

    async def test_asking_charges_nothing_and_ends_a_row_of_crashes(self, store: Store) -> None:
        dead, hand = await Hand(store, "dead").register(), await Hand(store).register()
        await store.submit([new_run("a")])
        await dead.claim()
        await dead.leave()
        await hand.lapse(*(await hand.reclaim()).lapsed)
        [again] = await hand.claim()
        assert again.crashes == 1

        await hand.wait(again, "ok")

        run = await store.get("a")
        assert (run.attempt, run.crashes) == (1, 0)

    async def test_the_answer_is_there_in_later_attempts(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store)
        await store.change_run("c", "a", Answer("1"))
        await hand.fail(*await hand.claim())
        await clock.advance(60)

        [again] = await hand.claim()

        assert (again.attempt, again.memos) == (2, 1)
        assert (await store.recall("a")).memos == [answer_memo("1")]

    async def test_a_repeated_step_asks_once(self, store: Store) -> None:
        hand, claimed = await started(store)
        reply = await hand.wait(claimed, "ok", room=1)

        assert await hand.repeat_last() == reply
        assert await kinds(store, "a") == ["started", "question"]
        await store.change_run("c", "a", Answer("1"))
        await hand.repeat_last()

        assert await states(store, "a") == [P]

    async def test_who_lost_the_lease_asks_nothing(self, store: Store) -> None:
        hand, claimed = await started(store)
        await hand.release(claimed)

        reply = await hand.wait(claimed, "ok")

        assert reply.refused == [(claimed.number, claimed.fence)]
        assert await states(store, "a") == [P]
        assert (await store.recall("a")).wait is None
        assert await kinds(store, "a") == ["started", "released"]

    async def test_what_it_waits_for_is_the_reason_why_it_does_not_start(self, store: Store) -> None:
        await asking(store, "one", "two")

        assert await store.why("a") == [Reason(Gate.ANSWER, "question one"), Reason(Gate.ANSWER, "question two")]
        await store.change_run("c", "a", Answer("1", name="one"))

        assert [reason.gate for reason in await store.why("a")] == [Gate.TURN]

    async def test_waiting_runs_are_found_and_counted(self, store: Store) -> None:
        hand = await asking(store)
        await store.submit([new_run("b")])

        found = await store.runs(RunFilter(state=W), limit=5)

        assert [run.id for run in found] == ["a"]
        assert (await store.depths()).runs == {"waiting": 1, "pending": 1}
        depths = await store.depths()
        assert (depths.runs, depths.ready, depths.due) == ({"waiting": 1, "pending": 1}, 1, 0)
        assert ids(await hand.claim(5)) == ["b"]

    @pytest.mark.parametrize(("what", "name"), [(Held.SESSION, "chat"), (Held.LANE, "main"), (Held.TASK, "work")])
    async def test_an_answer_is_taken_while_its_run_is_held_back(self, store: Store, what: Held, name: str) -> None:
        hand = await asking(store, session="chat")
        await store.set(Hold(what, name, held=True))

        await store.change_run("c", "a", Answer("1"))

        assert await hand.claim(5) == []
        await store.set(Hold(what, name, held=False))
        assert ids(await hand.claim(5)) == ["a"]

    async def test_an_answered_run_is_due_at_once_though_the_clock_was_set_back(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await asking(store)
        clock.step(-3600)

        run = await store.change_run("c", "a", Answer("1"))

        assert run.due_at == instant(clock.now())
        assert ids(await hand.claim()) == ["a"]

    async def test_a_pruned_run_takes_its_memos_and_its_wait_along(self, store: Store, clock: FakeClock) -> None:
        hand = await asking(store)
        await store.change_run("c", "a", Answer("1"))
        await hand.fail(*await hand.claim(), failure=error(kind="bad_result"))
        await clock.advance(1)
        await store.prune(OldRuns({RunState.FAILED: 0}))

        with pytest.raises(UnknownRun):
            await store.recall("a")
        await store.submit([new_run("a")])

        recalled = await store.recall("a")
        assert (recalled.memos, recalled.wait) == ([], None)
        assert [run.memos for run in await hand.claim()] == [0]
