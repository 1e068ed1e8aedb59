"""Firing jobs: which are due, and that each fire is written once, however many processes try."""

from __future__ import annotations

import asyncio

import msgspec

from laneway.core.common.instants import SECOND, instant
from laneway.core.jobs.fire_decision import Fired, by_hand
from laneway.core.jobs.record import FireKind, FireRecord
from laneway.core.records.run import ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.core.schedules import At
from laneway.ports.control import Cancel
from laneway.ports.jobs import EditJob, JobFilter
from laneway.ports.settings import TaskDisabled
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import new_run
from tests.contract.suite.frame import Part
from tests.support.invariants import all_runs
from tests.support.jobs import (
    HOUR,
    all_fires,
    decided,
    fire_due,
    fired_runs,
    kept_job,
    standing,
)


class TestJobFires(Part):
    """`JobStore.fire` and `fires`."""

    async def test_a_fire_makes_a_run_of_its_job(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(
            store, clock.now(), owner="ann", args='{"n":1}', task="mail", priority=5, lane="team", timeout=SECOND
        )
        await clock.advance(HOUR + 1)

        [fired] = await fire_due(store)

        [receipt] = fired.receipts
        assert (fired.won, receipt and receipt.outcome) == (True, ReceiptOutcome.ACCEPTED)
        [run] = await all_runs(store)
        assert (run.task, run.args, run.lane, run.user, run.priority) == ("mail", {"n": 1}, "team", "ann", 5)
        assert (run.session, run.state, run.due_at) == ("job:j", RunState.PENDING, instant(clock.now()))
        assert run.job is not None
        assert (run.job.id, run.job.name, run.job.at, run.job.timeout) == ("j", "j", made.state.next_at, SECOND)
        [record] = await store.fires("j")
        nominal = made.state.next_at or 0
        assert record == FireRecord(
            kind=FireKind.FIRED, first=nominal, last=nominal, run_id=run.id, at=clock.now(), nth=1
        )

    async def test_a_fire_moves_its_job(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await clock.advance(HOUR)

        await fire_due(store)

        state, [run] = (await standing(store)).state, await all_runs(store)
        assert (state.next_at, state.fire_at) == (clock.now() + HOUR * SECOND, clock.now() + HOUR * SECOND)
        assert (state.last_at, state.last_run, state.last_state) == (made.state.next_at, run.id, None)
        assert (state.fired, state.skipped, state.missed, state.records) == (1, 0, 0, 1)
        assert (await store.due_jobs()).jobs == []

    async def test_of_many_who_fire_the_same_one_wins(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await clock.advance(HOUR)
        firings = decided([made], clock.now())

        answers = await asyncio.gather(*(store.fire(firings) for _ in range(5)))

        assert sorted(fired.won for [fired] in answers) == [False] * 4 + [True]
        assert len(await all_runs(store)) == 1
        assert len(await all_fires(store)) == 1
        assert (await standing(store)).version == made.version + 1

    async def test_a_firing_of_another_version_or_of_no_job_changes_nothing(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = await kept_job(store, clock.now())
        await kept_job(store, clock.now(), id="k")
        await clock.advance(HOUR)
        first, second = decided((await store.due_jobs()).jobs, clock.now())
        await store.change_job(EditJob(msgspec.structs.replace(made, call="touched")))
        gone = msgspec.structs.replace(first, job_id="gone")

        answers = await store.fire([first, gone, second])

        assert [answer.won for answer in answers] == [False, False, True]
        assert [run.job and run.job.id for run in await all_runs(store)] == ["k"]
        assert await all_fires(store) == []

    async def test_many_jobs_fire_as_one_batch(self, store: Store, clock: FakeClock) -> None:
        for number in range(50):
            await kept_job(store, clock.now(), id=f"{number:02d}")
        await clock.advance(HOUR)

        answers = await fire_due(store)

        assert [answer.won for answer in answers] == [True] * 50
        assert [run.job and run.job.id for run in await all_runs(store)] == [f"{number:02d}" for number in range(50)]
        assert (await store.due_jobs()).jobs == []

    async def test_a_run_that_is_known_is_not_made_again(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await clock.advance(HOUR)
        [firing] = decided([made], clock.now())
        await store.submit([new_run(firing.runs[0].id)])

        assert await store.fire([firing]) == [Fired(True, (None,))]

        state = (await standing(store)).state
        assert (state.fired, state.records, state.last_run) == (0, 0, None)
        assert state.next_at == clock.now() + HOUR * SECOND
        assert len(await all_runs(store)) == 1

    async def test_a_recorded_run_is_not_made_again_though_it_was_pruned(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await store.fire([by_hand(made, "mine", clock.now())])
        await store.change_run("c", "mine", Cancel())
        await clock.advance(1)
        await store.prune(OldRuns(dict.fromkeys([RunState.CANCELLED], 0)))
        assert await all_runs(store) == []

        assert await store.fire([by_hand(made, "mine", clock.now())]) == [Fired(True, (None,))]

        assert await all_runs(store) == []
        assert (await standing(store)).state.fired == 1

    async def test_a_fire_by_hand_leaves_the_plan_alone(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await clock.advance(5)

        await store.fire([by_hand(made, "mine", clock.now())])

        job, [record] = await standing(store), await all_fires(store)
        assert (job.state.next_at, job.state.fire_at) == (made.state.next_at, made.state.fire_at)
        assert (record.reason, record.run_id, record.first) == ("by_hand", "mine", clock.now())
        assert (job.state.last_run, job.state.fired) == ("mine", 1)

    async def test_a_job_that_is_off_is_fired_by_hand_and_stays_off(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now(), enabled=False)

        [fired] = await store.fire([by_hand(made, "mine", clock.now())])

        assert fired.won
        assert await fired_runs(store) == ["mine"]
        assert (await store.due_jobs()).next_at is None
        assert await store.jobs(JobFilter(on=True)) == []

    async def test_a_disabled_task_refuses_its_fires_and_no_others(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), id="j", task="mail")
        await kept_job(store, clock.now(), id="k")
        await store.set(TaskDisabled("mail", disabled=True))
        await clock.advance(HOUR)

        first, second = await fire_due(store)

        assert [receipt and receipt.outcome.value for receipt in first.receipts] == ["refused"]
        assert [receipt and receipt.outcome.value for receipt in second.receipts] == ["accepted"]
        [record] = await store.fires("j")
        assert (record.kind, record.reason, record.run_id) == (FireKind.SKIPPED, "task_disabled", None)
        job = await standing(store)
        assert (job.state.skipped, job.state.fired, job.state.last_run) == (1, 0, None)
        assert job.state.next_at == clock.now() + HOUR * SECOND

    async def test_a_refused_one_shot_is_kept_and_says_so(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), At(instant(clock.now() + SECOND)))
        await store.set(TaskDisabled("work", disabled=True))
        await clock.advance(1)

        await fire_due(store)

        job = await standing(store)
        assert (job.is_on, job.state.halted and job.state.halted.value) == (False, "skipped")

    async def test_a_fire_for_an_unknown_lane_goes_to_main(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), lane="nowhere")
        await clock.advance(HOUR)

        [fired] = await fire_due(store)

        assert [receipt and receipt.reason for receipt in fired.receipts] == ["lane_unknown"]
        assert [run.lane for run in await all_runs(store)] == ["main"]
        assert [record.kind.value for record in await all_fires(store)] == ["fired"]
