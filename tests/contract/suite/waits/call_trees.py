"""Call trees: the end of a run also ends the runs that it has called.

Nobody waits any more for what a run called once that run has ended, by whatever means: its result, its failure, a
cancel, a stop of its session, a message that came instead of an answer, a deadline. In the same step every called run
that has not ended, whenever it was called, is cancelled (`parent_ended`) and so is what it has called in turn. One that
is running is requested to stop, as by any cancel, or abandoned if its caller was. The calls that did this were about
the first run alone: it is the one they report.

What a run called outlives everything that is not its end: retries, releases, crashes and pauses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.lifecycle.outcome import Failed, Outcome, Released, Snoozed, Succeeded
from laneway.core.records.policy import Mode, SessionPolicy
from laneway.core.records.run import Claimed, NewRun, Request, RunFilter
from laneway.core.records.states import RunState
from laneway.errors import WrongState
from laneway.ports.control import Answer, Cancel, Pause, Resume, Swept
from laneway.ports.sessions import Extent
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run
from tests.contract.suite.control.stages import named
from tests.contract.suite.frame import Part, kinds, reason, states
from tests.contract.suite.waits.calls import calling
from tests.contract.suite.waits.questions import started
from tests.contract.suite.waits.waiting_runs import ENDS
from tests.support.child_runs import child_of

W, P, R, S, F = RunState.WAITING, RunState.PENDING, RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED
C = RunState.CANCELLED


async def interrupted(store: Store) -> None:
    """Interrupt the session."""
    await store.submit([new_run("i", session="chat", user="ann", policy=SessionPolicy(mode=Mode.INTERRUPT))])


async def superseded(store: Store) -> None:
    """Send a message instead of an answer."""
    await store.submit([new_run("m", session="chat", user="ann")])


MEANS = [*ENDS, interrupted, superseded]


async def family(store: Store) -> tuple[Hand, list[NewRun]]:
    """Leave `a` waiting for an answer and for two runs, of which the first waits for a run of its own."""
    hand, claimed = await started(store, session="chat")
    one, two = child_of(claimed, "one"), child_of(claimed, "two")
    await hand.wait(claimed, "ok", one, two)
    [middle] = await hand.claim()
    assert middle.id == one.id
    deep = child_of(middle, "deep", delay=60)
    await hand.wait(middle, deep)
    return hand, [one, two, deep]


async def both_running(store: Store) -> tuple[Hand, Claimed, Claimed]:
    """Return a worker that executes `a` and a run that `a` has called, and the two."""
    hand, claimed = await started(store, session="chat")
    child = child_of(claimed)
    await hand.wait(claimed, "ok", child)
    await store.change_run("go on", "a", Answer("1"))
    runs = {run.id: run for run in await hand.claim(2)}
    return hand, runs["a"], runs[child.id]


class TestCallTrees(Part):
    """What the end of a run does to those it has called."""

    @pytest.mark.parametrize("end", MEANS, ids=named)
    async def test_whatever_ends_a_waiting_run_cancels_all_it_has_called(
        self, store: Store, end: Callable[[Store], Awaitable[None]]
    ) -> None:
        _, called = await family(store)

        await end(store)

        assert await states(store, "a", *(new.id for new in called)) == [C] * 4
        assert [await reason(store, new.id) for new in called] == ["parent_ended"] * 3
        for new in called:
            assert (await kinds(store, new.id))[-2:] == ["cancel_requested", "done"]
        assert "returned" not in await kinds(store, "a")
        assert "returned" not in await kinds(store, called[0].id)

    async def test_so_does_a_deadline(self, store: Store, clock: FakeClock) -> None:
        hand, called = await family(store)
        await clock.advance(60)

        await hand.step()

        assert await states(store, "a", *(new.id for new in called)) == [C] * 4
        assert await reason(store, "a") == "unanswered"

    @pytest.mark.parametrize("outcome", [Succeeded("1"), Failed(error(kind="bad_result"))], ids=str)
    async def test_so_does_an_end_of_its_own(self, store: Store, outcome: Outcome) -> None:
        hand, called = await family(store)
        await store.change_run("c", "a", Answer("1"))
        again = next(run for run in await hand.claim(2) if run.id == "a")

        await hand.settle([again], outcome)

        one, two, deep = called
        assert await states(store, one.id, two.id, deep.id) == [C, R, C]
        assert (await store.get(two.id)).request is Request.CANCEL
        assert [await reason(store, new.id) for new in (one, deep)] == ["parent_ended"] * 2

    async def test_so_does_the_end_of_one_that_is_cancelled_at_work(self, store: Store) -> None:
        hand, parent, child = await both_running(store)
        await store.change_run("c", "a", Cancel())
        assert (await store.get(child.id)).request is None

        await hand.stop(parent)

        assert (await store.get(child.id)).request is Request.CANCEL

    async def test_so_does_the_end_of_one_that_is_abandoned(self, store: Store) -> None:
        hand, parent, child = await both_running(store)

        await store.change_run("c", "a", Cancel(abandon=True))

        # What it called is abandoned with it: whoever did not wait for the one does not wait for the other.
        assert await states(store, child.id) == [C]
        late = await hand.succeed(parent, child)
        assert late.refused == [(parent.number, parent.fence), (child.number, child.fence)]

    async def test_so_does_a_quarantine(self, store: Store) -> None:
        hand, _, child = await both_running(store)
        heir = await Hand(store, "heir").register()
        await hand.leave()
        lapsed = {run.id: run for run in (await heir.reclaim()).lapsed}

        await heir.fail(lapsed["a"], failure=error(kind="bad_result"))

        # Whoever executed the called run is dead too, so it has stopped already.
        assert await states(store, "a", child.id) == [F, C]
        assert (await heir.lapse(lapsed[child.id])).refused == [(child.number, child.fence)]

    async def test_one_that_is_running_is_told_to_stop_and_its_result_does_not_count(self, store: Store) -> None:
        hand, parent, child = await both_running(store)
        await hand.rest()

        reply = await hand.succeed(parent)

        assert [(told.number, told.request) for told in reply.requests] == [(child.number, Request.CANCEL)]
        await hand.succeed(child, value=1)
        run = await store.get(child.id)
        assert (run.state, run.result) == (C, None)
        assert (await kinds(store, "a"))[-1] == "done"

    async def test_both_may_end_in_the_same_step(self, store: Store) -> None:
        hand, parent, child = await both_running(store)

        await hand.succeed(parent, child)

        assert await states(store, "a", child.id) == [S, C]

    async def test_a_holder_of_a_called_run_is_woken(self, store: Store) -> None:
        _, called = await family(store)
        other = await Hand(store, "other").register()
        await other.rest(room=5)
        assert (await store.get(called[1].id)).state is R

        await store.change_run("c", "a", Cancel())

        assert await other.hears()
        assert [told.request for told in (await other.step()).requests] == [Request.CANCEL]

    async def test_what_was_called_in_an_earlier_wait_goes_too(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        early, late = child_of(claimed, "early", delay=60), child_of(claimed, "late", delay=60)
        await hand.wait(claimed, "one", early)
        await store.change_run("c1", "a", Answer("1"))
        [claimed] = await hand.claim()
        await hand.wait(claimed, "two", late)
        await store.change_run("c2", "a", Answer("2"))
        [claimed] = await hand.claim()
        await hand.wait(claimed, "three")

        await store.change_run("c3", "a", Cancel())

        assert await states(store, early.id, late.id) == [C, C]

    @pytest.mark.parametrize("outcome", [Failed(error()), Released(), Snoozed(5_000_000)], ids=str)
    async def test_what_is_no_end_leaves_it_alone(self, store: Store, clock: FakeClock, outcome: Outcome) -> None:
        hand, parent, child = await both_running(store)

        await hand.settle([parent], outcome)

        assert (await store.get(child.id)).request is None
        await hand.succeed(child, value=1)
        await clock.advance(60)
        [again] = await hand.claim()
        assert (again.id, again.memos) == ("a", 2)

    async def test_a_crash_of_both_leaves_both(self, store: Store) -> None:
        hand, _, child = await both_running(store)
        heir = await Hand(store, "heir").register()
        await hand.leave()

        await heir.lapse(*(await heir.reclaim()).lapsed)

        assert await states(store, "a", child.id) == [P, P]

    async def test_a_called_run_that_has_ended_stays_as_it_was(self, store: Store) -> None:
        hand, child = await calling(store)
        [again] = (await hand.succeed(*await hand.claim(), value=1, room=1)).claimed

        await hand.succeed(again)

        run = await store.get(child.id)
        assert (run.state, run.result, run.reason) == (S, 1, None)

    async def test_a_stop_reports_the_session_s_own_run_alone(self, store: Store) -> None:
        await family(store)

        assert await store.stop("c", "chat", Extent.ALL) == Stopped(("a",))
        assert await store.stop("c", "chat", Extent.ALL) == Stopped(("a",))

    async def test_a_sweep_counts_those_that_it_was_about(self, store: Store) -> None:
        await family(store)
        wanted = RunFilter(state=W)

        first = await store.cancel_where("c", wanted)

        assert await store.cancel_where("c", wanted) == first == Swept(1)
        assert (await store.depths()).runs == {"cancelled": 4}

    async def test_a_deadline_ends_a_paused_called_run_before_it_could_be_resumed(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand, claimed = await started(store)
        child = child_of(claimed)
        await hand.wait(claimed, "ok", child)
        await store.change_run("p", child.id, Pause())
        await clock.advance(60)

        with pytest.raises(WrongState, match="a cancelled run cannot be resumed"):
            await store.change_run("r", child.id, Resume())

        assert await states(store, "a", child.id) == [C, C]
        assert await hand.claim(5) == []

    async def test_a_caller_that_was_pruned_is_not_missed(self, store: Store, clock: FakeClock) -> None:
        hand, parent, child = await both_running(store)
        await hand.succeed(parent)
        await clock.advance(1)
        await store.prune(OldRuns({S: 0}))

        await hand.stop(child)

        assert await states(store, child.id) == [C]
