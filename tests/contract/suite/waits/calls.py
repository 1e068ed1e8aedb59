"""Calls: a run calls another and waits for its outcome, as for an answer.

The called run is submitted by the very step that lets its caller wait, under an id made from the two, so a repeat finds
it and makes no second one. It is a run like any other with a lane, a user and a turn, except for its session: it names
its caller's, and takes no place there. So a serial session cannot lock itself out.

Whoever ends it tells its caller in the same step (`returning`). If that happened before the caller came to wait, it
does not: it is pending at once. So neither waits for the other in vain, whoever is first.
"""

from __future__ import annotations

from typing import Unpack

import pytest

from laneway.core.lifecycle.outcome import Waits
from laneway.core.records.memos import derived_id
from laneway.core.records.policy import Lane, WhenFull
from laneway.core.records.run import Gate, NewRun, Reason, RunFilter, RunLinks
from laneway.core.records.states import RunState
from laneway.errors import NotWaiting
from laneway.ports.control import Answer, Cancel
from laneway.ports.gates import Held
from laneway.ports.settings import Hold, TaskDisabled
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, new_run
from laneway.testing.waits import waits
from tests.contract.suite.frame import Part, ids, kinds, states
from tests.contract.suite.sessions.sessions import standing
from tests.contract.suite.waits.questions import started
from tests.contract.suite.workers.wakeups import resting, woken
from tests.support.child_runs import child_of

W, P, R, S = RunState.WAITING, RunState.PENDING, RunState.RUNNING, RunState.SUCCEEDED


async def calling(store: Store, **fields: Unpack[Fields]) -> tuple[Hand, NewRun]:
    """Return the worker of a run `a` that waits for a run it has called, and that one."""
    hand, claimed = await started(store, **fields)
    child = child_of(claimed)
    await hand.wait(claimed, child)
    return hand, child


