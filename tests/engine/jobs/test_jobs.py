"""The verbs of `app.jobs`: making, finding, switching, removing jobs and running them by hand."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from laneway import (
    At,
    BadArguments,
    BadSetting,
    Cron,
    DailyAt,
    Every,
    JobExists,
    LanewayError,
    Scheduler,
    UnknownJob,
    UnknownTask,
)
from laneway.core.jobs.record import FireKind, Halt, Misfire
from laneway.core.records.run import ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.support.jobs import standing
from tests.support.scheduler_jobs import MINUTE, START, add_job, at, fire_due, fires_of, in_file, with_tasks
from tests.support.watched_store import WatchedStore

DOC = {"doc": "42"}


async def test_a_job_that_is_made_can_be_found_and_says_when_it_fires(jobs_app: Scheduler) -> None:
    made = await jobs_app.jobs.create("digest", Cron("0 9 * * 1-5", tz="Asia/Tokyo"), "summarize", DOC, priority=3)

    found = await jobs_app.jobs.get("digest")
    assert found == made
    assert (found.task, found.args, found.spec.priority, found.spec.lane) == ("summarize", DOC, 3, "cron")
    assert (found.enabled, found.reason, found.zone) == (True, None, "Asia/Tokyo")
    assert found.next_fire_at == START + timedelta(days=1)  # Friday, nine in Tokyo
    assert found.created_at == found.changed_at == START


async def test_a_task_may_be_given_itself(jobs_app: Scheduler) -> None:
    made = await jobs_app.jobs.create("digest", "daily 09:00", jobs_app.tasks.get("summarize"), DOC, tz="Europe/Berlin")

    assert (made.task, at(made)) == ("summarize", "Thu 01 08:00")


async def test_a_period_is_counted_from_when_the_job_was_made(jobs_app: Scheduler, clock: FakeClock) -> None:
    await clock.advance(7 * 60)

    made = await jobs_app.jobs.create("often", Every(1800), "cleanup")

    assert made.schedule == Every(1800, anchor=START + timedelta(minutes=7))
    assert at(made) == "Thu 01 00:37"


async def test_a_job_can_be_found_by_its_id_and_the_beginning_of_that(jobs_app: Scheduler) -> None:
    made = await jobs_app.jobs.create("digest", "@daily", "cleanup")

    assert await jobs_app.jobs.get(made.id) == await jobs_app.jobs.get(made.id[:20]) == await jobs_app.jobs.get(made)


async def test_who_looks_for_a_job_that_is_not_there_is_told_a_near_name(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", "@daily", "cleanup")

    with pytest.raises(UnknownJob, match="no job 'digst', did you mean 'digest'"):
        await jobs_app.jobs.get("digst")
    with pytest.raises(BadSetting, match="5 is no job"):
        await jobs_app.jobs.get(5)  # type: ignore[arg-type]


async def test_a_name_that_several_owners_use_is_not_guessed_at(jobs_app: Scheduler) -> None:
    for owner in ("ann", "bob"):
        await jobs_app.jobs.create("digest", "@daily", "cleanup", owner=owner)

    with pytest.raises(UnknownJob, match="2 jobs are named 'digest'"):
        await jobs_app.jobs.get("digest")
    assert (await jobs_app.jobs.get("digest", owner="bob")).owner == "bob"


async def test_the_beginning_of_several_ids_is_not_guessed_at(jobs_app: Scheduler) -> None:
    ids = [(await jobs_app.jobs.create(name, "@daily", "cleanup")).id for name in ("a", "b")]
    common = next(ids[0][:length] for length in range(32, 0, -1) if ids[1].startswith(ids[0][:length]))

    with pytest.raises(UnknownJob, match="2 jobs have an id that begins"):
        await jobs_app.jobs.get(common)


async def test_jobs_are_listed_by_name_and_a_page_at_a_time(jobs_app: Scheduler) -> None:
    for name in ("c", "a", "b"):
        await jobs_app.jobs.create(name, "@daily", "cleanup", owner="ann" if name == "b" else None)
    await jobs_app.jobs.create("d", "@daily", "summarize", DOC, enabled=False)

    async def names(**wanted: Any) -> list[str]:
        return [job.name for job in await jobs_app.jobs.list(**wanted)]

    first = await jobs_app.jobs.list(limit=2)
    assert [job.name for job in first] == ["a", "b"]
    assert await names(after=(first[1].name, first[1].id)) == ["c", "d"]
    assert await names(owner="ann") == ["b"]
    assert await names(task="summarize") == await names(enabled=False) == ["d"]
    assert await names(enabled=True, task=jobs_app.tasks.get("cleanup")) == ["a", "b", "c"]
    assert await names(source="code") == []
    assert await names(source="call", limit=10) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "wanted", [{"limit": 0}, {"after": "a"}, {"source": "cod"}, {"enabled": "yes"}, {"owner": ""}], ids=str
)
async def test_a_wrong_question_is_refused(jobs_app: Scheduler, wanted: dict[str, Any]) -> None:
    with pytest.raises(BadSetting):
        await jobs_app.jobs.list(**wanted)


@pytest.mark.parametrize(
    ("error", "message", "given"),
    [
        (BadSetting, "hour is 25", {"schedule": "daily 25:00"}),
        (BadSetting, "32", {"schedule": "monthly 32 09:00"}),
        (BadSetting, "more than 0", {"schedule": "every 0s"}),
        (BadSetting, "did you mean 'Europe/Berlin'", {"tz": "Europe/Berlim"}),
        (BadSetting, "day of month", {"schedule": "0 9 31 2 *"}),
        (BadSetting, "would never fire", {"schedule": At(START - timedelta(seconds=1))}),
        (BadSetting, "would never fire", {"schedule": "at 2025-12-31T23:59"}),
        (JobExists, "there is a job 'digest' already", {"name": "digest"}),
        (UnknownTask, "did you mean 'cleanup'", {"task": "clenup"}),
        (BadArguments, "has no argument 'x'", {"args": {"x": 1}}),
        (BadSetting, "did you mean 'overlap'", {"overlop": "skip"}),
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_is_stored(
    jobs_app: Scheduler, error: type[LanewayError], message: str, given: dict[str, Any]
) -> None:
    await jobs_app.jobs.create("digest", "@daily", "cleanup")
    before = await jobs_app.jobs.list()

    with pytest.raises(error) as refused:
        await jobs_app.jobs.create(**{"name": "new", "schedule": "daily 09:00", "task": "cleanup", **given})

    assert message in str(refused.value)
    assert await jobs_app.jobs.list() == before


async def test_a_disabled_job_has_no_next_fire_until_it_is_enabled(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("digest", DailyAt(9), "cleanup")

    disabled = await jobs_app.jobs.disable("digest")
    assert (disabled.enabled, disabled.reason, disabled.next_fire_at) == (False, "disabled", None)

    await clock.advance(timedelta(days=3))
    enabled = await jobs_app.jobs.enable("digest")
    assert (enabled.enabled, enabled.reason, at(enabled)) == (True, None, "Sun 04 09:00")
    assert await fire_due(jobs_app) == 0


async def test_enabling_an_enabled_job_keeps_its_next_fire(jobs_app: Scheduler, clock: FakeClock) -> None:
    made = await jobs_app.jobs.create("digest", Every(3600, after="end"), "cleanup")
    await clock.advance(60)

    assert (await jobs_app.jobs.enable("digest")).next_fire_at == made.next_fire_at


async def test_an_instant_that_has_passed_cannot_be_enabled(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("once", At(START + timedelta(hours=1)), "cleanup", enabled=False)
    await clock.advance(timedelta(hours=2))

    with pytest.raises(BadSetting, match="would never fire"):
        await jobs_app.jobs.enable("once")
    assert (await jobs_app.jobs.get("once")).reason == "disabled"


async def test_a_job_that_is_removed_is_gone(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", "@daily", "cleanup")

    await jobs_app.jobs.remove("digest")

    for verb in (jobs_app.jobs.get, jobs_app.jobs.remove, jobs_app.jobs.enable, jobs_app.jobs.run, jobs_app.jobs.runs):
        with pytest.raises(UnknownJob):
            await verb("digest")
    assert (await jobs_app.jobs.create("digest", "@daily", "cleanup")).name == "digest"


async def test_a_job_can_be_run_by_hand_and_its_plan_stays(jobs_app: Scheduler, clock: FakeClock) -> None:
    made = await jobs_app.jobs.create("often", Every(3600), "cleanup")
    await clock.advance(600)

    receipt = await jobs_app.jobs.run("often")

    assert receipt.outcome is ReceiptOutcome.ACCEPTED
    run = await jobs_app.get(receipt)
    assert run.job is not None
    assert (run.job.name, run.job.nominal_at) == ("often", START + timedelta(minutes=10))
    assert (await jobs_app.jobs.get("often")).next_fire_at == made.next_fire_at
    await jobs_app.drain()
    [fire] = await jobs_app.jobs.runs("often")
    assert (fire.kind, fire.reason, fire.run_id, fire.output) == (FireKind.FIRED, "by_hand", receipt.run_id, "3")


async def test_a_disabled_job_can_be_run_by_hand_and_stays_disabled(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", "@daily", "cleanup", enabled=False)

    receipt = await jobs_app.jobs.run("digest")
    await jobs_app.drain()

    job = await jobs_app.jobs.get("digest")
    assert (await jobs_app.get(receipt)).state is RunState.SUCCEEDED
    assert (job.enabled, job.reason, job.next_fire_at, job.last_state) == (False, "disabled", None, "succeeded")


async def test_a_run_by_hand_heeds_the_overlap_rule(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", "@daily", "cleanup")
    await jobs_app.jobs.run("digest")

    again = await jobs_app.jobs.run("digest")

    assert (again.outcome, again.reason) == (ReceiptOutcome.SKIPPED, "overlap")
    assert [fire.kind for fire in await jobs_app.jobs.runs("digest")] == [FireKind.SKIPPED, FireKind.FIRED]


async def test_a_run_that_is_not_forced_waits_for_the_schedule(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("digest", DailyAt(9), "cleanup")

    early = await jobs_app.jobs.run("digest", force=False)
    await clock.advance(timedelta(hours=9))
    due = await jobs_app.jobs.run("digest", force=False)
    late = await jobs_app.jobs.run("digest", force=False)

    assert (early.outcome, early.reason) == (ReceiptOutcome.SKIPPED, "not_due")
    assert due.outcome is ReceiptOutcome.ACCEPTED
    assert (late.outcome, late.reason) == (ReceiptOutcome.SKIPPED, "not_due")
    assert at(await jobs_app.jobs.get("digest")) == "Fri 02 09:00"
    assert await fire_due(jobs_app) == 0  # that slot is done with


async def test_a_scheduler_that_is_shut_runs_no_job_by_hand(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", "@daily", "cleanup")
    jobs_app.shut()

    with pytest.raises(BadSetting, match="shut"):
        await jobs_app.jobs.run("digest")


async def test_a_job_fires_at_once_if_it_says_so(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", DailyAt(9), "cleanup", run_on_start=True)

    assert await fire_due(jobs_app) == 1
    assert at(await jobs_app.jobs.get("digest")) == "Thu 01 09:00"


async def test_a_one_shot_goes_when_it_has_succeeded_if_it_says_so(jobs_app: Scheduler, clock: FakeClock) -> None:
    soon = At(datetime.fromisoformat("2026-01-01T01:00"))
    await jobs_app.jobs.create("good", soon, "cleanup", delete_after_run=True)
    await jobs_app.jobs.create("bad", soon, "fail", delete_after_run=True)
    await jobs_app.jobs.create("kept", soon, "cleanup")
    await clock.advance(timedelta(hours=1))

    await fire_due(jobs_app)
    await jobs_app.drain()

    jobs = await jobs_app.jobs.list()
    assert [(job.name, job.enabled, job.reason) for job in jobs] == [("bad", False, "failed"), ("kept", False, "done")]
    assert jobs[0].last_error == "it is broken"


async def test_blocking_code_has_the_same_desk() -> None:
    import asyncio

    app = Scheduler("memory://", lanes=None)

    @app.task
    def cleanup() -> int:
        return 3

    def use() -> None:
        with app.sync:
            jobs = app.sync.jobs
            jobs.create("digest", "@daily", cleanup)
            assert jobs.update("digest", description="x").spec.description == "x"
            assert not jobs.disable("digest").enabled
            assert jobs.enable("digest").enabled
            assert jobs.run("digest").accepted
            assert [fire.reason for fire in jobs.runs("digest")] == ["by_hand"]
            assert len(jobs.preview("digest", 3)) == len(jobs.upcoming(3)) == 3
            assert jobs.owned_by("ann").list() == []
            assert [job.name for job in jobs.list()] == [jobs.get("digest").name]
            jobs.remove("digest")
            assert jobs.list() == []

    await asyncio.to_thread(use)


@pytest.mark.parametrize("overlap", ["skip", "queue", "interrupt", "allow"])
async def test_a_jobs_run_that_is_tried_again_waits_its_turn_and_displaces_nobody(
    jobs_app: Scheduler, overlap: str
) -> None:
    await jobs_app.jobs.create("broken", "@daily", "fail", overlap=overlap)
    first = await jobs_app.jobs.run("broken")
    await jobs_app.drain()
    second = await jobs_app.jobs.run("broken")

    again = await jobs_app.retry(first)

    assert again.outcome is ReceiptOutcome.ACCEPTED
    assert [(await jobs_app.get(run)).state for run in (first, second, again)] == ["failed", "pending", "pending"]


async def test_a_fire_by_hand_whose_answer_is_lost_says_that_it_fired(clock: FakeClock) -> None:
    store = WatchedStore(MemoryStore(clock))
    async with with_tasks(Scheduler(store=store, clock=clock)) as app:
        await app.jobs.create("often", Every(60), "cleanup")
        await clock.advance(60)
        store.lose_reply("fire")

        asked = asyncio.create_task(app.jobs.run("often", force=False))
        await clock.advance(10)
        receipt = await asked

        assert (receipt.outcome, receipt.reason) == (ReceiptOutcome.ACCEPTED, None)
        assert [fire.run_id for fire in await app.jobs.runs("often")] == [receipt.run_id]


@pytest.mark.checklist("W2-6")
async def test_one_invalid_rule_keeps_no_other_job_from_firing(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("good", Every(60), "cleanup")

    with pytest.raises(BadSetting, match="61"):
        await jobs_app.jobs.create("bad", "61 9 * * *", "cleanup")
    with pytest.raises(BadSetting, match="61"):
        in_file(jobs_app, "bad", "61 9 * * *")

    await clock.advance(60)
    assert [job.name for job in await jobs_app.jobs.list()] == ["good"]
    assert await fire_due(jobs_app) == 1


@pytest.mark.checklist("W4-10")
@pytest.mark.parametrize("rule", ["0 25 * * *", "0 9 32 * *", "0 9 * * 8", "*/0 * * * *", "0 9 * *", "0 9 31 2 *", ""])
async def test_a_rule_that_never_fires_is_refused_and_not_stored(jobs_app: Scheduler, rule: str) -> None:
    await jobs_app.jobs.create("good", "@daily", "cleanup")
    before = await jobs_app.jobs.list()

    with pytest.raises(BadSetting):
        await jobs_app.jobs.create("bad", rule, "cleanup")
    with pytest.raises(BadSetting):
        await jobs_app.jobs.update("good", schedule=rule)

    assert await jobs_app.jobs.list() == before


@pytest.mark.checklist("W4-11")
async def test_jobs_are_there_after_a_restart_as_they_were(url: str, clock: FakeClock) -> None:
    if url == "memory://":
        pytest.skip("it forgets everything, and says so")
    async with with_tasks(Scheduler(url, clock=clock)) as app:
        await app.jobs.create("digest", Cron("0 9 * * 1-5", tz="Asia/Tokyo"), "summarize", {"doc": "1"}, owner="ann")
        await app.jobs.run("digest")
        before, fires = await app.jobs.list(), await app.jobs.runs("digest")

    async with with_tasks(Scheduler(url, clock=clock)) as app:
        assert (await app.jobs.list(), await app.jobs.runs("digest")) == (before, fires)


@pytest.mark.checklist("W4-7")
async def test_a_one_shot_that_was_missed_or_failed_is_kept_and_says_so(app: Scheduler, clock: FakeClock) -> None:
    @app.task(name="work", retry=None)
    async def work() -> None:
        raise ValueError("no")

    await add_job(app, "late", At(START + 60 * MINUTE), delete_after_run=True, misfire=Misfire.SKIP)
    await add_job(app, "fails", At(START + 60 * MINUTE), delete_after_run=True)

    await clock.advance(61 * MINUTE)
    await app.drain()

    store = await app.open()
    late, fails = (await standing(store, "late")).state, (await standing(store, "fails")).state
    assert late.halted is Halt.MISSED
    assert (fails.halted, fails.last_state, fails.last_error) == (Halt.FAILED, RunState.FAILED, "no")
    assert [record.kind for record in await fires_of(app, "late")] == [FireKind.MISSED]
