"""Waiting runs under control: what pause, resume, cancel and a session's stop do to one, and who passes it.

Nobody executes a run that waits, so what ends it ends it at once. It cannot be paused, for it is not about to start;
but a pause that was requested while it was running stays requested and takes hold when it goes on, and a resume takes
that back. A cancel that was requested before it asked wins over the question.

In its session it is *active*: it keeps its place, so nobody passes it, and it counts as one of those that may be active
at once. With `pass_on_retry` it steps out instead and comes back before those that were never started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.records.policy import Mode, SessionPolicy
from laneway.core.records.run import Gate, Request, RunFilter
from laneway.core.records.states import RunState
from laneway.errors import NotWaiting, WrongState
from laneway.ports.control import Answer, Cancel, Pause, Resume, Swept
from laneway.ports.sessions import Extent
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from laneway.testing.waits import waits
from tests.contract.suite.control.stages import named
from tests.contract.suite.frame import Part, counts, ids, kinds, reason, start_order, states
from tests.contract.suite.sessions.passing import PASSING
from tests.contract.suite.sessions.sessions import standing
from tests.contract.suite.waits.questions import asking, started
from tests.support.sessions import session_of

W, P, C, PAUSED = RunState.WAITING, RunState.PENDING, RunState.CANCELLED, RunState.PAUSED


async def cancelled(store: Store) -> None:
    """Cancel the run."""
    assert (await store.change_run("c", "a", Cancel())).state is C


async def abandoned(store: Store) -> None:
    """Abandon it."""
    assert (await store.change_run("c", "a", Cancel(abandon=True))).state is C


async def swept(store: Store) -> None:
    """Cancel it with all that wait."""
    assert await store.cancel_where("c", RunFilter(state=W)) == Swept(1)
    assert await store.cancel_where("c", RunFilter(state=W)) == Swept(1)


async def stopped(store: Store) -> None:
    """Stop the session's oldest run."""
    assert await store.stop("c", "chat", Extent.OLDEST) == Stopped(("a",))


async def all_stopped(store: Store) -> None:
    """Stop all of the session."""
    assert await store.stop("c", "chat", Extent.ALL) == Stopped(("a",))


async def reset(store: Store) -> None:
    """Reset the session."""
    assert await store.stop("c", "chat", Extent.ABANDON) == Stopped(("a",))


ENDS = [cancelled, abandoned, swept, stopped, all_stopped, reset]


