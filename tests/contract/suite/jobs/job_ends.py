"""What the end of a fire's run does to its job, in whichever way the run ends, and what it leaves alone."""

from __future__ import annotations

import msgspec

from laneway.core.common.instants import SECOND, instant
from laneway.core.jobs.fire_decision import by_hand
from laneway.core.jobs.plan import switched
from laneway.core.jobs.record import FireKind, Halt, JobRecord
from laneway.core.records.breakers import Breaker
from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.states import RunState
from laneway.core.schedules import At
from laneway.ports.control import Cancel
from laneway.ports.jobs import EditJob, RemoveJob
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run
from tests.contract.suite.frame import Part
from tests.contract.suite.jobs.ended_runs import MINUTE, NAMED, ONCE, Ending, F, S, Scene, fail, scene, succeed
from tests.support.jobs import all_fires, fire_due, fired_runs, job_of, kept_job, standing

FIRED = FireKind.FIRED


class TestJobEnds(Part):
    """Whoever ends a run writes what that does to its job."""

    @NAMED
    async def test_whoever_ends_a_run_sets_the_next_fire(
        self, store: Store, clock: FakeClock, ending: Ending, state: RunState
    ) -> None:
        of = await scene(store, clock)
        assert (await standing(store)).state.next_at is None

        await ending(of)

        job, run = await standing(store), await store.get(of.run_id)
        assert (run.state, job.state.last_state, job.state.last_run) == (state, state, of.run_id)
        assert (job.state.next_at, job.state.fire_at) == (clock.now() + MINUTE * SECOND,) * 2
        assert job.state.failures == (1 if state is F else 0)
        assert (await store.due_jobs()).next_at == job.state.fire_at
        assert run.ended_at == instant(clock.now())

    @NAMED
    async def test_a_job_that_was_removed_meanwhile_stays_so(
        self, store: Store, clock: FakeClock, ending: Ending, state: RunState
    ) -> None:
        of = await scene(store, clock)
        await store.change_job(RemoveJob("j"))

        await ending(of)

        assert (await store.get(of.run_id)).state is state
        assert await job_of(store) is None
        assert (await store.due_jobs()).next_at is None

    @NAMED
    async def test_a_job_that_was_disabled_meanwhile_stays_so(
        self, store: Store, clock: FakeClock, ending: Ending, state: RunState
    ) -> None:
        of = await scene(store, clock)
        off = switched(await standing(store), clock.now(), "UTC", on=False)
        await store.change_job(EditJob(msgspec.structs.replace(off, call="off")))

        await ending(of)

        job = await standing(store)
        assert (job.is_on, job.state.next_at, job.state.last_state) == (False, None, state)

    @NAMED
    async def test_a_one_shot_that_comes_to_nothing_is_kept_and_says_so(
        self, store: Store, clock: FakeClock, ending: Ending, state: RunState
    ) -> None:
        hand = await Hand(store, policy=ONCE).register()
        at = At(instant(clock.now() + SECOND))
        await kept_job(store, clock.now(), at, session="chat", delete_after_run=True)
        await clock.advance(1)
        await fire_due(store)
        [run_id] = await fired_runs(store)

        await ending(Scene(store, clock, hand, run_id))

        job = await job_of(store)
        assert (job is None) == (state is S)
        if job is not None:
            assert (job.is_on, job.state.halted) == (False, Halt.FAILED if state is F else Halt.CANCELLED)
            assert job.state.last_state is state


