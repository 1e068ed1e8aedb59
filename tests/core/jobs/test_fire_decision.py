"""What a fire makes: under each misfire rule, held back, gated, and when the clock or the owner's zone was changed."""

from itertools import pairwise

import msgspec
import pytest

from laneway.core.common.instants import SECOND, instant
from laneway.core.jobs.failure_hold import charged
from laneway.core.jobs.fire_decision import LIVE, Firing, by_hand, decide, run_of, set_back
from laneway.core.jobs.plan import changed, created, with_next
from laneway.core.jobs.record import FireKind, Halt, JobRecord, Misfire, Verdict
from laneway.core.records.job_tie import Overlap
from laneway.core.schedules import At, Cron, DailyAt, Every, Schedule
from laneway.testing.clock import START
from tests.support.jobs import HOUR, new_job, spec_of

MINUTE = 60 * SECOND
H = HOUR * SECOND
RULES: dict[str, Schedule] = {
    "hourly": Every(HOUR),
    "five minutes": Cron("*/5 * * * *"),
    "daily": DailyAt(9),
    "one-shot": At(instant(START + 9 * H)),
}
# Seven minutes after an outage of 30 minutes, 3 hours and 3 days, that began at a fire: how many were due.
OUTAGES = [
    ("hourly", 37, 1),
    ("hourly", 187, 4),
    ("hourly", 4327, 73),
    ("five minutes", 37, 8),
    ("five minutes", 187, 38),
    ("five minutes", 4327, 866),
    ("daily", 37, 1),
    ("daily", 187, 1),
    ("daily", 4327, 4),
    ("one-shot", 37, 1),
    ("one-shot", 187, 1),
    ("one-shot", 4327, 1),
]
TOO_OLD = [("daily", 187), ("one-shot", 187), ("one-shot", 4327)]  # the newest is older than an hour


def after_outage(name: str, minutes: int, **fields: object) -> tuple[JobRecord, int]:
    job = new_job(START, RULES[name], id="j", **fields)
    return job, (job.state.next_at or 0) + minutes * MINUTE


def nominal(firing: Firing) -> list[int]:
    return [run.ties.job.at for run in firing.runs if run.ties is not None and run.ties.job is not None]


def told(firing: Firing) -> list[tuple[str, str | None, int]]:
    return [(record.kind.value, record.reason, record.count) for record in firing.records]


@pytest.mark.parametrize(("name", "minutes", "due"), OUTAGES)
def test_skip_makes_up_for_nothing(name: str, minutes: int, due: int) -> None:
    job, now = after_outage(name, minutes, misfire=Misfire.SKIP)

    firing = decide(job, now, "UTC")

    assert (firing.runs, told(firing)) == ((), [("missed", "skips_missed", due)])
    assert_goes_on(job, firing, now)


@pytest.mark.parametrize(("name", "minutes", "due"), OUTAGES)
def test_once_makes_up_for_the_newest_unless_it_is_too_old(name: str, minutes: int, due: int) -> None:
    job, now = after_outage(name, minutes)

    firing = decide(job, now, "UTC")

    if (name, minutes) in TOO_OLD:
        assert (firing.runs, told(firing)) == ((), [("missed", "stale", due)])
    else:
        assert len(firing.runs) == 1
        assert now - nominal(firing)[0] <= H
        assert told(firing) == ([("missed", "collapsed", due - 1)] if due > 1 else [])
    assert_goes_on(job, firing, now)


@pytest.mark.parametrize(("name", "minutes", "due"), OUTAGES)
def test_all_makes_up_for_the_newest_hundred(name: str, minutes: int, due: int) -> None:
    job, now = after_outage(name, minutes, misfire=Misfire.ALL)

    firing = decide(job, now, "UTC")

    assert len(firing.runs) == min(100, due)
    assert told(firing) == ([("missed", "stale", due - 100)] if due > 100 else [])
    assert all(before < after for before, after in pairwise(nominal(firing)))
    assert {run.ties.job.overlap for run in firing.runs if run.ties and run.ties.job} == {None}
    if firing.records:
        assert firing.records[0].last < nominal(firing)[0]
    assert_goes_on(job, firing, now)