class TestCalls(Part):
    """Runs that wait for others: `Leaves.calls`, `Wait.calls` and `RunLinks.call`."""

    async def test_the_called_run_is_submitted_and_its_caller_waits(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat", ties=RunLinks(depth=1, trace={"id": "x"}))
        child = child_of(claimed, "search", args={"q": 1}, lane="subagent", priority=3)

        reply = await hand.wait(claimed, child)

        run, called = await store.get("a"), await store.get(child.id)
        assert (run.state, run.worker, reply.due_in) == (W, None, None)
        assert run.wait is not None
        assert [(call.name, call.run_id) for call in run.wait.calls] == [("search", child.id)]
        assert child.id == derived_id("a", "call search", 0)
        assert (called.state, called.args, called.lane, called.priority) == (P, {"q": 1}, "subagent", 3)
        assert (called.parent, called.user, called.session) == ("a", "ann", "chat")
        assert called.ties is not None
        assert (called.ties.call, called.ties.depth, called.ties.trace) == ("search", 2, {"id": "x"})
        assert await kinds(store, "a") == ["started", "called"]
        assert (await store.events("a"))[-1].data == {"name": "search", "run_id": child.id}

    async def test_it_may_start_in_the_step_that_submits_it(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1, per_user=1)])
        hand, claimed = await started(store, session="chat")
        child = child_of(claimed)

        reply = await hand.wait(claimed, child, room=5)

        assert ids(reply.claimed) == [child.id]
        assert ids((await hand.succeed(*reply.claimed, room=5)).claimed) == ["a"]

    async def test_it_takes_no_place_in_the_session_it_names(self, store: Store) -> None:
        hand, child = await calling(store, session="chat")
        await store.submit([new_run("b", session="chat", user="bob")])
        assert await standing(store) == (1, 1, 1)

        [claimed] = await hand.claim(5)

        assert claimed.id == child.id
        assert claimed.session is None
        assert claimed.ties is not None
        assert claimed.ties.session == "chat"
        assert await standing(store) == (1, 1, 1)
        found = await store.runs(RunFilter(session="chat"), limit=9)
        assert [run.id for run in found] == ["b", child.id, "a"]
        assert ids((await hand.succeed(claimed, room=5)).claimed) == ["a"]

    async def test_a_session_that_is_paused_holds_its_caller_and_not_it(self, store: Store) -> None:
        hand, child = await calling(store, session="chat")
        await store.set(Hold(Held.SESSION, "chat", held=True))

        [claimed] = await hand.claim(5)

        assert claimed.id == child.id
        assert (await hand.succeed(claimed, room=5)).claimed == []
        await store.set(Hold(Held.SESSION, "chat", held=False))
        assert ids(await hand.claim(5)) == ["a"]

    async def test_resting_workers_are_woken_for_it_and_for_its_caller(self, store: Store) -> None:
        hand, claimed = await started(store)
        other = await resting(store)

        await hand.wait(claimed, child_of(claimed))
        assert await woken(store, other) == [other]
        [child] = await other.claim()
        await hand.rest()
        await other.succeed(child)

        assert await hand.hears()
        assert ids(await hand.claim()) == ["a"]

    async def test_what_the_store_knows_is_not_submitted_again(self, store: Store) -> None:
        hand, claimed = await started(store)
        child = child_of(claimed, args={"n": 1})
        await hand.wait(claimed, "ok", child)
        await store.change_run("c", "a", Answer("1"))
        runs = {run.id: run for run in await hand.claim(5)}

        await hand.wait(runs["a"], child_of(claimed, args={"n": 2}))

        assert await states(store, "a", child.id) == [W, R]
        assert (await store.get(child.id)).args == {"n": 1}
        assert (await store.depths()).runs == {"waiting": 1, "running": 1}

    async def test_a_run_may_wait_again_without_submitting(self, store: Store) -> None:
        hand, claimed = await started(store)
        child = child_of(claimed)
        await hand.wait(claimed, "ok", child)
        await store.change_run("c", "a", Answer("1"))
        runs = {run.id: run for run in await hand.claim(5)}

        await hand.settle([runs["a"]], Waits(waits(child).wait))

        assert await states(store, "a") == [W]
        assert (await kinds(store, "a")).count("called") == 1

    async def test_a_repeated_step_calls_once(self, store: Store) -> None:
        hand, child = await calling(store)

        await hand.repeat_last()
        await hand.succeed(*await hand.claim())
        await hand.repeat_last()

        assert await states(store, "a", child.id) == [P, S]
        assert await kinds(store, "a") == ["started", "called", "returned"]

    async def test_who_lost_the_lease_calls_nothing(self, store: Store) -> None:
        hand, claimed = await started(store)
        await hand.release(claimed)

        assert (await hand.wait(claimed, child_of(claimed))).refused == [(claimed.number, claimed.fence)]

        assert (await store.depths()).runs == {"pending": 1}

    async def test_a_cancel_that_was_requested_wins_and_calls_nothing(self, store: Store) -> None:
        hand, claimed = await started(store)
        await store.change_run("c", "a", Cancel())

        await hand.wait(claimed, child_of(claimed))

        assert (await store.depths()).runs == {"cancelled": 1}

    async def test_no_bound_applies_to_it(self, store: Store) -> None:
        hand, claimed = await started(store)
        await store.declare_lanes([Lane("main", max_pending=1, when_full=WhenFull.REFUSE)])
        await store.submit([new_run("b")])
        await store.set(TaskDisabled("work", disabled=True))
        child = child_of(claimed, lane="no such lane")

        await hand.wait(claimed, child)

        assert (await store.get(child.id)).lane == "main"
        await store.set(TaskDisabled("work", disabled=False))
        assert sorted(ids(await hand.claim(5))) == sorted(["b", child.id])

    async def test_it_may_be_for_later(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await started(store, session="chat")
        child = child_of(claimed, delay=30)

        assert (await hand.wait(claimed, child, room=5)).due_in == 30_000_000
        await clock.advance(30)

        assert ids(await hand.claim(5)) == [child.id]

    async def test_a_run_that_only_calls_takes_no_answer(self, store: Store) -> None:
        await calling(store)

        with pytest.raises(NotWaiting, match="it is waiting for other runs"):
            await store.change_run("c", "a", Answer("1"))

    async def test_the_runs_it_called_are_the_reason_why_it_does_not_start(self, store: Store) -> None:
        hand, claimed = await started(store)
        one, two = child_of(claimed, "one"), child_of(claimed, "two")

        await hand.wait(claimed, one, "ok", two)

        asked = Reason(Gate.ANSWER, "question ok")
        assert await store.why("a") == [asked, Reason(Gate.CALL, "calls", runs=(one.id, two.id), ahead=2)]

    async def test_a_called_run_can_call_and_ask(self, store: Store) -> None:
        hand, child = await calling(store, session="chat")
        [middle] = await hand.claim()
        grandchild = child_of(middle, "deeper")
        assert grandchild.ties is not None
        assert (grandchild.ties.depth, grandchild.ties.session) == (2, "chat")
        await hand.wait(middle, grandchild)
        [last] = await hand.claim()
        await hand.wait(last, "ok")
        assert await states(store, "a", child.id, grandchild.id) == [W, W, W]

        await store.change_run("c", grandchild.id, Answer("1"))
        for name in (grandchild.id, child.id, "a"):
            [run] = await hand.claim(5)
            assert run.id == name
            await hand.succeed(run)

        assert (await store.depths()).runs == {"succeeded": 3}
