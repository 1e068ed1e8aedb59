"""What becomes of a job after a fire, and after the end of its run."""

from collections.abc import Sequence

import msgspec
import pytest

from laneway.core.common.instants import LONGEST, SECOND, instant
from laneway.core.jobs.after import ERROR_LIMIT, applied, ended
from laneway.core.jobs.fire_decision import Firing, by_hand, decide
from laneway.core.jobs.plan import changed, switched
from laneway.core.jobs.record import FireKind, FireRecord, Halt, JobRecord, Misfire
from laneway.core.records.breakers import Breaker
from laneway.core.records.run import Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState
from laneway.core.schedules import At, Every, Schedule
from laneway.testing.clock import START
from tests.support.jobs import HOUR, new_job

MINUTE = 60 * SECOND
H = HOUR * SECOND
S, F, C, D = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.DROPPED
ACCEPTED = Receipt(ReceiptOutcome.ACCEPTED, "run")
BUSY = Receipt(ReceiptOutcome.REFUSED, "run", Why.SESSION_BUSY.value)
DISABLED = Receipt(ReceiptOutcome.REFUSED, "run", Why.TASK_DISABLED.value)


def apply(
    job: JobRecord, firing: Firing, receipts: Sequence[Receipt | None], now: int, before: FireRecord | None = None
) -> tuple[JobRecord, list[FireRecord]]:
    return applied(job, firing, receipts, now, before)


def fired(rule: Schedule | None = None, **fields: object) -> JobRecord:
    """Return a job that has just fired."""
    job = new_job(START, rule, id="j", **fields)
    due = job.state.fire_at or 0
    return apply(job, decide(job, due, "UTC"), [ACCEPTED], due)[0]


def end(job: JobRecord, state: RunState = S, now: int = START + 2 * H, error: str | None = None) -> JobRecord:
    after = ended(job, job.state.last_run or "", state, error, now)
    assert after is not None
    return after


def test_a_fire_is_recorded_counted_and_remembered() -> None:
    job = new_job(START)
    firing = decide(job, START + H + 5, "UTC")

    after, [record] = apply(job, firing, [ACCEPTED], START + H + 5)

    run_id = firing.runs[0].id
    assert record == FireRecord(
        kind=FireKind.FIRED, first=START + H, last=START + H, run_id=run_id, at=START + H + 5, nth=1
    )
    assert (after.version, after.state.fired, after.state.records) == (job.version + 1, 1, 1)
    assert (after.state.last_at, after.state.last_run, after.state.last_state) == (START + H, run_id, None)
    assert after.state.next_at == START + 2 * H


@pytest.mark.parametrize(
    ("receipt", "reason"),
    [
        (BUSY, "overlap"),
        (Receipt(ReceiptOutcome.REFUSED, "r", Why.SESSION_FULL.value), "overlap"),
        (DISABLED, "task_disabled"),
    ],
)
def test_a_fire_that_was_refused_is_skipped(receipt: Receipt, reason: str) -> None:
    job = new_job(START)

    after, [record] = apply(job, decide(job, START + H, "UTC"), [receipt], START + H)

    assert (record.kind, record.reason, record.run_id) == (FireKind.SKIPPED, reason, None)
    assert (after.state.fired, after.state.skipped, after.state.last_run) == (0, 1, None)
    assert (after.state.next_at, after.is_on) == (START + 2 * H, True)


def test_a_fire_that_was_there_before_only_moves_the_job() -> None:
    job = new_job(START)

    after, records = apply(job, decide(job, START + H, "UTC"), [None], START + H)

    assert (records, after.state.fired, after.state.last_run) == ([], 0, None)
    assert (after.state.next_at, after.version) == (START + 2 * H, job.version + 1)


def test_records_are_numbered_and_those_that_tell_the_same_are_joined() -> None:
    job = new_job(START)
    before: FireRecord | None = None
    written: dict[int, FireRecord] = {}
    for nth, receipt in enumerate([BUSY, BUSY, ACCEPTED, ACCEPTED, BUSY, DISABLED, DISABLED], 1):
        now = START + nth * H
        job, records = apply(job, decide(job, now, "UTC"), [receipt], now, before)
        written |= {record.nth: record for record in records}
        before = written[max(written)]

    assert [(one.kind.value, one.reason, one.count) for one in written.values()] == [
        ("skipped", "overlap", 2),
        ("fired", None, 1),
        ("fired", None, 1),
        ("skipped", "overlap", 1),
        ("skipped", "task_disabled", 2),
    ]
    assert list(written) == [1, 2, 3, 4, 5]
    assert (written[1].first, written[1].last, written[1].at) == (START + H, START + 2 * H, START + 2 * H)
    assert (job.state.records, job.state.fired, job.state.skipped) == (5, 2, 5)