@pytest.mark.parametrize("misfire", [Misfire.ONCE, Misfire.ALL])
@pytest.mark.parametrize(("name", "minutes"), TOO_OLD)
def test_without_staleness_nothing_is_too_old(name: str, minutes: int, misfire: Misfire) -> None:
    job, now = after_outage(name, minutes, max_staleness=0, misfire=misfire)

    assert len(decide(job, now, "UTC").runs) == 1


def assert_goes_on(job: JobRecord, firing: Firing, now: int) -> None:
    assert firing.state is not None
    assert (firing.job_id, firing.version) == (job.id, job.version)
    if isinstance(job.spec.rule, At):
        assert firing.state.next_at is None
        assert firing.state.halted is (None if firing.runs else Halt.MISSED)
    else:
        assert now < (firing.state.next_at or 0)
        assert firing.state.halted is None


@pytest.mark.parametrize("misfire", list(Misfire))
@pytest.mark.parametrize("late", [0, LIVE])
def test_a_fire_that_is_hardly_late_is_live_whatever_the_rule(misfire: Misfire, late: int) -> None:
    job = new_job(START, misfire=misfire, overlap=Overlap.QUEUE)

    [run] = decide(job, START + H + late, "UTC").runs

    assert run.ties is not None
    assert run.ties.job is not None
    assert (run.ties.job.at, run.ties.job.overlap) == (START + H, Overlap.QUEUE)


def test_a_moment_later_it_was_missed() -> None:
    assert decide(new_job(START, misfire=Misfire.SKIP), START + H + LIVE + 1, "UTC").runs == ()


def test_jitter_makes_a_fire_not_late() -> None:
    job = new_job(START, Every(HOUR, jitter=3000), id="x", misfire=Misfire.SKIP)
    assert (job.state.fire_at or 0) > START + H + LIVE

    firing = decide(job, job.state.fire_at or 0, "UTC")

    assert nominal(firing) == [START + H]


def test_beside_fires_that_are_made_up_for_none_is_live() -> None:
    job = new_job(START, misfire=Misfire.ALL, overlap=Overlap.INTERRUPT)

    runs = decide(job, START + 3 * H, "UTC").runs

    assert [run.ties.job.overlap for run in runs if run.ties and run.ties.job] == [None] * 3


def test_a_run_says_what_its_job_says() -> None:
    job = new_job(START, id="j", args='{"n":1}', owner="ann", session="chat", priority=7, timeout=5, lane="cron")

    run = run_of(job, START, live=True)

    assert (run.args, run.user, run.session, run.priority, run.lane) == ('{"n":1}', "ann", "chat", 7, "cron")
    assert run.inside


def test_a_run_beside_others_names_its_session_and_takes_no_place_in_it() -> None:
    job = new_job(START, id="j", overlap=Overlap.ALLOW)

    live, caught_up = run_of(job, START, live=True), run_of(job, START, live=False)

    assert (live.session, live.ties and live.ties.session) == (None, "job:j")
    assert (caught_up.session, caught_up.ties and caught_up.ties.session) == ("job:j", None)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_condition_that_says_no_skips_all_that_is_due(verdict: Verdict) -> None:
    job, now = after_outage("hourly", 187, misfire=Misfire.ALL)

    firing = decide(job, now, "UTC", verdict)

    assert (firing.runs, told(firing)) == ((), [("skipped", verdict.value, 4)])
    assert firing.state is not None
    assert firing.state.verdict is verdict
    again = msgspec.structs.replace(job, state=firing.state)
    yes = decide(again, firing.state.fire_at or 0, "UTC")
    assert yes.state is not None
    assert yes.state.verdict is None
    assert len(yes.runs) == 1


