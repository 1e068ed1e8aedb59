"""Settling: what an outcome changes in the run and in its log, and which worker may settle."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.common.instants import SECOND, instant
from laneway.core.lifecycle.outcome import Failed, Succeeded
from laneway.core.lifecycle.step import Result
from laneway.core.records.codec import RESULT_LIMIT
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import Claimed, Failure
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.frame import Part, ids, kinds, states


async def one_running(store: Store, name: str = "hand", policy: TaskPolicy | None = None) -> tuple[Hand, Claimed]:
    """Return a worker that executes the run `a`, and the run."""
    hand = await Hand(store, name, policy=policy).register()
    await store.submit([new_run("a", user="ann")])
    [claimed] = await hand.claim()
    return hand, claimed


class TestSettling(Part):
    """The results of `WorkerStore.step`."""

    async def test_a_success_is_recorded_with_its_result(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await one_running(store)
        await clock.advance(2)

        reply = await hand.succeed(claimed, value={"n": [1, None, "ü\x00"]})

        run = await store.get("a")
        assert reply.refused == []
        assert (run.state, run.result, run.error, run.reason) == (
            RunState.SUCCEEDED,
            {"n": [1, None, "ü\x00"]},
            None,
            None,
        )
        assert (run.attempt, run.crashes, run.fence, run.worker) == (1, 0, 1, None)
        assert run.started_at == instant(clock.now() - 2 * SECOND)
        assert run.ended_at == instant(clock.now())

    async def test_a_success_writes_its_result_and_done(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await one_running(store)
        await clock.advance(2)

        await hand.succeed(claimed, value=[42])

        _, result, done = await store.events("a")
        assert (result.seq, result.kind, result.data) == (2, "result", {"value": [42]})
        assert (done.seq, done.kind, done.data) == (3, "done", {"state": "succeeded"})
        assert (result.at, done.at) == (instant(clock.now()),) * 2

    @pytest.mark.parametrize("value", [None, False, 0, "", [], {}, 2**70, "\x00", "ß🦜", [[[]]]], ids=repr)
    async def test_a_result_may_be_any_json(self, store: Store, value: Any) -> None:
        hand, claimed = await one_running(store)

        await hand.succeed(claimed, value=value)

        assert (await store.get("a")).result == value
        assert (await store.events("a"))[1].data == {"value": value}

    async def test_a_result_of_the_largest_size_is_kept_whole(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        text = "x" * (RESULT_LIMIT - 2)

        await hand.succeed(claimed, value=text)

        assert (await store.get("a")).result == text
        assert (await store.events("a"))[1].data == {"value": text}

    async def test_a_failure_is_tried_again_after_its_delay(self, store: Store, clock: FakeClock) -> None:
        policy = TaskPolicy(retry=Retry.delays(60, 240))
        hand, claimed = await one_running(store, policy=policy)
        failure = Failure("error", "ValueError", "no", "Traceback ...")

        await hand.fail(claimed, failure=failure)

        run = await store.get("a")
        assert (run.state, run.attempt, run.fence, run.crashes) == (RunState.PENDING, 2, 1, 0)
        assert (run.error, run.reason, run.worker, run.ended_at) == (failure, None, None, None)
        assert run.due_at == instant(clock.now() + 60 * SECOND)
        retrying = (await store.events("a"))[-1]
        assert (retrying.kind, retrying.attempt) == ("retrying", 1)
        assert retrying.data == {
            "attempt": 2,
            "delay": 60.0,
            "error": {"kind": "error", "type": "ValueError", "message": "no"},
        }
        await clock.advance(60)
        [again] = await hand.claim()
        assert (again.attempt, again.fence, again.crashes) == (2, 2, 0)

    async def test_the_last_failure_ends_the_run(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await one_running(store, policy=TaskPolicy(retry=Retry(attempts=2)))
        await hand.fail(claimed, failure=error("first"))
        await clock.advance(60)
        [claimed] = await hand.claim()

        await hand.fail(claimed, failure=error("second"))

        run = await store.get("a")
        assert (run.state, run.attempt, run.fence) == (RunState.FAILED, 2, 2)
        assert (run.error, run.reason, run.result) == (error("second"), "error", None)
        assert run.ended_at == instant(clock.now())
        assert await kinds(store, "a") == ["started", "retrying", "started", "error", "done"]
        last, done = (await store.events("a"))[-2:]
        assert last.data == {"kind": "error", "type": "ValueError", "message": "second"}
        assert (done.data, done.attempt) == ({"state": "failed"}, 2)

    @pytest.mark.parametrize("kind", ["bad_result", "bad_arguments"])
    async def test_what_cannot_get_better_is_not_tried_again(self, store: Store, kind: str) -> None:
        hand, claimed = await one_running(store)

        await hand.fail(claimed, failure=error(kind=kind))

        run = await store.get("a")
        assert (run.state, run.attempt, run.reason) == (RunState.FAILED, 1, kind)

    async def test_a_timeout_is_recorded_as_one(self, store: Store) -> None:
        hand, claimed = await one_running(store, policy=TaskPolicy(retry=Retry(on_timeout=False)))

        await hand.fail(claimed, failure=error(kind="timed_out"))

        run = await store.get("a")
        assert (run.state, run.reason) == (RunState.FAILED, "timed_out")

    async def test_a_success_after_a_failure_clears_the_error(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await one_running(store)
        await hand.fail(claimed)
        await clock.advance(60)
        [claimed] = await hand.claim()

        await hand.succeed(claimed, value=1)

        run = await store.get("a")
        assert (run.state, run.attempt, run.error, run.result) == (RunState.SUCCEEDED, 2, None, 1)

    async def test_a_release_charges_nothing_and_is_due_at_once(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await one_running(store)
        await clock.advance(2)

        await hand.release(claimed)

        run = await store.get("a")
        assert (run.state, run.attempt, run.crashes, run.fence) == (RunState.PENDING, 1, 0, 1)
        assert (run.worker, run.ended_at, run.due_at) == (None, None, instant(clock.now()))
        assert await kinds(store, "a") == ["started", "released"]
        assert ids(await hand.claim()) == ["a"]

    async def test_a_lapse_charges_a_crash_and_names_the_dead(self, store: Store) -> None:
        dead, _ = await one_running(store, "dead")
        heir = await Hand(store, "heir").register()
        await dead.leave()
        [lapsed] = (await heir.reclaim()).lapsed

        await heir.lapse(lapsed)

        run = await store.get("a")
        assert (run.state, run.attempt, run.crashes, run.fence, run.worker) == (RunState.PENDING, 1, 1, 1, None)
        assert run.error is not None
        assert (run.error.kind, run.error.type) == ("crashed", "WorkerLost")
        assert "dead" in run.error.message
        event = (await store.events("a"))[-1]
        assert (event.kind, event.data) == ("lapsed", {"worker": "dead", "crashes": 1})
        [again] = await heir.claim()
        assert (again.crashes, again.attempt, again.fence, again.lapsed) == (1, 1, 2, False)

    async def test_too_many_crashes_in_a_row_quarantine_the_run(self, store: Store, clock: FakeClock) -> None:
        heir = await Hand(store, "heir").register()
        await store.submit([new_run("a")])
        for index in range(3):
            dead = await Hand(store, f"dead{index}").register()
            await dead.claim()
            await dead.leave()
            await heir.lapse(*(await heir.reclaim()).lapsed)

        run = await store.get("a")
        assert (run.state, run.reason, run.crashes, run.attempt) == (RunState.FAILED, "quarantined", 3, 1)
        assert run.ended_at == instant(clock.now())
        assert (await kinds(store, "a"))[-3:] == ["lapsed", "error", "done"]

    async def test_a_failure_ends_the_row_of_crashes(self, store: Store) -> None:
        dead, _ = await one_running(store, "dead")
        heir = await Hand(store, "heir").register()
        await dead.leave()
        await heir.lapse(*(await heir.reclaim()).lapsed)

        await heir.fail(*await heir.claim())

        run = await store.get("a")
        assert (run.crashes, run.attempt) == (0, 2)

    async def test_events_of_the_attempt_stand_before_its_outcome(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        drafts = (("progress", '{"fraction":0.5}'), ("log", '{"text":"half"}'))

        await hand.step(results=[hand.result(claimed, Succeeded("1"), drafts)])

        assert await kinds(store, "a") == ["started", "progress", "log", "result", "done"]

    async def test_a_stale_fence_is_refused_and_changes_nothing(self, store: Store) -> None:
        hand, old = await one_running(store)
        await hand.release(old)
        [new] = await hand.claim()
        before, log = await store.get("a"), await store.events("a")

        reply = await hand.succeed(old, value="late")

        assert reply.refused == [(old.number, old.fence)]
        assert (await store.get("a"), await store.events("a")) == (before, log)
        assert (await hand.succeed(new, value="right")).refused == []
        assert (await store.get("a")).result == "right"

    async def test_a_fence_of_the_future_is_refused(self, store: Store) -> None:
        hand, claimed = await one_running(store)

        settlement = hand.result(claimed, Succeeded("1")).settlement
        reply = await hand.step(results=[Result(claimed.number, claimed.fence + 1, settlement)])

        assert reply.refused == [(claimed.number, claimed.fence + 1)]
        assert await states(store, "a") == [RunState.RUNNING]

    async def test_a_worker_cannot_settle_what_another_holds(self, store: Store) -> None:
        _, claimed = await one_running(store)
        other = await Hand(store, "other").register()
        before, log = await store.get("a"), await store.events("a")

        reply = await other.succeed(claimed, value="not mine")

        assert reply.refused == [(claimed.number, claimed.fence)]
        assert (await store.get("a"), await store.events("a")) == (before, log)

    async def test_a_run_that_has_ended_or_never_was_cannot_be_settled(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.succeed(claimed, value=1)
        settlement = hand.result(claimed, Failed(error(kind="bad_result"))).settlement

        reply = await hand.step(results=[Result(claimed.number, 1, settlement), Result(999_999, 1, settlement)])

        assert sorted(reply.refused) == [(claimed.number, 1), (999_999, 1)]
        run = await store.get("a")
        assert (run.state, run.result) == (RunState.SUCCEEDED, 1)

    async def test_a_pending_run_cannot_be_settled(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.release(claimed)

        reply = await hand.succeed(claimed)

        assert reply.refused == [(claimed.number, claimed.fence)]
        assert await states(store, "a") == [RunState.PENDING]

    async def test_of_two_results_for_one_lease_the_first_counts(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        results = [hand.result(claimed, Succeeded('"first"')), hand.result(claimed, Succeeded('"second"'))]

        reply = await hand.step(results=results)

        assert reply.refused == [(claimed.number, claimed.fence)]
        assert (await store.get("a")).result == "first"

    async def test_a_refused_result_does_not_touch_its_neighbours(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r"))
        first, second, third = await hand.claim(3)
        await hand.release(second)

        reply = await hand.succeed(first, second, third, value="done")

        assert reply.refused == [(second.number, second.fence)]
        assert await states(store, "r-00000", "r-00001", "r-00002") == [
            RunState.SUCCEEDED,
            RunState.PENDING,
            RunState.SUCCEEDED,
        ]

    async def test_a_refused_result_frees_no_slot(self, store: Store) -> None:
        hand, old = await one_running(store)
        await hand.release(old)
        await hand.claim()

        await hand.succeed(old, old, old)

        [main] = [state for state in await store.lanes() if state.lane.name == "main"]
        assert main.active == 1