class TestAfterEnds(Part):
    """What the end of a run leaves of a job."""

    async def test_a_failure_is_remembered_until_a_success(self, store: Store, clock: FakeClock) -> None:
        of = await scene(store, clock)
        await fail(of)
        job = await standing(store)
        assert (job.state.failures, job.state.last_error) == (1, "broken")
        await clock.advance(MINUTE)
        await fire_due(store)
        assert (await standing(store)).state.last_error is None

        await of.hand.succeed(*await of.hand.claim())

        job = await standing(store)
        assert (job.state.failures, job.state.last_error, job.state.last_state) == (0, None, S)

    async def test_a_job_that_goes_on_failing_is_put_on_record_once(self, store: Store, clock: FakeClock) -> None:
        of = await scene(store, clock, alert_after=2)
        await fail(of)
        for _ in range(2):
            await clock.advance(MINUTE)
            await fire_due(store)
            await of.hand.fail(*await of.hand.claim(), failure=error("broken"))

        records = await all_fires(store)
        assert [record.kind for record in records] == [FIRED, FIRED, FireKind.FAILING, FIRED]
        assert (records[2].count, records[2].reason, records[2].run_id) == (2, "broken", None)
        assert (await standing(store)).state.records == len(records)

    async def test_a_success_by_hand_ends_no_job_that_is_still_to_fire(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store, policy=ONCE).register()
        job = await kept_job(store, clock.now(), At(instant(clock.now() + SECOND)), delete_after_run=True)
        await store.fire([by_hand(job, "mine", clock.now())])
        await hand.succeed(*await hand.claim())
        assert (await standing(store)).state.next_at == clock.now() + SECOND

        await clock.advance(1)
        await fire_due(store)
        await hand.succeed(*await hand.claim())

        assert await job_of(store) is None

    async def test_an_attempt_that_is_tried_again_is_no_end(self, store: Store, clock: FakeClock) -> None:
        of = await scene(store, clock, retry=Retry(attempts=2, base=1, jitter=0))
        of.hand.policy = TaskPolicy(retry=Retry(attempts=2, base=1, jitter=0))
        before = await standing(store)

        await of.hand.fail(await of.claim())
        assert await standing(store) == before
        await clock.advance(1)
        await of.hand.fail(*await of.hand.claim())

        assert (await standing(store)).state.failures == 1

    async def test_a_job_that_was_edited_meanwhile_stays_so(self, store: Store, clock: FakeClock) -> None:
        of = await scene(store, clock)
        job = await standing(store)
        spec = msgspec.structs.replace(job.spec, description="edited", args='{"n":2}')
        await store.change_job(EditJob(msgspec.structs.replace(job, spec=spec, call="edit")))

        await succeed(of)

        after = await standing(store)
        assert (after.spec, after.state.last_state) == (spec, S)
        assert after.version == job.version + 2

    async def test_a_breaker_disables_the_job_in_the_same_step(self, store: Store, clock: FakeClock) -> None:
        of = await scene(store, clock, breaker=Breaker(1, disable=True))

        await fail(of)

        job = await standing(store)
        assert (job.is_on, job.state.halted, job.state.next_at) == (False, Halt.BREAKER, None)
        assert (await store.due_jobs()).next_at is None

    async def test_a_failing_job_is_held_back_and_due_when_that_is_over(self, store: Store, clock: FakeClock) -> None:
        of = await scene(store, clock, backoff=300 * SECOND)

        await fail(of)

        job = await standing(store)
        assert (job.state.next_at, job.state.fire_at) == (
            clock.now() + MINUTE * SECOND,
            clock.now() + 300 * SECOND,
        )
        await clock.advance(299)
        assert (await store.due_jobs()).jobs == []
        await clock.advance(1)
        assert await ids_due(store) == ["j"]

    async def test_the_end_of_an_earlier_run_does_not_hide_the_newest(self, store: Store, clock: FakeClock) -> None:
        of = await scene(store, clock, overlap=Overlap.ALLOW)
        await store.fire([by_hand(await standing(store), "mine", clock.now())])

        await store.change_run("c", of.run_id, Cancel())

        job = await standing(store)
        assert (job.state.last_run, job.state.last_state) == ("mine", None)
        assert job.state.next_at == clock.now() + MINUTE * SECOND

    async def test_a_run_somebody_else_made_is_no_concern_of_the_job(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now(), session="chat")
        hand = await Hand(store).register()
        await store.submit([new_run("talk", session="chat")])

        await hand.succeed(*await hand.claim())

        assert await standing(store) == made

    async def test_runs_of_a_removed_job_do_not_touch_one_of_the_same_name(
        self, store: Store, clock: FakeClock
    ) -> None:
        of = await scene(store, clock, name="report")
        await store.change_job(RemoveJob("j"))
        other: JobRecord = await kept_job(store, clock.now(), id="other", name="report")

        await fail(of)

        assert await standing(store, "other") == other


async def ids_due(store: Store) -> list[str]:
    """Return which jobs are due."""
    return [job.id for job in (await store.due_jobs()).jobs]