def test_a_joined_record_stays_uncertain_once_it_is() -> None:
    before = FireRecord(kind=FireKind.MISSED, first=1, last=2, count=9, more=True, reason="stale", nth=4)
    more = FireRecord(kind=FireKind.MISSED, first=3, last=5, count=3, reason="stale")
    job = changed(new_job(START), records=4)

    after, [record] = apply(job, Firing(job_id=job.id, records=(more,)), [], START + 7, before)

    assert (record.first, record.last, record.count, record.more, record.nth) == (1, 5, 12, True, 4)
    assert (after.state.records, after.state.missed) == (4, 3)


def test_catching_up_is_recorded_run_by_run() -> None:
    job = new_job(START, misfire=Misfire.ALL)
    firing = decide(job, START + 3 * H + 40 * MINUTE, "UTC")

    after, records = apply(job, firing, [ACCEPTED, BUSY, ACCEPTED], START + 4 * H)

    assert [(one.kind.value, one.reason, one.nth) for one in records] == [
        ("fired", "caught_up", 1),
        ("skipped", "overlap", 2),
        ("fired", "caught_up", 3),
    ]
    assert (after.state.fired, after.state.skipped, after.state.last_at) == (2, 1, START + 3 * H)


def test_by_hand_says_so_and_moves_nothing() -> None:
    job = new_job(START)

    after, [record] = apply(job, by_hand(job, "mine", START + 5), [ACCEPTED], START + 5)

    assert (record.reason, record.first, record.run_id) == ("by_hand", START + 5, "mine")
    assert (after.state.next_at, after.state.last_run) == (job.state.next_at, "mine")


def test_one_that_counts_from_its_end_counts_from_a_fire_that_made_no_run() -> None:
    job = new_job(START, Every(60, after="end"))

    after, _ = apply(job, decide(job, START + MINUTE, "UTC"), [BUSY], START + MINUTE)

    assert after.state.next_at == START + 2 * MINUTE


def test_a_one_shot_that_was_refused_is_halted_unless_an_earlier_run_goes_on() -> None:
    job = new_job(START, At(instant(START + H)))
    going_on = changed(job, last_run="mine", last_state=None)

    halted, _ = apply(job, decide(job, START + H, "UTC"), [BUSY], START + H)
    waits, _ = apply(going_on, decide(going_on, START + H, "UTC"), [BUSY], START + H)

    assert (halted.state.halted, waits.state.halted) == (Halt.SKIPPED, None)
    assert end(waits).state.halted is Halt.DONE


@pytest.mark.parametrize("receipt", [BUSY, None])
def test_a_probe_that_made_no_run_lets_the_next_be_one(receipt: Receipt | None) -> None:
    job = changed(new_job(START), held_until=START, held_by="breaker_open")
    firing = decide(job, START + H, "UTC")
    assert firing.state is not None
    assert firing.state.probe is not None

    after, _ = apply(job, firing, [receipt], START + H)

    assert after.state.probe is None
    assert after.state.next_at == after.state.fire_at == START + 2 * H
    again = decide(after, START + 2 * H, "UTC")
    assert again.state is not None
    assert again.state.probe == again.runs[0].id


@pytest.mark.parametrize(("state", "failures"), [(S, 0), (F, 3), (C, 2), (D, 2)])
def test_an_end_is_remembered(state: RunState, failures: int) -> None:
    job = changed(fired(), failures=2)

    after = end(job, state, error="broken" if state is F else None)

    assert (after.state.last_state, after.state.failures, after.version) == (state, failures, job.version + 1)
    assert after.state.last_error == ("broken" if state is F else None)
    assert (after.state.next_at, after.is_on) == (job.state.next_at, True)


def test_a_long_error_is_cut() -> None:
    assert len(end(fired(), F, error="x" * 9999).state.last_error or "") == ERROR_LIMIT


def test_an_earlier_run_does_not_hide_the_newest() -> None:
    job = fired()

    after = ended(job, "earlier", F, "broken", START + 2 * H)

    assert after is not None
    assert (after.state.last_state, after.state.last_error, after.state.failures) == (None, None, 1)


@pytest.mark.parametrize("state", [S, F, C, D])
def test_one_that_is_deleted_after_its_run_is_kept_when_it_comes_to_nothing(state: RunState) -> None:
    job = fired(At(instant(START + H)), delete_after_run=True)

    after = ended(job, job.state.last_run or "", state, None, START + 2 * H)

    assert (after is None) == (state is S)


def test_a_run_by_hand_deletes_no_job_that_has_a_fire_left_also_if_it_is_disabled() -> None:
    to_come = new_job(START, At(instant(START + H)), delete_after_run=True)
    disabled, failed = switched(to_come, START, "UTC", on=False), end(fired(At(instant(START + H))), F)
    again = msgspec.structs.replace(failed, spec=to_come.spec)

    kept = [ended(job, "mine", S, None, START + 5, by_hand=True) is not None for job in (to_come, disabled, again)]

    assert kept == [True, True, False]