class TestWaitingRuns(Part):
    """`ControlStore` and `SessionStore` on runs that wait."""

    @pytest.mark.parametrize("end", ENDS, ids=named)
    async def test_whatever_ends_it_ends_it_at_once(
        self, store: Store, clock: FakeClock, end: Callable[[Store], Awaitable[None]]
    ) -> None:
        hand = await asking(store, session="chat")
        await clock.advance(1)

        await end(store)

        run = await store.get("a")
        assert (run.state, run.reason, run.wait) == (C, None, None)
        assert await kinds(store, "a") == ["started", "question", "cancel_requested", "done"]
        assert await session_of(store, "chat") is None
        with pytest.raises(NotWaiting, match="it is cancelled"):
            await store.change_run("d", "a", Answer("1"))
        assert (await hand.step(room=5)).claimed == []
        assert (await hand.step()).due_in is None

    async def test_an_interrupt_ends_it_and_starts_at_once(self, store: Store) -> None:
        hand = await asking(store, session="chat")

        await store.submit([new_run("i", session="chat", user="ann", policy=SessionPolicy(mode=Mode.INTERRUPT))])

        assert await states(store, "a") == [C]
        assert await kinds(store, "a") == ["started", "question", "cancel_requested", "done"]
        assert ids(await hand.claim(5)) == ["i"]

    async def test_a_cancel_that_was_requested_wins_over_the_question(self, store: Store) -> None:
        hand, claimed = await started(store)
        await store.change_run("c", "a", Cancel())

        reply = await hand.wait(claimed, "ok", room=1)

        run = await store.get("a")
        assert (reply.refused, run.state, run.wait) == ([], C, None)
        assert await kinds(store, "a") == ["started", "cancel_requested", "stopped", "done"]
        assert (await store.recall("a")).wait is None
        assert reply.due_in is None

    async def test_it_cannot_be_paused(self, store: Store) -> None:
        await asking(store)

        with pytest.raises(WrongState, match="a waiting run cannot be paused"):
            await store.change_run("p", "a", Pause())

        assert (await store.get("a")).request is None

    async def test_it_cannot_be_resumed_if_no_pause_was_requested(self, store: Store) -> None:
        await asking(store)

        with pytest.raises(WrongState, match="a waiting run cannot be resumed"):
            await store.change_run("r", "a", Resume())

    async def test_a_requested_pause_takes_hold_when_it_is_answered(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        await store.submit([new_run("b", session="chat", user="bob")])
        await store.change_run("p", "a", Pause())
        reply = await hand.wait(claimed, "ok", room=5)
        run = await store.get("a")
        assert (reply.claimed, reply.requests, run.state, run.request) == ([], [], W, Request.PAUSE)

        run = await store.change_run("c", "a", Answer("1"))

        assert (run.state, run.request) == (PAUSED, None)
        assert (await kinds(store, "a"))[1:] == ["pause_requested", "question", "answered", "paused"]
        assert await hand.claim(5) == []
        await store.change_run("r", "a", Resume())
        [again] = await hand.claim(5)
        assert (again.id, again.memos) == ("a", 1)

    async def test_pausing_it_again_changes_nothing_while_the_pause_stands(self, store: Store) -> None:
        hand, claimed = await started(store)
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, "ok")
        log = await kinds(store, "a")

        assert (await store.change_run("q", "a", Pause())).request is Request.PAUSE

        assert await kinds(store, "a") == log

    async def test_a_resume_while_it_waits_takes_the_pause_back(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, "ok")

        run = await store.change_run("r", "a", Resume())

        assert (run.state, run.request) == (W, None)
        assert (await kinds(store, "a"))[-1] == "resumed"
        assert await store.check() == []
        assert (await store.change_run("r", "a", Resume())).state is W
        assert (await store.change_run("c", "a", Answer("1"))).state is P
        assert ids(await hand.claim(5)) == ["a"]

    async def test_a_run_that_waits_no_more_but_is_paused_can_be_cancelled(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        await store.change_run("p", "a", Pause())
        await hand.wait(claimed, "ok")
        await store.change_run("c", "a", Answer("1"))

        await store.change_run("d", "a", Cancel())

        assert await states(store, "a") == [C]
        assert await session_of(store, "chat") is None

    async def test_it_keeps_its_place_in_its_session(self, store: Store) -> None:
        hand = await asking(store, session="chat")
        await store.submit(new_runs(2, "s", session="chat", user="bob"))
        assert await hand.claim(5) == []
        assert await standing(store) == (1, 1, 2)
        [why] = [reason for reason in await store.why("s-00000") if reason.gate is Gate.SESSION_BUSY]
        assert why.runs == ("a",)

        await store.change_run("c", "a", Answer("1"))

        assert await start_order(hand) == ["a", "s-00000", "s-00001"]

    async def test_it_counts_as_one_of_those_that_may_be_active(self, store: Store) -> None:
        hand = await asking(store, session="chat", max_concurrent=2)
        await store.submit(new_runs(3, "s", session="chat", user="bob"))

        assert ids(await hand.claim(5)) == ["s-00000"]
        assert await standing(store) == (2, 2, 2)
        await store.change_run("c", "a", Cancel())

        assert ids(await hand.claim(5)) == ["s-00001"]

    async def test_it_is_passed_where_retries_are_and_comes_back_before_those_that_wait(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", **PASSING))
        [first] = await hand.claim(5)

        [second] = (await hand.wait(first, "ok", room=5)).claimed
        assert second.id == "s-00001"
        assert await standing(store) == (1, 2, 1)
        await store.change_run("c", first.id, Answer("1"))
        assert await hand.claim(5) == []
        assert await standing(store) == (1, 2, 1)

        assert ids((await hand.succeed(second, room=5)).claimed) == ["s-00000"]

    @pytest.mark.parametrize("pause", [False, True])
    async def test_one_that_was_passed_can_be_paused_and_ended(self, store: Store, pause: bool) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", **PASSING))
        [first] = await hand.claim(5)
        if pause:
            await store.change_run("p", first.id, Pause())
        [second] = (await hand.wait(first, "ok", room=5)).claimed
        await store.change_run("c", first.id, Answer("1"))
        assert await states(store, first.id) == [PAUSED if pause else P]

        await store.change_run("d", first.id, Cancel())

        assert ids((await hand.succeed(second, room=5)).claimed) == ["s-00002"]

    async def test_stop_takes_the_oldest_whether_it_waits_or_runs(self, store: Store) -> None:
        hand = await asking(store, session="chat", max_concurrent=2)
        await store.submit([new_run("b", session="chat", user="bob")])
        await hand.claim(5)

        assert [await store.stop(call, "chat", Extent.OLDEST) for call in "cde"] == [
            Stopped(("a",)),
            Stopped(("b",)),
            Stopped(),
        ]
        assert await reason(store, "a") is None

    async def test_it_leaves_what_its_last_attempt_did_not_read(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat", policy=SessionPolicy(while_waiting="queue"))
        steer = SessionPolicy(mode=Mode.STEER)
        await store.submit([new_run(name, session="chat", policy=steer) for name in ("m1", "m2")])
        await hand.settle([claimed], waits("ok"), read=1)
        await store.submit([new_run("m3", session="chat", user="bob", policy=steer)])

        await store.change_run("c", "a", Cancel())

        assert await start_order(hand) == ["m2", "m3"]

    async def test_what_it_has_read_is_not_dropped_unread(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        steer = SessionPolicy(mode=Mode.STEER)
        await store.submit([new_run(name, session="chat", policy=steer) for name in ("m1", "m2")])
        await hand.settle([claimed], waits("ok"), read=1)

        await store.stop("c", "chat", Extent.ALL)

        assert await counts(store) == {"steered": 2, "dropped unread": 1}
