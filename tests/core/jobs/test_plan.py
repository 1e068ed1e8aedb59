"""When a job fires next: made, changed, enabled and disabled."""

from datetime import timedelta

import msgspec
import pytest

from laneway.core.common.instants import SECOND, instant
from laneway.core.jobs.plan import changed, created, patched, planned, switched, with_next
from laneway.core.jobs.record import Halt, JobRecord, JobSpec, Source, Verdict, terms
from laneway.core.records.job_tie import JobTie
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import RunLinks
from laneway.core.schedules import AnyOf, At, Between, Cron, DailyAt, Every, Schedule
from laneway.errors import BadSetting
from laneway.testing.clock import START
from tests.support.jobs import HOUR, new_job, spec_of

NOW = START + 90 * SECOND
H = HOUR * SECOND


def patch(job: JobRecord, now: int = NOW, **changes: object) -> JobRecord:
    return patched(job, msgspec.structs.replace(job.spec, **changes), now, "UTC")


def scheduled(rule: Schedule) -> str:
    return spec_of(rule).schedule


def test_a_new_job_fires_at_the_first_time_later_than_its_creation() -> None:
    job = new_job(START, Every(HOUR))

    assert (job.state.next_at, job.state.fire_at, job.version, job.is_on) == (START + H, START + H, 1, True)
    assert (job.created_at, job.changed_at) == (START, START)


def test_a_schedule_without_a_zone_is_read_in_the_one_it_is_given() -> None:
    spec = spec_of(DailyAt(9))

    assert created("j", spec, START, "Asia/Tokyo").state.next_at == START + 24 * H
    assert created("j", spec, START, "UTC").state.next_at == START + 9 * H
    assert created("j", spec_of(DailyAt(9, tz="UTC")), START, "Asia/Tokyo").state.next_at == START + 9 * H


def test_run_on_start_fires_at_once_too() -> None:
    job = new_job(NOW, Every(HOUR), run_on_start=True)

    assert (job.state.next_at, job.state.fire_at) == (NOW, NOW)


def test_a_job_that_is_made_disabled_has_no_fire() -> None:
    job = new_job(START, enabled=False, run_on_start=True)

    assert (job.is_on, job.state.next_at, job.state.fire_at) == (False, None, None)


@pytest.mark.parametrize("at", [NOW, NOW - 1, NOW - H])
def test_an_instant_that_has_passed_is_refused(at: int) -> None:
    with pytest.raises(BadSetting, match=r"would never fire: once, at .* has passed"):
        new_job(NOW, At(instant(at)))

    assert new_job(NOW, At(instant(NOW + 1))).state.next_at == NOW + 1


def test_jitter_moves_a_fire_and_not_its_nominal_time() -> None:
    jobs = [new_job(START, Every(HOUR, jitter=60), id=f"{number}") for number in range(20)]

    assert {job.state.next_at for job in jobs} == {START + H}
    late = [(job.state.fire_at or 0) - START - H for job in jobs]
    assert all(0 <= by < 60 * SECOND for by in late)
    assert len(set(late)) > 10


def test_jitter_counts_inside_of_other_rules() -> None:
    job = new_job(START, Between(Every(HOUR, jitter=60), "00:00", "23:00"), id="x")

    assert (job.state.fire_at or 0) > (job.state.next_at or 0)


def test_jitter_of_one_rule_lets_no_fire_of_another_wait() -> None:
    rule = AnyOf(Every(HOUR, jitter=3000), Cron("5 * * * *"))
    for number in range(20):
        job = new_job(START, rule, id=f"{number}")
        assert job.state.next_at == START + 300 * SECOND == job.state.fire_at
        hourly = with_next(job, START + H, "UTC")

        assert START + H < (hourly.state.fire_at or 0) < START + H + 300 * SECOND


def test_what_is_held_back_is_due_when_it_no_longer_is() -> None:
    job = changed(new_job(START), held_until=START + 5 * H)

    held = with_next(job, START + H, "UTC")

    assert (held.state.next_at, held.state.fire_at) == (START + H, START + 5 * H)
    assert with_next(job, START + 6 * H, "UTC").state.fire_at == START + 6 * H
    assert with_next(job, None, "UTC").state.fire_at is None


def test_a_patch_keeps_the_next_fire() -> None:
    job = changed(new_job(START), next_at=START + H, fire_at=START + H + 5)

    after = patch(job, START + 3 * H, description="new", args='{"n":1}', retry=Retry(attempts=5), max_staleness=0)

    assert after.state == job.state
    assert (after.changed_at, after.created_at) == (START + 3 * H, START)


def test_what_one_condition_said_is_not_shown_of_another() -> None:
    job = changed(new_job(START, enabled_when="open"), verdict=Verdict.GATED)

    assert patch(job, description="new").state.verdict is Verdict.GATED
    assert patch(job, enabled_when="free").state.verdict is None
    assert patch(job, enabled_when=None).state.verdict is None


