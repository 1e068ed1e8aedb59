"""Which workers are woken when a job is due sooner; and repeated calls after a lost reply about jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from laneway.core.common.instants import SECOND
from laneway.core.jobs.fire_decision import by_hand
from laneway.core.jobs.plan import switched
from laneway.core.jobs.record import JobRecord
from laneway.core.schedules import Every
from laneway.errors import StoreUnavailable
from laneway.ports.jobs import AddJob, EditJob, JobFilter, RemoveJob
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run
from tests.contract.suite.attempts.repeats import until_answered
from tests.contract.suite.frame import Part
from tests.contract.suite.workers.wakeups import resting
from tests.support.invariants import all_runs
from tests.support.jobs import HOUR, all_fires, all_jobs, decided, fire_due, kept_job, new_job, standing
from tests.support.lossy_store import LossyStore

MINUTE = 60


async def busy(store: Store) -> Hand:
    """Return a worker without room."""
    hand = await Hand(store, "busy").register()
    await store.submit([new_run("work")])
    assert len(await hand.claim()) == 1
    return hand


class TestJobWakeups(Part):
    """`StepReply.fires_in`, and wake-ups for jobs."""

    async def test_a_step_tells_when_the_first_job_is_due(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        assert (await hand.step()).fires_in is None
        await kept_job(store, clock.now())
        await kept_job(store, clock.now(), Every(MINUTE), id="k")
        await clock.advance(20)

        assert (await hand.step()).fires_in == 40 * SECOND
        await clock.advance(60)
        assert (await hand.step(room=1, park=True)).fires_in == 0
        await fire_due(store)
        assert (await hand.step()).fires_in == 40 * SECOND
        await store.change_job(RemoveJob("k"))
        assert (await hand.step()).fires_in == HOUR * SECOND - 80 * SECOND
        await store.change_job(RemoveJob("j"))
        assert (await hand.step()).fires_in is None

    async def test_a_repeated_step_tells_of_a_job_that_came_meanwhile(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        reply = await hand.step(room=1)
        await clock.advance(1)
        job = await kept_job(store, clock.now())

        again = await hand.repeat_last()

        assert again.now == reply.now
        assert again.fires_in == (job.state.fire_at or 0) - reply.now

    async def test_a_new_job_wakes_who_rests_and_who_is_busy(self, store: Store, clock: FakeClock) -> None:
        working, idle = await busy(store), await resting(store)

        await kept_job(store, clock.now())

        assert await idle.hears()
        assert await working.hears()

    async def test_a_job_that_is_due_later_than_others_wakes_nobody(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), Every(MINUTE), id="first")
        working, idle = await busy(store), await resting(store)

        await kept_job(store, clock.now())
        await kept_job(store, clock.now(), id="off", enabled=False)

        assert (working.woken, idle.woken) == (0, 0)

    async def test_a_job_that_is_changed_to_be_due_sooner_wakes_all(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        working, idle = await busy(store), await resting(store)
        sooner = new_job(clock.now(), Every(MINUTE), id="j")

        await store.change_job(EditJob(msgspec.structs.replace(sooner, version=made.version, call="sooner")))

        assert await idle.hears()
        assert await working.hears()

    async def test_a_job_that_is_enabled_wakes_all(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now(), enabled=False)
        working, idle = await busy(store), await resting(store)

        await store.change_job(EditJob(msgspec.structs.replace(switched(made, clock.now(), "UTC", on=True), call="on")))

        assert await idle.hears()
        assert await working.hears()

    async def test_an_end_that_sets_the_next_fire_wakes_all(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), Every(MINUTE, after="end"))
        await clock.advance(MINUTE)
        await fire_due(store)
        hand = await Hand(store).register()
        [claimed] = await hand.claim()
        idle = await resting(store)

        await hand.succeed(claimed)

        assert await idle.hears()

    async def test_a_fire_wakes_who_can_start_its_run(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now())
        idle = await resting(store)
        await clock.advance(HOUR)

        await fire_due(store)

        assert await idle.hears()
        assert len((await idle.rest()).claimed) == 1


Verb = Callable[[Store, JobRecord], Awaitable[object]]


async def _add(store: Store, job: JobRecord) -> object:
    return await store.change_job(AddJob(new_job(job.created_at, id="new")))


async def _change(store: Store, job: JobRecord) -> object:
    spec = msgspec.structs.replace(job.spec, description="changed")
    return await store.change_job(EditJob(msgspec.structs.replace(job, spec=spec, call="change")))


async def _remove(store: Store, job: JobRecord) -> object:
    await store.change_job(RemoveJob(job.id))
    return None


async def _fire(store: Store, job: JobRecord) -> object:
    await store.fire(decided([job], (job.state.fire_at or 0) + SECOND))
    return None


async def _by_hand(store: Store, job: JobRecord) -> object:
    await store.fire([by_hand(job, "mine", job.created_at)])
    return None


async def _restart(store: Store, job: JobRecord) -> object:
    await store.restart_time()
    return None


async def _ask(store: Store, job: JobRecord) -> object:
    return await store.jobs(JobFilter()), await store.due_jobs(), await store.fires(job.id)


# What is called, and the verb whose answer is lost.
CALLS: dict[str, tuple[Verb, str]] = {
    "add": (_add, "change_job"),
    "edit": (_change, "change_job"),
    "remove": (_remove, "change_job"),
    "fire": (_fire, "fire"),
    "fire by hand": (_by_hand, "fire"),
    "restart time": (_restart, "restart_time"),
    "jobs": (_ask, "jobs"),
    "due jobs": (_ask, "due_jobs"),
    "fires": (_ask, "fires"),
}


async def seen(store: Store) -> object:
    """Return everything that can be seen of jobs but how often they were written."""
    jobs = [msgspec.structs.replace(job, version=0) for job in await all_jobs(store)]
    due = await store.due_jobs()
    return jobs, await all_fires(store), await all_runs(store), [job.id for job in due.jobs], due.next_at, due.behind


class TestLostJobReplies(Part):
    """Every verb of jobs can be called again."""

    @pytest.mark.parametrize(("call", "verb"), CALLS.values(), ids=CALLS)
    async def test_a_lost_answer_about_jobs_changes_nothing_twice(
        self, store: Store, clock: FakeClock, call: Verb, verb: str
    ) -> None:
        job = await kept_job(store, clock.now())
        await clock.advance(HOUR + 1)
        lossy = LossyStore(store)
        lossy.lose_reply(verb, times=2)
        with pytest.raises(StoreUnavailable):
            await call(lossy, job)
        once = await seen(store)

        await until_answered(lambda: call(lossy, job))

        assert lossy.faults == 2
        assert await seen(store) == once

    @pytest.mark.parametrize(("call", "verb"), CALLS.values(), ids=CALLS)
    async def test_a_call_about_jobs_that_was_not_sent_changes_nothing(
        self, store: Store, clock: FakeClock, call: Verb, verb: str
    ) -> None:
        job = await kept_job(store, clock.now())
        await clock.advance(HOUR + 1)
        before, lossy = await seen(store), LossyStore(store)
        lossy.fail(verb)

        with pytest.raises(StoreUnavailable):
            await call(lossy, job)

        assert await seen(store) == before
        assert await standing(store) == job
