"""Breakers per user, and what operators see of breakers and do to them and to what waits for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from laneway.core.common.instants import instant
from laneway.core.records.breakers import Breaker, Phase
from laneway.core.records.policy import Lane, SessionPolicy
from laneway.core.records.run import Gate, Reason, ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause, Resume
from laneway.ports.gates import Held
from laneway.ports.sessions import Extent
from laneway.ports.settings import BreakerClosed, Hold, TaskDisabled
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.attempts.breakers import OPEN_FOR, circuits, fail, policy
from tests.contract.suite.frame import Part, ids, states, widen
from tests.contract.suite.workers.wakeups import resting, woken


class TestUserBreakers(Part):
    """A breaker per user: each user of the task by itself."""

    async def test_it_leaves_other_users_alone(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store, policy=policy(Breaker(2, open_for=OPEN_FOR, per="user"))).register()
        await fail(hand, store, user="ann")
        await store.submit([new_run("ann", user="ann"), new_run("bob", user="bob"), new_run("none")])

        claimed = await hand.claim(9)

        assert ids(claimed) == ["bob", "none"]
        await hand.fail(*claimed)
        assert [(one.user, one.phase, one.failures, one.parked) for one in await circuits(store)] == [
            ("", Phase.CLOSED, 1, 0),
            ("ann", Phase.OPEN, 2, 1),
            ("bob", Phase.CLOSED, 1, 0),
        ]
        await clock.advance(OPEN_FOR)
        assert ids(await hand.claim(9)) == ["ann"]

    async def test_runs_without_a_user_count_together(self, store: Store) -> None:
        hand = await Hand(store, policy=policy(Breaker(2, open_for=OPEN_FOR, per="user"))).register()
        await fail(hand, store)
        await store.submit([new_run("none"), new_run("ann", user="ann")])

        assert ids(await hand.claim(9)) == ["ann"]
        assert (await store.why("none"))[0].holder == "task work without a user"
        await store.set(BreakerClosed("work", ""))
        assert ids(await hand.claim(9)) == ["none"]

    async def test_who_is_at_the_cap_waits_for_that_first(self, store: Store, clock: FakeClock) -> None:
        await store.declare_lanes([Lane("main", limit=9, per_user=1)])
        hand = await Hand(store, tasks={"work", "mail"}, policy=policy()).register()
        await fail(hand, store)
        await store.submit([new_run("busy", task="mail", user="ann")])
        [busy] = await hand.claim(9)
        await store.submit([*new_runs(3, "ann", user="ann"), new_run("bob", user="bob")])
        assert await hand.claim(9) == []
        await clock.advance(OPEN_FOR)

        [probe] = await hand.claim(9)

        assert probe.id == "bob"
        reply = await hand.succeed(probe, busy, room=9)
        assert ids(reply.claimed) == ["ann-00000"]

    async def test_both_kinds_are_asked_when_a_task_changed_its_breaker(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store, policy=policy(Breaker(2, open_for=OPEN_FOR, per="user"))).register()
        await fail(hand, store, user="ann")
        hand.policy = policy(Breaker(2, open_for=2 * OPEN_FOR))
        await fail(hand, store, user="bob")
        await store.submit([new_run("ann", user="ann"), new_run("bob", user="bob")])
        assert await hand.claim(9) == []
        assert [one.holder for one in await store.why("ann")] == ["task work", "task work of user ann"]

        await store.set(BreakerClosed("work"))

        assert ids(await hand.claim(9)) == ["bob"]
        await clock.advance(OPEN_FOR)
        assert ids(await hand.claim(9)) == ["ann"]


class TestBreakersAndOperators(Part):
    """What operators see of breakers and do to them, and what is done to runs that wait for one."""

    @pytest_asyncio.fixture
    async def behind(self, store: Store) -> AsyncIterator[Hand]:
        """A worker whose task's breaker is open, with three runs parked behind it."""
        await widen(store)
        behind = await Hand(store, policy=policy()).register()
        await fail(behind, store)
        await store.submit(new_runs(3, "r", session="chat", max_concurrent=3))
        assert await behind.claim(9) == []
        yield behind

    async def test_closing_it_lets_all_start(self, store: Store, behind: Hand) -> None:
        await store.set(BreakerClosed("work"))

        assert len(await behind.claim(9)) == 3
        assert await circuits(store) == []

    async def test_closing_what_is_not_open_does_nothing(self, store: Store, behind: Hand) -> None:
        before = await circuits(store)

        await store.set(BreakerClosed("work", "ann"))
        await store.set(BreakerClosed("nothing"))

        assert await circuits(store) == before
        assert await behind.claim(9) == []

    async def test_closing_wakes_who_rests(self, store: Store, behind: Hand) -> None:
        rester = await resting(store)

        await store.set(BreakerClosed("work"))

        assert await woken(store, rester) == [rester]

    async def test_a_probe_that_closes_it_wakes_who_rests(self, store: Store, behind: Hand, clock: FakeClock) -> None:
        await clock.advance(OPEN_FOR)
        [probe] = await behind.claim(1)
        rester = await resting(store)

        await behind.succeed(probe)

        assert await woken(store, rester) == [rester]

    async def test_a_probe_that_comes_to_nothing_wakes_who_rests(
        self, store: Store, behind: Hand, clock: FakeClock
    ) -> None:
        await clock.advance(OPEN_FOR)
        [probe] = await behind.claim(1)
        rester = await resting(store)

        await behind.snooze(probe, delay=500)

        assert await woken(store, rester) == [rester]

    async def test_who_rests_is_told_when_one_is_tried(self, store: Store, behind: Hand, clock: FakeClock) -> None:
        await clock.advance(20)

        assert (await behind.rest(9)).due_in == (OPEN_FOR - 20) * 1_000_000

    async def test_nobody_is_told_of_a_time_for_which_nothing_waits(self, store: Store, behind: Hand) -> None:
        for run_id in ("r-00000", "r-00001", "r-00002"):
            await store.change_run(f"call {run_id}", run_id, Cancel())

        assert (await behind.rest(9)).due_in is None

    async def test_why_names_it_and_when_it_opens(self, store: Store, behind: Hand, clock: FakeClock) -> None:
        opens_at = instant(clock.now() + OPEN_FOR * 1_000_000)
        assert await store.why("r-00000") == [Reason(Gate.BREAKER_OPEN, "task work", opens_at=opens_at)]
        await clock.advance(OPEN_FOR)

        [probe] = await behind.claim(1)

        waiting = "r-00001" if probe.id == "r-00000" else "r-00000"
        [reason] = [one for one in await store.why(waiting) if one.gate is Gate.BREAKER_OPEN]
        assert (reason.holder, reason.opens_at, reason.runs) == ("task work", None, (probe.id,))

    async def test_why_names_a_pause_of_its_task_too(self, store: Store, behind: Hand) -> None:
        await store.set(Hold(Held.TASK, "work", held=True))
        assert await behind.claim(9) == []

        assert [one.gate for one in await store.why("r-00000")] == [Gate.PAUSED, Gate.BREAKER_OPEN]

    async def test_a_paused_task_tries_nothing(self, store: Store, behind: Hand, clock: FakeClock) -> None:
        await store.set(Hold(Held.TASK, "work", held=True))
        await clock.advance(OPEN_FOR)
        assert await behind.claim(9) == []

        await store.set(Hold(Held.TASK, "work", held=False))

        assert len(await behind.claim(9)) == 1

    @pytest.mark.parametrize("what", [Held.LANE, Held.SESSION])
    async def test_what_waits_can_be_held_besides(
        self, store: Store, behind: Hand, clock: FakeClock, what: Held
    ) -> None:
        name = "main" if what is Held.LANE else "chat"
        await store.set(Hold(what, name, held=True))
        await clock.advance(OPEN_FOR)
        assert await behind.claim(9) == []

        await store.set(Hold(what, name, held=False))

        assert len(await behind.claim(9)) == 1

    async def test_what_waits_can_be_cancelled_paused_and_resumed(self, store: Store, behind: Hand) -> None:
        await store.change_run("one", "r-00000", Cancel())
        await store.change_run("two", "r-00001", Pause())
        assert await states(store, "r-00000", "r-00001", "r-00002") == ["cancelled", "paused", "pending"]
        assert await behind.claim(9) == []
        await store.change_run("three", "r-00001", Resume())
        assert await behind.claim(9) == []

        await store.set(BreakerClosed("work"))

        assert sorted(ids(await behind.claim(9))) == ["r-00001", "r-00002"]

    async def test_a_session_that_is_stopped_drops_what_waits(self, store: Store, behind: Hand) -> None:
        await store.stop("call", "chat", Extent.ALL)

        assert await states(store, "r-00000", "r-00001", "r-00002") == ["dropped"] * 3
        assert (await store.depths()).parked == 0

    async def test_a_message_that_interrupts_drops_what_waits(self, store: Store, behind: Hand) -> None:
        await store.submit([new_run("new", session="chat", policy=SessionPolicy(mode="interrupt"))])

        await store.set(BreakerClosed("work"))

        assert ids(await behind.claim(9)) == ["new"]

    async def test_it_outlives_the_runs_that_opened_it(self, store: Store, behind: Hand, clock: FakeClock) -> None:
        before = await circuits(store)
        await clock.advance(1)

        assert await store.prune(OldRuns({RunState.FAILED: 0})) == 2

        assert await circuits(store) == before
        assert await behind.claim(9) == []

    async def test_one_that_disables_its_task_stays_open_until_somebody_enables_it(
        self, store: Store, clock: FakeClock
    ) -> None:
        behind = await Hand(store, policy=policy(Breaker(1, open_for=5, disable=True))).register()
        await store.submit(new_runs(3, "r"))
        runs = await behind.claim(9)
        await behind.fail(runs[0])

        [receipt] = await store.submit([new_run("new")])
        assert (receipt.outcome, receipt.reason) == (ReceiptOutcome.REFUSED, "task_disabled")
        await behind.release(*runs[1:])
        await clock.advance(10 * OPEN_FOR)
        reply = await behind.step(room=9)
        assert (reply.claimed, reply.due_in) == ([], None)
        [state] = [state for state in await store.tasks() if state.name == "work"]
        assert (state.disabled, state.circuits[0].phase, state.circuits[0].opens_at) == (True, Phase.OPEN, None)
        behind.renew()
        assert await store.why(runs[1].id) == [Reason(Gate.BREAKER_OPEN, "task work")]

        await store.set(TaskDisabled("work", disabled=False))

        assert len(await behind.claim(9)) == 2
