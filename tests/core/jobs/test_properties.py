"""What holds of a job whatever happens to it: no slot is lost, none is told of twice, and time goes on."""

from datetime import UTC, datetime
from itertools import takewhile

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.common.instants import SECOND, instant, micros
from laneway.core.jobs.after import alarm, applied, ended
from laneway.core.jobs.fire_decision import decide
from laneway.core.jobs.record import FireKind, FireRecord, JobRecord, Misfire, Verdict
from laneway.core.records.breakers import Breaker
from laneway.core.records.job_tie import Overlap
from laneway.core.records.memos import derived_id
from laneway.core.records.run import Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState
from laneway.core.schedules import AnyOf, At, Cron, DailyAt, Every, Schedule
from laneway.testing.clock import START
from tests.support.jobs import new_job

RULES = st.sampled_from(
    [
        Every(60),
        Every(3600, anchor=datetime(2025, 12, 31, 23, 59, 7, tzinfo=UTC), jitter=900),
        Every(90, jitter=89),
        Cron("*/5 * * * *"),
        Cron("0 9-17 * * 1-5"),
        DailyAt(3, 30),
        AnyOf(DailyAt(9), Every(7200, jitter=7000), Cron("7 */3 * * *")),
        At(instant(START + 3600 * SECOND)),
    ]
)
FIELDS = st.fixed_dictionaries(
    {
        "misfire": st.sampled_from(Misfire),
        "overlap": st.sampled_from(Overlap),
        "max_staleness": st.sampled_from([0, 60 * SECOND, 3600 * SECOND]),
        "run_on_start": st.booleans(),
        "backoff": st.sampled_from([0, 0, 45 * SECOND, 5000 * SECOND]),
        "backoff_cap": st.sampled_from([0, 9000 * SECOND]),
        "breaker": st.sampled_from([None, None, Breaker(1, 700), Breaker(3, 9000)]),
    }
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 29, 31, 60, 600, 3600, 10_800, 100_000]),  # seconds that go by
        st.sampled_from([None, None, None, None, *Verdict]),
        st.integers(0, 9),  # which of its runs are refused
        st.sampled_from([None, *[state for state in RunState if state.value in ("succeeded", "failed", "cancelled")]]),
    ),
    max_size=12,
)


class Life:
    """A job's life: what was written of it, and which of its runs have not ended."""

    def __init__(self, rule: Schedule, fields: dict[str, object]) -> None:
        self.now = START
        self.job: JobRecord = new_job(START, rule, id="j", **fields)
        self.records: dict[int, FireRecord] = {}
        self.open: list[str] = []

    def fire(self, verdict: Verdict | None, refused: int) -> None:
        """Fire what is due, if anything is."""
        if self.job.state.fire_at is None or self.job.state.fire_at > self.now:
            return
        before = self.job.state.next_at or 0
        firing = decide(self.job, self.now, "UTC", verdict)
        assert firing == decide(self.job, self.now, "UTC", verdict)
        nominal = [run.ties.job.at for run in firing.runs if run.ties and run.ties.job]
        assert [run.id for run in firing.runs] == [derived_id("j", "fire", at) for at in nominal]
        assert nominal == sorted(set(nominal))
        receipts = [
            Receipt(ReceiptOutcome.REFUSED, run.id, Why.SESSION_BUSY.value)
            if nth % 10 < refused % 4
            else Receipt(ReceiptOutcome.ACCEPTED, run.id)
            for nth, run in enumerate(firing.runs)
        ]
        newest = self.records[max(self.records)] if self.records else None
        self.job, written = applied(self.job, firing, receipts, self.now, newest)
        self.records |= {record.nth: record for record in written}
        self.open += [one.run_id for one in receipts if one.outcome is ReceiptOutcome.ACCEPTED and one.run_id]
        assert self.job.state.next_at is None or self.job.state.next_at > before

    def end(self, state: RunState) -> None:
        """End the oldest run that is open."""
        if self.open:
            after = ended(self.job, self.open.pop(0), state, None, self.now)
            assert after is not None
            told = alarm(self.job, after, None, self.now)
            if told is not None:
                assert after.state.failures == after.spec.alert_after
                self.records[told.nth] = told
            self.job = after

    def check(self) -> None:
        """Assert that the plan is sound, and each slot up to it is on record once."""
        state = self.job.state
        assert (state.next_at is None) == (state.fire_at is None)
        if state.next_at is not None and state.fire_at is not None:
            assert state.fire_at >= state.next_at
            assert self.job.is_on
        elif self.job.is_on:
            assert self.open  # its end will say
        assert list(self.records) == list(range(1, len(self.records) + 1))
        assert state.records == len(self.records)

    def slots(self) -> list[int]:
        """Return every nominal time from the job's creation up to before its next fire."""
        end = instant(self.job.state.next_at or self.now + 1)
        rule = self.job.spec.rule
        later = map(micros, takewhile(lambda fire: fire < end, rule.fires(instant(START), "UTC")))
        at_once = [START] if self.job.spec.run_on_start and self.job.state.next_at != START else []
        return [*at_once, *later]


@settings(deadline=None, max_examples=100)
@given(rule=RULES, fields=FIELDS, steps=STEPS)
def test_every_slot_is_on_record_once_and_fires_go_on(
    rule: Schedule, fields: dict[str, object], steps: list[tuple[int, Verdict | None, int, RunState | None]]
) -> None:
    life = Life(rule, fields)
    for seconds, verdict, refused, state in steps:
        life.now += seconds * SECOND
        life.fire(verdict, refused)
        life.check()
        if state is not None:
            life.end(state)
            life.check()

    slots, counted = life.slots(), 0
    for record in life.records.values():
        if record.kind is FireKind.FAILING:
            continue
        stretch = slots[counted : counted + record.count]
        assert (record.first, record.last, record.count) == (stretch[0], stretch[-1], len(stretch)), record
        assert not record.more
        counted += record.count
    assert counted == len(slots)
    state_of = life.job.state
    assert state_of.fired + state_of.skipped + state_of.missed == counted


@settings(deadline=None, max_examples=100)
@given(rule=RULES, fields=FIELDS, late=st.integers(0, 10**6), later=st.integers(0, 10**6))
def test_whoever_decides_and_whenever_a_slot_has_one_run(
    rule: Schedule, fields: dict[str, object], late: int, later: int
) -> None:
    job = new_job(START, rule, id="j", **fields)
    due = job.state.fire_at or 0

    first, second = decide(job, due + late * SECOND, "UTC"), decide(job, due + (late + later) * SECOND, "UTC")

    by_slot = {run.ties.job.at: run.id for run in first.runs if run.ties and run.ties.job}
    for run in second.runs:
        assert run.ties is not None
        assert run.ties.job is not None
        assert by_slot.get(run.ties.job.at, run.id) == run.id
    assert first.version == second.version == job.version
    assert first == msgspec.structs.replace(first)