@pytest.mark.parametrize(
    ("state", "halt"), [(S, Halt.DONE), (F, Halt.FAILED), (C, Halt.CANCELLED), (D, Halt.CANCELLED)]
)
def test_a_one_shot_says_how_it_ended(state: RunState, halt: Halt) -> None:
    after = end(fired(At(instant(START + H))), state)

    assert (after.state.halted, after.is_on) == (halt, False)


@pytest.mark.parametrize("halt", [Halt.FAILED, Halt.MISSED, Halt.SKIPPED, Halt.DONE])
@pytest.mark.parametrize(("state", "said"), [(S, Halt.DONE), (F, Halt.FAILED)])
def test_a_one_shot_that_is_fired_once_more_by_hand_says_how_that_ended(
    halt: Halt, state: RunState, said: Halt
) -> None:
    over = changed(end(fired(At(instant(START + H)))), halted=halt)
    again, _ = apply(over, by_hand(over, "mine", START + 3 * H), [ACCEPTED], START + 3 * H)

    after = end(again, state)

    assert (again.state.halted, after.state.halted, after.is_on) == (halt, said, False)


@pytest.mark.parametrize("state", [S, F, C, D])
def test_one_that_counts_from_its_end_fires_a_period_later(state: RunState) -> None:
    after = end(fired(Every(60, after="end")), state, START + 7 * H)

    assert (after.state.next_at, after.state.fire_at) == (START + 7 * H + MINUTE,) * 2


@pytest.mark.parametrize("state", [S, F, C, D])
def test_one_that_was_disabled_meanwhile_stays_so(state: RunState) -> None:
    off = switched(fired(Every(60, after="end")), START + H, "UTC", on=False)

    after = end(off, state)

    assert (after.is_on, after.state.next_at, after.state.fire_at) == (False, None, None)


def test_one_that_was_enabled_again_meanwhile_keeps_its_plan() -> None:
    off = switched(fired(Every(60, after="end")), START + H, "UTC", on=False)
    on = switched(off, START + 3 * H, "UTC", on=True)

    assert end(on, S, START + 3 * H + 5).state.next_at == START + 3 * H + MINUTE


def test_backoff_doubles_up_to_its_cap() -> None:
    job, lengths = fired(backoff=10 * SECOND, backoff_cap=60 * SECOND), []
    for _ in range(5):
        job = end(job, F)
        lengths.append((job.state.held_until or 0) - START - 2 * H)

    assert lengths == [10 * SECOND, 20 * SECOND, 40 * SECOND, 60 * SECOND, 60 * SECOND]
    assert job.state.held_by == "backoff"
    assert job.state.fire_at == START + 2 * H + 60 * SECOND


def test_backoff_without_a_cap_ends_somewhere() -> None:
    job = changed(fired(backoff=SECOND), failures=10_000)

    assert (end(job, F).state.held_until or 0) - START - 2 * H <= LONGEST


def test_a_success_ends_the_backoff() -> None:
    job = end(fired(backoff=10 * H), F)
    assert job.state.fire_at == START + 12 * H

    after = end(job, S)

    assert (after.state.failures, after.state.held_until, after.state.held_by) == (0, None, None)
    assert after.state.fire_at == after.state.next_at == START + 2 * H


def test_a_breaker_opens_at_its_number_and_holds_the_job_back() -> None:
    job = end(fired(breaker=Breaker(2, 90 * 60), backoff=SECOND), F)
    assert job.state.held_by == "backoff"

    after = end(job, F)

    assert (after.state.held_until, after.state.held_by, after.is_on) == (
        START + 2 * H + 90 * MINUTE,
        "breaker_open",
        True,
    )
    assert after.state.fire_at == START + 2 * H + 90 * MINUTE


def test_a_breaker_may_disable_the_job() -> None:
    job = end(fired(breaker=Breaker(2, disable=True)), F)
    assert job.is_on

    after = end(job, F)

    assert (after.state.halted, after.is_on, after.state.next_at) == (Halt.BREAKER, False, None)
    again = switched(after, START + 5 * H, "UTC", on=True)
    assert (again.is_on, again.state.failures) == (True, 0)


@pytest.mark.parametrize("state", [S, F, C, D])
def test_the_end_of_a_probe_lets_others_fire_or_opens_the_breaker_again(state: RunState) -> None:
    job = changed(fired(breaker=Breaker(3, 90 * 60)), failures=3)
    job = changed(job, probe=job.state.last_run)

    after = end(job, state)

    assert after.state.probe is None
    assert after.state.held_by == (None if state is S else "breaker_open")
    assert after.state.held_until == {S: None, F: START + 2 * H + 90 * MINUTE}.get(state, START + 2 * H)
    assert after.state.failures == {S: 0, F: 4}.get(state, 3)


def test_another_runs_end_is_not_the_probes() -> None:
    job = changed(fired(), probe="tried")

    assert end(job, C).state.probe == "tried"


def test_what_is_held_back_does_not_change_what_is_decided_of_a_spec() -> None:
    job = fired()

    assert end(job, F).spec == job.spec
    assert msgspec.structs.replace(end(job, S), state=job.state, version=job.version) == job