def test_another_schedule_counts_from_now_on() -> None:
    job = new_job(START, Every(HOUR))

    after = patch(job, START + 3 * H + 1, schedule=scheduled(Every(1800)))

    assert after.state.next_at == START + 3 * H + H // 2


def test_the_same_schedule_moves_nothing_though_it_is_due() -> None:
    job = new_job(START)

    assert patch(job, START + 9 * H, schedule=scheduled(Every(HOUR))).state == job.state


def test_a_patch_that_would_never_fire_is_refused() -> None:
    with pytest.raises(BadSetting, match="would never fire"):
        patch(new_job(START), schedule=scheduled(At(instant(START))))
    past = new_job(START, At(instant(START + 1)), enabled=False)
    with pytest.raises(BadSetting, match="would never fire"):
        patch(past, enabled=True)


def test_a_patch_enables_and_disables() -> None:
    job = new_job(START)

    off = patch(job, enabled=False)
    on = patch(off, START + 3 * H, enabled=True)

    assert (off.is_on, off.state.next_at) == (False, None)
    assert (on.is_on, on.state.next_at) == (True, START + 4 * H)


def test_what_an_operator_switched_wins_over_the_spec() -> None:
    off = switched(new_job(START), NOW, "UTC", on=False)

    assert not patch(off, enabled=True).is_on
    assert not patch(off, schedule=scheduled(Every(60))).is_on
    assert patch(switched(off, NOW, "UTC", on=True), enabled=False).is_on


@pytest.mark.parametrize("halt", list(Halt))
def test_another_schedule_revives_what_had_no_fire_left_and_not_what_a_breaker_disabled(halt: Halt) -> None:
    job = changed(new_job(START, At(instant(START + H))), halted=halt, next_at=None, fire_at=None)

    after = patch(job, START + 2 * H, schedule=scheduled(At(instant(START + 3 * H))))

    assert after.is_on == (halt is not Halt.BREAKER)
    assert after.state.next_at == (None if halt is Halt.BREAKER else START + 3 * H)


def test_enabling_begins_anew_and_makes_up_for_nothing() -> None:
    failing = changed(new_job(START), failures=4, held_until=START + 99 * H, held_by="backoff", probe="x")
    off = switched(failing, NOW, "UTC", on=False)
    assert (off.is_on, off.state.next_at, off.state.fire_at, off.state.failures) == (False, None, None, 4)

    on = switched(off, START + 10 * H, "UTC", on=True)

    assert (on.is_on, on.state.next_at, on.state.fire_at) == (True, START + 11 * H, START + 11 * H)
    assert (on.state.failures, on.state.held_until, on.state.held_by, on.state.probe) == (0, None, None, None)


def test_enabling_what_is_on_leaves_its_plan_alone() -> None:
    job = changed(new_job(START), failures=2)

    after = switched(job, START + 5 * H, "UTC", on=True)

    assert (after.state.next_at, after.state.failures, after.state.switch) == (START + H, 2, True)


def test_enabling_ends_a_halt_unless_no_fire_is_left() -> None:
    broken = changed(new_job(START), halted=Halt.BREAKER, next_at=None, fire_at=None)
    assert switched(broken, NOW, "UTC", on=True).is_on
    done = changed(new_job(START, At(instant(START + H))), halted=Halt.DONE, next_at=None, fire_at=None)

    with pytest.raises(BadSetting, match="would never fire"):
        switched(done, START + 2 * H, "UTC", on=True)


def test_planning_asks_the_rule_in_the_zone() -> None:
    job = planned(new_job(START, Cron("0 9 * * *")), START, "America/New_York")

    assert (job.state.next_at, job.state.zone) == (START + 14 * H, "America/New_York")


def test_a_jobs_terms_win_over_the_tasks() -> None:
    policy, mine = TaskPolicy(timeout=60), Retry(attempts=9)

    def with_tie(**fields: object) -> TaskPolicy:
        return terms(policy, RunLinks(job=msgspec.convert({"id": "j", "name": "j", "at": 0} | fields, JobTie)))

    assert terms(policy, None) is policy
    assert terms(policy, RunLinks()) is policy
    assert with_tie() is policy
    assert with_tie(timeout=5 * SECOND).timeout == 5 * SECOND
    assert with_tie(retry=mine) == msgspec.structs.replace(policy, retry=mine)


def test_a_spec_knows_its_rule_and_whose_runs_they_are() -> None:
    spec: JobSpec = spec_of(Every(timedelta(minutes=5)), owner="ann", source=Source.FILE)

    assert (spec.rule, spec.runs_as) == (Every(300), "ann")
    assert msgspec.structs.replace(spec, user="bob").runs_as == "bob"