def test_a_one_shot_that_is_gated_is_halted_and_says_so() -> None:
    job, now = after_outage("one-shot", 0)

    firing = decide(job, now, "UTC", Verdict.GATED)

    assert firing.state is not None
    assert (firing.state.next_at, firing.state.halted) == (None, Halt.SKIPPED)


def held(by: str, until: int, **fields: object) -> JobRecord:
    job = changed(new_job(START, Every(60), id="j", **fields), held_until=until, held_by=by, failures=3)
    return with_next(job, START + MINUTE, "UTC")


def test_what_was_held_back_by_backoff_fires_the_newest_and_skips_the_rest() -> None:
    job = held("backoff", START + 10 * MINUTE)
    assert job.state.fire_at == START + 10 * MINUTE

    firing = decide(job, START + 10 * MINUTE, "UTC")

    assert nominal(firing) == [START + 10 * MINUTE]
    assert told(firing) == [("skipped", "backoff", 9)]
    assert firing.state is not None
    assert (firing.state.held_until, firing.state.held_by, firing.state.probe) == (None, None, None)


def test_time_that_it_is_held_back_does_not_make_it_late() -> None:
    job = changed(new_job(START, misfire=Misfire.SKIP), held_until=START + H + 40 * MINUTE, held_by="backoff")

    assert len(decide(job, START + H + 40 * MINUTE, "UTC").runs) == 1
    assert decide(job, START + H + 41 * MINUTE, "UTC").runs == ()


def test_after_a_breaker_was_open_one_is_tried() -> None:
    job = held("breaker_open", START + 5 * MINUTE)

    firing = decide(job, START + 5 * MINUTE, "UTC")

    [run] = firing.runs
    assert told(firing) == [("skipped", "breaker_open", 4)]
    assert firing.state is not None
    assert firing.state.probe == run.id
    meanwhile = msgspec.structs.replace(job, state=firing.state)
    skipped = decide(meanwhile, START + 6 * MINUTE, "UTC")
    assert (skipped.runs, told(skipped)) == ((), [("skipped", "breaker_open", 1)])
    assert skipped.state is not None
    assert skipped.state.probe == run.id


def test_a_breaker_lets_one_through_also_of_a_job_that_makes_up_for_all() -> None:
    job = held("breaker_open", START + 5 * MINUTE, misfire=Misfire.ALL)

    firing = decide(job, START + 9 * MINUTE, "UTC")

    assert nominal(firing) == [START + 9 * MINUTE]
    assert told(firing) == [("skipped", "breaker_open", 8)]


def test_all_makes_up_for_what_was_missed_and_not_for_what_passed_while_it_was_held_back() -> None:
    job = held("backoff", START + 5 * MINUTE, misfire=Misfire.ALL)

    firing = decide(job, START + 9 * MINUTE, "UTC")

    assert nominal(firing) == [START + nth * MINUTE for nth in (5, 6, 7, 8, 9)]
    assert told(firing) == [("skipped", "backoff", 4)]


def test_one_that_counts_from_its_end_has_no_next_fire_until_then() -> None:
    job = new_job(START, Every(60, after="end"))

    firing = decide(job, START + MINUTE, "UTC")

    assert len(firing.runs) == 1
    assert firing.state is not None
    assert (firing.state.next_at, firing.state.halted) == (None, None)


def test_one_that_counts_from_its_end_counts_from_now_when_nothing_will_end() -> None:
    job = new_job(START, Every(60, after="end"), misfire=Misfire.SKIP)

    missed = decide(job, START + 3 * H, "UTC")
    gated = decide(job, START + MINUTE, "UTC", Verdict.GATED)

    assert (told(missed), told(gated)) == ([("missed", "skips_missed", 1)], [("skipped", "gated", 1)])
    assert missed.state is not None
    assert gated.state is not None
    assert (missed.state.next_at, gated.state.next_at) == (START + 3 * H + MINUTE, START + 2 * MINUTE)


