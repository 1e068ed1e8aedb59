"""Breakers: after so many failures in a row nothing of a task starts for a while, then one run is tried."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from laneway.core.common.instants import instant
from laneway.core.lifecycle.outcome import Lapsed
from laneway.core.records.breakers import Breaker, Phase
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause
from laneway.ports.gates import CircuitState
from laneway.ports.settings import BreakerClosed
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.frame import Part, ids, widen

OPEN_FOR = 60


def policy(breaker: Breaker | None = None, *, attempts: int = 1) -> TaskPolicy:
    """Return the policy of a task with a breaker that opens after two failures in a row."""
    return TaskPolicy(retry=Retry(attempts=attempts, base=0), breaker=breaker or Breaker(2, open_for=OPEN_FOR))


async def circuits(store: Store, task: str = "work") -> list[CircuitState]:
    """Return the circuits of a task."""
    return [circuit for state in await store.tasks() if state.name == task for circuit in state.circuits]


async def fail(hand: Hand, store: Store, times: int = 2, **fields: str) -> None:
    """Let so many runs fail, one after the other."""
    for _ in range(times):
        await store.submit([new_run(**fields)])  # type: ignore[arg-type]  # names of fields that are text
        [run] = await hand.claim(1)
        await hand.fail(run)


class TestBreakers(Part):
    """A task's circuit: what opens it, what it holds, and what closes it."""

    @pytest_asyncio.fixture
    async def guarded(self, store: Store) -> AsyncIterator[Hand]:
        """A worker whose task has a breaker."""
        await widen(store)
        yield await Hand(store, tasks={"work", "mail"}, policy=policy()).register()

    async def test_it_opens_after_so_many_failures_in_a_row(
        self, store: Store, guarded: Hand, clock: FakeClock
    ) -> None:
        await fail(guarded, store, user="ann")
        assert [(one.phase, one.failures) for one in await circuits(store)] == [(Phase.OPEN, 2)]

        await store.submit([new_run("next", user="bob"), new_run("other", task="mail")])

        reply = await guarded.step(room=9)
        assert ids(reply.claimed) == ["other"]
        assert reply.due_in == OPEN_FOR * 1_000_000
        [state] = await circuits(store)
        assert (state.opens_at, state.parked, state.probing) == (instant(clock.now() + reply.due_in), 1, False)

    async def test_a_success_begins_the_count_anew(self, store: Store, guarded: Hand) -> None:
        await fail(guarded, store, 1)
        await store.submit(new_runs(2, "r"))
        [run] = await guarded.claim(1)

        await guarded.succeed(run)

        assert await circuits(store) == []
        [run] = await guarded.claim(1)
        await guarded.fail(run)
        assert [(state.phase, state.failures) for state in await circuits(store)] == [(Phase.CLOSED, 1)]

    async def test_every_failed_attempt_counts(self, store: Store) -> None:
        guarded = await Hand(store, policy=policy(attempts=5)).register()
        await store.submit([new_run("a")])
        for _ in range(2):
            [run] = await guarded.claim(1)
            await guarded.fail(run)

        assert await guarded.claim(1) == []
        run_now = await store.get("a")
        assert (run_now.state, run_now.attempt, run_now.fence) == (RunState.PENDING, 3, 2)

    @pytest.mark.parametrize("way", ["release", "snooze", "pause", "stop", "wait", "refused"])
    async def test_what_is_no_verdict_is_not_counted(self, store: Store, guarded: Hand, way: str) -> None:
        await fail(guarded, store, 1)
        await store.submit([new_run("a")])
        [run] = await guarded.claim(1)

        match way:
            case "release":
                await guarded.release(run)
            case "snooze":
                await guarded.snooze(run, delay=5)
            case "pause":
                await store.change_run("call", "a", Pause())
                await guarded.pause(run)
            case "stop":
                await store.change_run("call", "a", Cancel())
                await guarded.stop(run)
            case "wait":
                await guarded.wait(run, "colour")
            case _:
                await guarded.fail(run, failure=error(kind="refused"))

        assert [state.failures for state in await circuits(store)] == [1]

    async def test_a_failure_that_a_cancel_overrules_tells_nothing(self, store: Store, guarded: Hand) -> None:
        await fail(guarded, store, 1)
        await store.submit([new_run("a")])
        [run] = await guarded.claim(1)
        await store.change_run("call", "a", Cancel())

        await guarded.fail(run)

        assert [state.failures for state in await circuits(store)] == [1]

    @pytest.mark.parametrize("charged", [True, False])
    async def test_a_lapse_counts_if_it_is_charged(self, store: Store, guarded: Hand, charged: bool) -> None:
        dying = await Hand(store, "dying").register()
        await store.submit([new_run("a")])
        await dying.claim(1)
        lapsed = (await guarded.reclaim("dying")).lapsed

        await guarded.settle(lapsed, Lapsed(charged))

        assert [state.failures for state in await circuits(store)] == [1] * charged

    async def test_a_time_out_counts_whoever_settles_it(self, store: Store, guarded: Hand) -> None:
        dying = await Hand(store, "dying").register()
        await store.submit([new_run("a")])
        [run] = await dying.claim(1)
        await dying.overdue(run)

        await guarded.settle((await guarded.reclaim("dying")).lapsed, Lapsed(charged=False))

        assert [state.failures for state in await circuits(store)] == [1]

    async def test_what_was_started_before_it_opened_tells_nothing_new(
        self, store: Store, guarded: Hand, clock: FakeClock
    ) -> None:
        await store.submit(new_runs(5, "r"))
        claimed = await guarded.claim(5)
        await guarded.fail(*claimed[:2])
        before = await circuits(store)
        await clock.advance(1)

        await guarded.fail(claimed[2])
        await guarded.succeed(claimed[3])
        await guarded.release(claimed[4])

        assert await circuits(store) == before

    async def test_a_task_without_a_breaker_keeps_nothing(self, store: Store) -> None:
        guarded = await Hand(store, policy=TaskPolicy(retry=Retry(attempts=1))).register()

        await fail(guarded, store, 9)

        assert await circuits(store) == []

    # What waits

    async def test_it_keeps_its_rank_and_is_not_charged(self, store: Store, guarded: Hand, clock: FakeClock) -> None:
        await fail(guarded, store)
        await store.submit(new_runs(4, "r"))
        assert await guarded.claim(9) == []
        assert (await store.depths()).parked == 4
        await store.submit([new_run("late"), new_run("urgent", priority=1)])
        await clock.advance(OPEN_FOR)
        [probe] = await guarded.claim(9)

        reply = await guarded.succeed(probe, room=9)

        assert (probe.id, probe.fence, probe.attempt) == ("urgent", 1, 1)
        assert ids(reply.claimed) == [f"r-{index:05d}" for index in range(4)] + ["late"]
        assert {run.fence for run in reply.claimed} == {1}
        assert await circuits(store) == []

    async def test_one_that_is_half_open_lets_one_through(self, store: Store, guarded: Hand, clock: FakeClock) -> None:
        await fail(guarded, store)
        await store.submit([*new_runs(50, "r"), *new_runs(50, "t", lane="team")])
        other = await Hand(store, "other", policy=policy()).register()
        assert await guarded.claim(100) == []
        await clock.advance(OPEN_FOR)

        claimed = await guarded.claim(100) + await other.claim(100)

        assert len(claimed) == 1
        [state] = await circuits(store)
        assert (state.phase, state.probing, state.parked) == (Phase.HALF_OPEN, True, 99)

    async def test_a_probe_that_fails_opens_it_again(self, store: Store, guarded: Hand, clock: FakeClock) -> None:
        await fail(guarded, store)
        await store.submit(new_runs(3, "r"))
        assert await guarded.claim(9) == []
        await clock.advance(OPEN_FOR)
        [probe] = await guarded.claim(9)
        await clock.advance(5)

        reply = await guarded.fail(probe, room=9)

        assert (reply.claimed, reply.due_in) == ([], OPEN_FOR * 1_000_000)
        await clock.advance(OPEN_FOR)
        assert len(await guarded.claim(9)) == 1

    @pytest.mark.parametrize("way", ["release", "snooze", "cancel", "abandon", "wait", "overruled"])
    async def test_a_probe_that_comes_to_nothing_makes_room_for_the_next(
        self, store: Store, guarded: Hand, clock: FakeClock, way: str
    ) -> None:
        await fail(guarded, store)
        await store.submit(new_runs(3, "r"))
        assert await guarded.claim(9) == []
        await clock.advance(OPEN_FOR)
        [probe] = await guarded.claim(9)
        assert await guarded.claim(9) == []

        match way:
            case "release":
                await guarded.release(probe)
            case "snooze":
                await guarded.snooze(probe, delay=500)
            case "wait":
                await guarded.wait(probe, "colour")
            case "abandon":
                await store.change_run("call", probe.id, Cancel(abandon=True))
            case "cancel":
                await store.change_run("call", probe.id, Cancel())
                await guarded.stop(probe)
            case _:
                await store.change_run("call", probe.id, Cancel())
                await guarded.fail(probe)

        [state] = await circuits(store)
        assert (state.phase, state.probing) == (Phase.HALF_OPEN, False)
        assert len(await guarded.claim(9)) == 1
        assert await guarded.claim(9) == []

    async def test_a_probe_whose_worker_died_counts_as_failed_once_that_is_settled(
        self, store: Store, guarded: Hand, clock: FakeClock
    ) -> None:
        await fail(guarded, store)
        await store.submit(new_runs(3, "r"))
        dying = await Hand(store, "dying").register()
        assert await dying.claim(9) == []
        await clock.advance(OPEN_FOR)
        [probe] = await dying.claim(9)
        lapsed = (await guarded.reclaim("dying")).lapsed
        assert (await guarded.step(room=9)).claimed == []

        await guarded.lapse(*lapsed)

        assert [state.phase for state in await circuits(store)] == [Phase.OPEN]
        assert await guarded.claim(9) == []
        await clock.advance(OPEN_FOR)
        [second] = await guarded.claim(9)
        assert (await guarded.step(results=[guarded.result(probe, Lapsed())])).refused == [(probe.number, probe.fence)]
        assert len((await guarded.succeed(second, room=9)).claimed) == 2

    async def test_a_late_result_of_a_former_probe_changes_nothing(
        self, store: Store, guarded: Hand, clock: FakeClock
    ) -> None:
        await fail(guarded, store)
        await store.submit(new_runs(3, "r"))
        await guarded.claim(9)
        await clock.advance(OPEN_FOR)
        [probe] = await guarded.claim(9)
        await store.change_run("call", probe.id, Cancel(abandon=True))
        [second] = await guarded.claim(9)
        before = await circuits(store)

        assert (await guarded.succeed(probe)).refused == [(probe.number, probe.fence)]

        assert await circuits(store) == before
        await guarded.succeed(second)
        assert len(await guarded.claim(9)) == 1

    async def test_a_success_closes_it_though_the_task_has_no_breaker_any_more(
        self, store: Store, guarded: Hand, clock: FakeClock
    ) -> None:
        await fail(guarded, store)
        await store.submit(new_runs(3, "r"))
        await clock.advance(OPEN_FOR)
        guarded.policy = TaskPolicy()
        [probe] = await guarded.claim(9)

        reply = await guarded.succeed(probe, room=9)

        assert len(reply.claimed) == 2

    async def test_many_that_wait_all_come_back(self, store: Store, guarded: Hand, clock: FakeClock) -> None:
        await fail(guarded, store)
        await store.submit(new_runs(1200, "r"))
        reply = await guarded.step(room=9)
        assert (reply.claimed, reply.more) == ([], True)
        while reply.more:
            reply = await guarded.step(room=9)
        assert (await store.depths()).parked == 1200

        await store.set(BreakerClosed("work"))

        assert len(await guarded.claim(1200)) == 1200
