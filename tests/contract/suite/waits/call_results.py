"""Call results: what a called run leaves with its caller when it ends.

The outcome is a memo under the name of the call: the result or, for every other end, the state, the reason and the
message of the failure. What is not an end (a retry, a crash) is not told. A caller that waits for this run goes on, or
is paused if that was requested of it; one that waits for something else, runs, or is paused, finds the memo later. The
memo of a call that did not succeed holds in the attempt it was written in; the next attempt calls again, under another
id, and the new outcome takes the old one's place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.memos import Ending, MemoKind, derived_id
from laneway.core.records.policy import Lane, TaskPolicy, WhenFull
from laneway.core.records.states import RunState
from laneway.ports.control import Answer, Cancel, Pause, Resume
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run
from laneway.testing.waits import question, waits
from tests.contract.suite.attempts.memos import recalled
from tests.contract.suite.control.stages import named
from tests.contract.suite.frame import Part, ids, kinds, states
from tests.contract.suite.waits.calls import calling
from tests.contract.suite.waits.questions import started
from tests.support.child_runs import child_of

W, P, R, S, F = RunState.WAITING, RunState.PENDING, RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED
C, D, PAUSED = RunState.CANCELLED, RunState.DROPPED, RunState.PAUSED


async def failed(store: Store, hand: Hand, child: str) -> None:
    """Let the called run fail for good."""
    await hand.fail(*await hand.claim(), failure=error("no luck", kind="bad_result"))


async def cancelled(store: Store, hand: Hand, child: str) -> None:
    """Cancel it before its turn."""
    await store.change_run("c", child, Cancel())


async def stopped(store: Store, hand: Hand, child: str) -> None:
    """Cancel it while it is running."""
    claimed = await hand.claim()
    await store.change_run("c", child, Cancel())
    await hand.stop(*claimed)


async def abandoned(store: Store, hand: Hand, child: str) -> None:
    """Abandon it while it is running."""
    await hand.claim()
    await store.change_run("c", child, Cancel(abandon=True))


async def dropped(store: Store, hand: Hand, child: str) -> None:
    """Let its lane drop it."""
    await store.declare_lanes([Lane("main", max_pending=1, when_full=WhenFull.DROP_OLD)])
    await store.submit([new_run("b")])
    await store.declare_lanes([Lane("main")])


async def quarantined(store: Store, hand: Hand, child: str) -> None:
    """Let its worker die, and be reclaimed by one that allows no crash."""
    dead, strict = await Hand(store, "dead").register(), Hand(store, "strict", policy=TaskPolicy(max_crashes=1))
    await dead.claim()
    await dead.leave()
    await strict.register()
    await strict.lapse(*(await strict.reclaim()).lapsed)


async def unanswered(store: Store, hand: Hand, child: str) -> None:
    """Let it ask something that nobody answers."""
    [claimed] = await hand.claim()
    await hand.wait(claimed, question("quick", timeout=0))
    await hand.step()


OUTCOMES = [
    (failed, Ending(F, "bad_result", "no luck")),
    (cancelled, Ending(C)),
    (stopped, Ending(C)),
    (abandoned, Ending(C, "abandoned")),
    (dropped, Ending(D, "lane_full")),
    (quarantined, Ending(F, "quarantined", "the worker dead died while it executed this run")),
    (unanswered, Ending(C, "unanswered")),
]


class TestCallResults(Part):
    """The memos of calls, and how callers go on."""

    async def test_its_result_is_kept_and_the_caller_goes_on(self, store: Store) -> None:
        hand, child = await calling(store)
        [claimed] = await hand.claim()
        assert (claimed.id, claimed.ties) == (child.id, child.ties)

        reply = await hand.succeed(claimed, value={"n": "ü"}, room=1)

        [again] = reply.claimed
        assert (again.id, again.fence, again.attempt, again.memos) == ("a", 2, 1, 1)
        [memo] = await recalled(store)
        assert (memo.kind, memo.name, memo.value, memo.run_id) == (MemoKind.CALL, "child", '{"n":"ü"}', child.id)
        assert (memo.tries, memo.attempt, memo.ending) == (0, 1, None)
        assert await kinds(store, "a") == ["started", "called", "returned", "started"]
        assert (await store.events("a"))[2].data == {"name": "child", "run_id": child.id, "state": "succeeded"}
        await hand.succeed(again)
        assert await states(store, "a", child.id) == [S, S]

    @pytest.mark.parametrize(("end", "ending"), OUTCOMES, ids=named)
    async def test_every_other_outcome_is_kept_too(
        self, store: Store, end: Callable[[Store, Hand, str], Awaitable[None]], ending: Ending
    ) -> None:
        hand, child = await calling(store)

        await end(store, hand, child.id)

        [memo] = await recalled(store)
        assert (memo.value, memo.ending, memo.run_id, memo.attempt) == (None, ending, child.id, 1)
        assert await states(store, "a") == [P]
        [returned] = [event for event in await store.events("a") if event.kind == "returned"]
        assert returned.data == {"name": "child", "run_id": child.id, "state": ending.state.value}

    async def test_a_retry_of_the_called_run_is_no_outcome(self, store: Store, clock: FakeClock) -> None:
        hand, child = await calling(store)

        await hand.fail(*await hand.claim())

        assert (await states(store, "a", child.id), await recalled(store)) == ([W, P], [])
        await clock.advance(60)
        await hand.succeed(*await hand.claim(), value=2)
        assert [memo.value for memo in await recalled(store)] == ["2"]

    async def test_a_crash_of_its_worker_is_no_outcome(self, store: Store) -> None:
        hand, child = await calling(store)
        dead = await Hand(store, "dead").register()
        await dead.claim()
        await dead.leave()

        await hand.lapse(*(await hand.reclaim()).lapsed)

        assert await states(store, "a", child.id) == [W, P]

    async def test_a_caller_whose_worker_died_meanwhile_gets_the_result(self, store: Store) -> None:
        hand, child = await calling(store)
        await hand.leave()
        heir = await Hand(store, "heir").register()
        [claimed] = await heir.claim()

        [again] = (await heir.succeed(claimed, value=1, room=1)).claimed

        assert (claimed.id, again.id, again.crashes, again.memos) == (child.id, "a", 0, 1)

    async def test_what_ended_first_lets_the_caller_go_on_at_once(self, store: Store) -> None:
        hand, claimed = await started(store)
        child = child_of(claimed)
        await hand.wait(claimed, "ok", child)
        await store.change_run("c", "a", Answer("1"))
        again, called = await hand.claim(2)
        if called.id == "a":
            again, called = called, again
        await hand.succeed(called, value=7)
        assert await states(store, "a", child.id) == [R, S]
        assert (await kinds(store, "a"))[-1] == "returned"

        reply = await hand.wait(again, child, room=1)

        assert [(run.id, run.fence, run.memos) for run in reply.claimed] == [("a", 3, 2)]
        assert (await kinds(store, "a"))[-3:] == ["returned", "called", "started"]

    async def test_and_lets_it_be_paused_at_once_if_that_was_requested(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        child = child_of(claimed)
        await hand.wait(claimed, "ok", child)
        await store.change_run("c", "a", Answer("1"))
        await store.change_run("d", child.id, Cancel())
        [again] = await hand.claim(2)
        await store.change_run("p", "a", Pause())

        await hand.wait(again, child)

        run = await store.get("a")
        assert (run.state, run.request, run.wait) == (PAUSED, None, None)
        assert (await kinds(store, "a"))[-1] == "paused"
        await store.change_run("r", "a", Resume())
        assert ids(await hand.claim()) == ["a"]

    async def test_one_step_may_end_the_called_run_and_let_its_caller_wait(self, store: Store) -> None:
        hand, claimed = await started(store)
        child = child_of(claimed)
        await hand.wait(claimed, "ok", child)
        await store.change_run("c", "a", Answer("1"))
        runs = {run.id: run for run in await hand.claim(2)}
        ended = hand.result(runs[child.id], Succeeded("7"))

        await hand.step(results=[ended, hand.result(runs["a"], waits(child))])

        assert await states(store, "a", child.id) == [P, S]

    async def test_of_two_the_first_lets_it_go_on_and_the_other_leaves_its_word(self, store: Store) -> None:
        hand, claimed = await started(store)
        one, two = child_of(claimed, "one"), child_of(claimed, "two")
        await hand.wait(claimed, one, two)
        runs = {run.id: run for run in await hand.claim(5)}
        assert set(runs) == {one.id, two.id}

        [again] = (await hand.succeed(runs[two.id], value=2, room=5)).claimed
        assert await states(store, "a", one.id) == [R, R]
        await hand.succeed(runs[one.id], value=1)

        assert (again.id, again.memos) == ("a", 1)
        assert [(memo.name, memo.value) for memo in await recalled(store)] == [("two", "2"), ("one", "1")]
        assert (await kinds(store, "a")).count("returned") == 2
        assert (await hand.succeed(again)).refused == []

    async def test_a_caller_that_waits_for_another_one_is_not_let_go_on(self, store: Store) -> None:
        hand, claimed = await started(store)
        one, two = child_of(claimed, "one"), child_of(claimed, "two")
        await hand.wait(claimed, "ok", one)
        await store.change_run("c", "a", Answer("1"))
        runs = {run.id: run for run in await hand.claim(5)}
        await hand.wait(runs["a"], two)

        await hand.succeed(runs[one.id], value=1)

        assert await states(store, "a", two.id) == [W, P]
        assert [memo.name for memo in await recalled(store)] == ["ok", "one"]

    async def test_a_caller_that_is_paused_stays_so(self, store: Store) -> None:
        hand, claimed = await started(store)
        child = child_of(claimed)
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, "ok", child)
        await store.change_run("c", "a", Answer("1"))

        await hand.succeed(*await hand.claim(5))

        assert await states(store, "a", child.id) == [PAUSED, S]
        assert (await kinds(store, "a"))[-1] == "returned"

    async def test_a_requested_pause_takes_hold_when_the_called_run_ends(self, store: Store) -> None:
        hand, claimed = await started(store)
        child = child_of(claimed)
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, child)

        await hand.succeed(*await hand.claim(5))

        assert await states(store, "a") == [PAUSED]
        assert (await kinds(store, "a"))[-2:] == ["returned", "paused"]

    async def test_a_call_that_failed_is_made_anew_in_the_next_attempt(self, store: Store, clock: FakeClock) -> None:
        hand, first = await calling(store)
        await hand.fail(*await hand.claim(), failure=error(kind="bad_result"))
        [again] = await hand.claim()
        await hand.fail(again)
        await clock.advance(60)
        [third] = await hand.claim()
        assert (third.attempt, third.memos) == (2, 1)
        second = child_of(third, tries=1)
        assert second.id == derived_id("a", "call child", 1) != first.id

        await hand.wait(third, second)

        assert await states(store, "a") == [W]
        await hand.succeed(*await hand.claim(), value=2)
        [memo] = await recalled(store)
        assert (memo.run_id, memo.tries, memo.attempt, memo.value, memo.ending) == (second.id, 1, 2, "2", None)

    async def test_a_pruned_run_leaves_its_word_with_its_caller(self, store: Store, clock: FakeClock) -> None:
        hand, child = await calling(store)
        await hand.succeed(*await hand.claim(), value=1)
        await clock.advance(1)

        assert await store.prune(OldRuns({S: 0})) == 1

        assert [(memo.run_id, memo.value) for memo in await recalled(store)] == [(child.id, "1")]
        assert ids(await hand.claim()) == ["a"]