def test_an_owner_who_has_moved_gets_the_fire_where_they_are() -> None:
    job = created("j", spec_of(DailyAt(9)), START, "Asia/Tokyo")
    due = job.state.next_at or 0

    firing = decide(job, due, "Europe/Berlin")

    assert (firing.runs, firing.records) == ((), ())
    assert firing.state is not None
    assert (firing.state.next_at, firing.state.zone) == (due + 8 * H, "Europe/Berlin")


def test_what_was_missed_before_a_move_is_known_leaves_its_record() -> None:
    job = created("j", spec_of(DailyAt(9)), START, "Asia/Tokyo")
    now = START + 5 * 24 * H

    moved = decide(job, now, "Europe/Berlin")
    assert moved.state is not None
    firing = decide(msgspec.structs.replace(job, state=moved.state), now, "Europe/Berlin")

    assert told(firing) == [("missed", "stale", 4)]


def test_a_move_does_not_lose_a_one_shot_whose_wall_has_passed_there() -> None:
    wall = instant(START + 9 * H).replace(tzinfo=None)
    job = created("j", spec_of(At(wall)), START, "Europe/Berlin")

    firing = decide(job, job.state.next_at or 0, "Asia/Tokyo")

    assert len(firing.runs) == 1


@pytest.mark.parametrize("rule", [DailyAt(9), DailyAt(9, tz="Asia/Tokyo"), Cron("0 * * * *")])
def test_a_move_does_not_lose_the_fire_of_a_start(rule: Schedule) -> None:
    job = created("j", spec_of(rule, run_on_start=True), START + 1, "Europe/Berlin")

    firing = decide(job, START + 1, "UTC")

    assert nominal(firing) == [START + 1]


@pytest.mark.parametrize("rule", [Every(60), Every(60, after="end"), DailyAt(9, tz="Asia/Tokyo")])
def test_a_move_means_nothing_to_a_rule_that_does_not_ask_where(rule: Schedule) -> None:
    job = new_job(START, rule)
    due = job.state.next_at or 0

    assert decide(job, due, "Asia/Tokyo").runs == decide(job, due, "UTC").runs != ()


def test_a_clock_that_was_set_back_takes_the_next_fire_with_it() -> None:
    job = with_next(new_job(START, Every(HOUR)), START + 30 * H, "UTC")

    firing = set_back(job, START + 5, "UTC")

    assert firing is not None
    assert firing.state is not None
    assert (firing.state.next_at, firing.state.fire_at, firing.version) == (START + H, START + H, job.version)
    [record] = firing.records
    assert (record.kind, record.first, record.last) == (FireKind.CLOCK_STEPPED, START + H, START + 30 * H)


def test_a_job_that_is_held_back_is_not_held_for_longer_because_the_clock_was_set_back() -> None:
    job = charged(new_job(START, backoff=MINUTE), START + 30 * H)
    assert job.state.held_until == START + 30 * H + MINUTE

    firing = set_back(with_next(job, START + H, "UTC"), START, "UTC")

    assert firing is not None
    assert firing.state is not None
    assert (firing.state.held_until, firing.state.fire_at) == (START + MINUTE, START + H)


@pytest.mark.parametrize("rule", [Every(HOUR), At(instant(START + 9 * H)), Every(60, after="end")])
def test_what_is_not_too_far_ahead_is_not_set_back(rule: Schedule) -> None:
    assert set_back(new_job(START, rule), START, "UTC") is None
    assert set_back(new_job(START, enabled=False), START, "UTC") is None


def test_a_fire_by_hand_is_made_at_any_version_and_leaves_the_plan_alone() -> None:
    job = new_job(START, overlap=Overlap.SKIP)

    firing = by_hand(job, "mine", START + 5)

    assert (firing.version, firing.state, [run.id for run in firing.runs]) == (None, None, ["mine"])
    assert nominal(firing) == [START + 5]
    assert firing.runs[0].ties == run_of(job, START + 5, live=True, by_hand=True).ties
