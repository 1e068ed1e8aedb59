"""Follow-ups: what a run leaves behind happens once, after its end, or not at all.

What a handler held back, and what was given with the submission for the case of success (`then`) or failure
(`on_failure`), becomes runs in the very step that ends the run, whoever writes it: its worker, a canceller, who takes
over from the dead. Their ids are made from the run's, so a repeat finds them. An attempt that does not end the run
leaves nothing, nor does one whose lease is gone; a run that is cancelled or dropped leaves nothing either, and a cancel
that was requested wins over a success.

A follow-up belongs to its parent's user and trace and, unless it says otherwise, to its session, where it joins the
tail before its parent's place is free: nobody new gets between. It waits its turn like all others, and no bound that
is meant for callers applies to it.
"""

from __future__ import annotations

from typing import Unpack

import pytest

from laneway.core.lifecycle.outcome import Cancelled, Failed, Lapsed, Outcome, Released, Snoozed, Succeeded
from laneway.core.records.memos import derived_id
from laneway.core.records.policy import Drop, Lane, Mode, SessionPolicy, TaskPolicy, WhenFull
from laneway.core.records.run import Claimed, ReceiptOutcome, RunLinks
from laneway.core.records.states import RunState
from laneway.ports.control import Answer, Cancel
from laneway.ports.gates import Held
from laneway.ports.sessions import Extent
from laneway.ports.settings import Hold, TaskDisabled
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, error, new_run
from laneway.testing.waits import waits
from tests.contract.suite.frame import Part, ids, kinds, start_order, states
from tests.contract.suite.waits.questions import started
from tests.contract.suite.workers.wakeups import resting, woken
from tests.support.child_runs import child_of, follow_up
from tests.support.invariants import all_runs
from tests.support.sessions import session_of

P = RunState.PENDING
HOPELESS = Failed(error(kind="bad_result"))
THEN, ON_FAILURE = derived_id("a", "then", 1), derived_id("a", "on_failure", 1)
BOTH = RunLinks(then=(new_run("t", args={"n": 1}),), on_failure=(new_run("f", args={"n": 2}),))


async def tied(store: Store, **fields: Unpack[Fields]) -> tuple[Hand, Claimed]:
    """Return a worker that executes a run `a` with something for each case, and the run."""
    return await started(store, **Fields(ties=BOTH) | fields)


async def left(store: Store) -> list[str]:
    """Return the ids of the runs that `a` left behind."""
    return [run.id for run in await all_runs(store) if run.parent == "a"]


class TestFollowUps(Part):
    """`Leaves.follow_ups`, `RunLinks.then` and `RunLinks.on_failure`."""

    async def test_what_was_held_back_becomes_runs_with_the_success(self, store: Store) -> None:
        hand, claimed = await started(store, ties=RunLinks(depth=1, trace={"id": "x"}), session="chat")
        first = follow_up(claimed, 1, args={"n": 1}, lane="team", priority=3)
        second = follow_up(claimed, 2)
        assert await left(store) == []

        reply = await hand.succeed(claimed, leaving=[first, second])

        assert reply.refused == []
        run = await store.get(first.id)
        assert first.id == derived_id("a", "submit", 1)
        assert (run.state, run.args, run.lane, run.priority) == (P, {"n": 1}, "team", 3)
        assert (run.parent, run.user, run.session) == ("a", "ann", "chat")
        assert run.ties == RunLinks(parent="a", depth=2, trace={"id": "x"})
        assert await left(store) == [first.id, second.id]
        assert await kinds(store, "a") == ["started", "result", "done"]
        assert await start_order(hand) == [first.id, second.id]

    async def test_then_follows_a_success(self, store: Store) -> None:
        hand, claimed = await tied(store)
        assert claimed.ties == BOTH
        assert (await store.get("a")).ties == BOTH

        await hand.succeed(claimed, leaving=[held := follow_up(claimed)])

        assert await left(store) == [held.id, THEN]
        run = await store.get(THEN)
        assert (run.args, run.user, run.parent) == ({"n": 1}, "ann", "a")

    async def test_on_failure_follows_a_failure(self, store: Store) -> None:
        hand, claimed = await tied(store)

        await hand.settle([claimed], HOPELESS)

        assert await left(store) == [ON_FAILURE]
        run = await store.get(ON_FAILURE)
        assert (run.args, run.user, run.parent) == ({"n": 2}, "ann", "a")

    async def test_what_follows_can_have_something_follow_it(self, store: Store) -> None:
        last = new_run("last")
        middle = new_run("middle", ties=RunLinks(then=(last,)))
        hand, _ = await started(store, ties=RunLinks(then=(middle,), trace={"id": "x"}))
        [claimed] = (await hand.repeat_last()).claimed

        [second] = (await hand.succeed(claimed, room=1)).claimed
        [third] = (await hand.succeed(second, room=1)).claimed

        assert (second.id, third.id) == (THEN, derived_id(THEN, "then", 1))
        assert third.ties == RunLinks(parent=THEN, depth=2, trace={"id": "x"})

    async def test_each_of_several_has_an_id_of_its_own(self, store: Store) -> None:
        hand, claimed = await started(store, ties=RunLinks(then=(new_run("x"), new_run("y"))))

        await hand.succeed(claimed)

        assert await left(store) == [derived_id("a", "then", nth) for nth in (1, 2)]

    @pytest.mark.parametrize("outcome", [Failed(error()), Released(), Snoozed(5_000_000), waits("ok")], ids=str)
    async def test_an_attempt_that_is_not_the_last_leaves_nothing(self, store: Store, outcome: Outcome) -> None:
        hand, claimed = await tied(store)

        await hand.settle([claimed], outcome)

        assert await left(store) == []

    async def test_a_crash_leaves_nothing_and_the_last_one_what_a_failure_does(self, store: Store) -> None:
        heir = await Hand(store, "heir", policy=TaskPolicy(max_crashes=2)).register()
        await store.submit([new_run("a", ties=BOTH)])
        found = []
        for index in range(2):
            dead = await Hand(store, f"dead {index}").register()
            await dead.claim()
            await dead.leave()
            await heir.settle((await heir.reclaim()).lapsed, Lapsed())
            found.append(await left(store))

        assert found == [[], [ON_FAILURE]]

    @pytest.mark.parametrize("outcome", [Succeeded("1"), HOPELESS, Cancelled()], ids=str)
    async def test_a_cancel_that_was_requested_leaves_nothing(self, store: Store, outcome: Outcome) -> None:
        hand, claimed = await tied(store)
        await store.change_run("c", "a", Cancel())
        if isinstance(outcome, Succeeded):
            outcome = Succeeded("1", (follow_up(claimed),))

        await hand.settle([claimed], outcome)

        assert (await store.depths()).runs == {"cancelled": 1}

    @pytest.mark.parametrize("abandon", [False, True])
    async def test_a_run_that_is_cancelled_or_abandoned_leaves_nothing(self, store: Store, abandon: bool) -> None:
        hand, claimed = await tied(store)
        if not abandon:
            await hand.release(claimed)

        await store.change_run("c", "a", Cancel(abandon=abandon))

        assert (await store.depths()).runs == {"cancelled": 1}

    async def test_a_run_that_is_dropped_leaves_nothing(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", ties=BOTH)])

        await store.stop("c", "chat", Extent.ALL)

        assert (await store.depths()).runs == {"dropped": 1}

    async def test_a_run_that_nobody_answered_leaves_nothing(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await tied(store)
        await hand.wait(claimed, "ok")
        await clock.advance(60)

        await hand.step()

        assert (await store.depths()).runs == {"cancelled": 1}

    async def test_a_run_that_waited_leaves_what_its_last_attempt_held_back(self, store: Store) -> None:
        hand, claimed = await tied(store)
        await hand.wait(claimed, "ok")
        await store.change_run("c", "a", Answer("1"))
        [again] = await hand.claim()

        await hand.succeed(again, leaving=[follow_up(again, 2)])

        assert await left(store) == [derived_id("a", "submit", 2), THEN]

    async def test_who_lost_the_lease_leaves_nothing(self, store: Store) -> None:
        hand, claimed = await tied(store)
        await hand.release(claimed)

        reply = await hand.succeed(claimed, leaving=[follow_up(claimed)])

        assert reply.refused == [(claimed.number, claimed.fence)]
        assert await left(store) == []

    async def test_a_repeated_step_leaves_them_once(self, store: Store) -> None:
        hand, claimed = await tied(store)
        reply = await hand.succeed(claimed, leaving=[follow_up(claimed)], room=9)

        assert await hand.repeat_last() == reply

        assert len(await left(store)) == 2
        assert (await store.depths()).runs == {"succeeded": 1, "running": 2}

    async def test_an_id_that_the_store_knows_is_not_submitted_again(self, store: Store) -> None:
        hand, claimed = await started(store)
        held = follow_up(claimed, args={"n": 1})
        await store.submit([new_run(held.id, args={"n": 0})])

        await hand.succeed(claimed, leaving=[held])

        assert (await store.get(held.id)).args == {"n": 0}
        assert (await store.depths()).runs == {"succeeded": 1, "pending": 1}

    async def test_a_key_that_is_taken_makes_no_second_run(self, store: Store) -> None:
        hand, claimed = await started(store)
        await store.submit([new_run("b", user="ann", key="k")])

        await hand.succeed(claimed, leaving=[follow_up(claimed, 1, key="k"), follow_up(claimed, 2, key="l")])

        assert await left(store) == [derived_id("a", "submit", 2)]

    async def test_the_next_claim_of_the_same_step_may_start_them(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1)])
        hand, claimed = await tied(store, session="chat")

        assert ids((await hand.succeed(claimed, room=9)).claimed) == [THEN]

    async def test_resting_workers_are_woken_for_them(self, store: Store) -> None:
        hand, claimed = await tied(store)
        other = await resting(store)

        await hand.succeed(claimed)

        assert await woken(store, other) == [other]

    async def test_they_join_the_session_behind_all_that_waits(self, store: Store) -> None:
        hand, claimed = await tied(store, session="chat")
        await store.submit([new_run("b", session="chat")])
        await store.submit([new_run("m", session="chat", user="ann", policy=SessionPolicy(mode=Mode.STEER))])

        await hand.succeed(claimed, leaving=[held := follow_up(claimed)])

        assert await start_order(hand) == ["b", "m", held.id, THEN]

    async def test_a_newcomer_finds_the_session_busy(self, store: Store) -> None:
        hand, claimed = await tied(store, session="chat")
        await hand.succeed(claimed)

        [receipt] = await store.submit([new_run("r", session="chat", policy=SessionPolicy(mode=Mode.REJECT))])

        assert receipt.reason == "session_busy"

    async def test_they_may_name_another_session_or_none(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        there = follow_up(claimed, 1, session="talk")
        nowhere = follow_up(claimed, 2, ties=RunLinks(session=""))

        await hand.succeed(claimed, leaving=[there, nowhere])

        assert [(await store.get(new.id)).session for new in (there, nowhere)] == ["talk", None]

    async def test_what_a_called_run_leaves_joins_the_session_that_it_names(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        child = child_of(claimed, ties=RunLinks(then=(new_run("t"),)))
        await hand.wait(claimed, child)
        [called] = await hand.claim()

        await hand.succeed(called)

        run = await store.get(derived_id(child.id, "then", 1))
        assert (run.session, run.parent, run.ties) == ("chat", child.id, RunLinks(parent=child.id, depth=2))
        assert await start_order(hand) == ["a", run.id]

    @pytest.mark.parametrize("drop", Drop)
    async def test_a_full_session_takes_them_and_drops_nobody(self, store: Store, drop: Drop) -> None:
        policy = SessionPolicy(cap=1, drop=drop)
        hand, claimed = await tied(store, session="chat", policy=policy)
        await store.submit([new_run("b", session="chat", policy=policy)])

        await hand.succeed(claimed)

        assert await states(store, "b", THEN) == [P, P]

    @pytest.mark.parametrize("drop", Drop)
    async def test_no_message_displaces_them_from_a_session_and_they_keep_none_out(
        self, store: Store, drop: Drop
    ) -> None:
        policy = SessionPolicy(cap=1, drop=drop)
        hand, claimed = await tied(store, session="chat", policy=policy)
        await store.submit([new_run("b", session="chat", policy=policy)])
        await hand.succeed(claimed)
        await hand.claim()

        [first, second] = await store.submit([new_run(run_id, session="chat", policy=policy) for run_id in "cd"])

        assert first.outcome is ReceiptOutcome.ACCEPTED
        assert second.outcome is (ReceiptOutcome.ACCEPTED if drop is Drop.OLD else ReceiptOutcome.REFUSED)
        assert await states(store, THEN, "c") == [P, RunState.DROPPED if drop is Drop.OLD else P]

    @pytest.mark.parametrize("when_full", WhenFull)
    async def test_a_full_lane_takes_them_and_drops_nobody(self, store: Store, when_full: WhenFull) -> None:
        hand, claimed = await tied(store)
        await store.declare_lanes([Lane("main", max_pending=1, when_full=when_full)])
        await store.submit([new_run("b")])

        await hand.succeed(claimed)

        assert await states(store, "b", THEN) == [P, P]

    async def test_no_window_or_queued_run_takes_them(self, store: Store) -> None:
        collecting = SessionPolicy(mode=Mode.COLLECT, debounce=5)
        ties = RunLinks(then=(new_run("t", session="chat", policy=collecting), new_run("u", session="chat")))
        hand, claimed = await started(store, session="chat", ties=ties)
        await store.submit([new_run("w", session="chat", user="ann", policy=collecting)])

        await hand.succeed(claimed)

        assert len(await left(store)) == 2
        assert (await store.get("w")).messages == 0

    async def test_they_interrupt_nobody(self, store: Store) -> None:
        ties = RunLinks(then=(new_run("t", session="talk", policy=SessionPolicy(mode=Mode.INTERRUPT)),))
        hand, claimed = await started(store, ties=ties)
        await store.submit([new_run("b", session="talk")])
        other = await hand.claim()

        await hand.succeed(claimed)

        assert (await store.get("b")).request is None
        assert ids((await hand.succeed(*other, room=5)).claimed) == [THEN]

    async def test_a_disabled_task_takes_them(self, store: Store) -> None:
        hand, claimed = await tied(store)
        await store.set(TaskDisabled("work", disabled=True))

        await hand.succeed(claimed)

        assert await left(store) == [THEN]

    async def test_a_paused_session_holds_them(self, store: Store) -> None:
        hand, claimed = await tied(store, session="chat")
        await store.set(Hold(Held.SESSION, "chat", held=True))

        assert (await hand.succeed(claimed, room=5)).claimed == []

        await store.set(Hold(Held.SESSION, "chat", held=False))
        assert ids(await hand.claim(5)) == [THEN]

    async def test_an_unknown_lane_becomes_main(self, store: Store) -> None:
        hand, claimed = await started(store, ties=RunLinks(then=(new_run("t", lane="nowhere"),)))

        await hand.succeed(claimed)

        assert (await store.get(THEN)).lane == "main"

    async def test_one_for_later_waits_for_its_time_from_the_end_on(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await started(store, session="chat", ties=RunLinks(then=(new_run("t", delay=30),)))
        await clock.advance(100)

        reply = await hand.succeed(claimed, room=5)

        assert (reply.claimed, reply.due_in) == ([], 30_000_000)
        assert await session_of(store, "chat") is None
        await clock.advance(30)
        assert ids(await hand.claim(5)) == [THEN]

    @pytest.mark.parametrize("mode", [Mode.STEER, Mode.COLLECT])
    async def test_a_message_that_brings_follow_ups_is_taken_by_no_other_run(self, store: Store, mode: Mode) -> None:
        hand, claimed = await started(store, session="chat")
        await store.submit([new_run("q", session="chat")])
        [receipt] = await store.submit([new_run("m", session="chat", policy=SessionPolicy(mode=mode), ties=BOTH)])
        await hand.succeed(claimed)

        assert receipt.outcome == "accepted"
        for name in ("q", "m"):
            [run] = await hand.claim(5)
            assert run.id == name
            await hand.succeed(run)
        assert (await store.depths()).runs["pending"] == len(BOTH.then)

    async def test_a_full_lane_drops_no_follow_up_for_a_newcomer(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", max_pending=1, when_full=WhenFull.DROP_OLD)])
        hand, claimed = await started(store, ties=BOTH)
        await hand.succeed(claimed)

        [receipt] = await store.submit([new_run("m")])

        assert (receipt.outcome, receipt.reason) == ("refused", "lane_full")
        assert await states(store, THEN) == [RunState.PENDING]

    async def test_a_debounce_window_takes_no_message_that_brings_follow_ups(self, store: Store) -> None:
        typing = SessionPolicy(debounce=5)
        await store.submit([new_run("a", session="chat", policy=typing)])

        [receipt] = await store.submit([new_run("m", session="chat", policy=typing, ties=BOTH)])

        assert receipt.outcome == "accepted"
