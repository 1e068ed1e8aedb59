"""The rules of fires find what is planted: a check that cannot fail would prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway import Every
from laneway.core.common.instants import SECOND
from laneway.core.jobs.record import FireKind, FireRecord
from laneway.core.records.job_tie import JobTie, Overlap
from laneway.core.records.run import RunLinks
from tests.support.jobs import new_job
from tests.system.oracle.fire_rules import JobFires
from tests.system.oracle.world import START, World

PERIOD = 10  # seconds
CREATED = int(START.timestamp())


def nominal(nth: int) -> int:
    """Return the nominal time of a job's fire of that number, counted from 1."""
    return (CREATED + nth * PERIOD) * SECOND


class Fires:
    """A job with two fires that made a run, and one that was skipped between them; a test then spoils something."""

    def __init__(self, schedule: Every | None = None, **fields: Any) -> None:
        self.world = World()
        self.job = new_job(CREATED * SECOND, schedule or Every(PERIOD), id="job", **fields)
        self.records: list[FireRecord] = []
        self.runs: list[str] = []
        self.state(next_at=nominal(4), fired=2, skipped=1)

    def state(self, **facts: Any) -> None:
        """Change the job's state."""
        self.job = msgspec.structs.replace(self.job, state=msgspec.structs.replace(self.job.state, **facts))

    def fire(self, nth: int, *, at: int | None = None, run: str = "") -> None:
        """Let the job fire at its nominal time of this number; the run is executed at second `at`."""
        run, second = run or f"run-{len(self.runs) + 1}", nth * PERIOD if at is None else at
        tie = JobTie(id="job", name="job", at=nominal(nth), overlap=self.job.spec.overlap)
        self.world.add(run, at=second, accepted=second, ties=RunLinks(job=tie))
        self.runs.append(run)
        self.note(FireKind.FIRED, nth, run_id=run)

    def note(self, kind: FireKind, nth: int, **facts: Any) -> None:
        """Keep a record of the fire of this number."""
        self.records.append(
            FireRecord(kind=kind, first=nominal(nth), last=nominal(nth), nth=len(self.records) + 1, **facts)
        )

    def wrong(self, folder: Path) -> list[str]:
        """Return what the rules find."""
        runs = sorted((self.world.runs[run] for run in self.runs), key=lambda run: run.job.at if run.job else 0)
        self.world.jobs = [JobFires(self.job, self.records, runs)]
        return self.world.wrong(folder)


@pytest.fixture
def fires() -> Fires:
    fires = Fires()
    fires.fire(1)
    fires.note(FireKind.SKIPPED, 2)
    fires.fire(3)
    return fires


def test_nothing_is_wrong_with_what_is_right(fires: Fires, tmp_path: Path) -> None:
    assert fires.wrong(tmp_path) == []


def fire_a_time_twice(fires: Fires) -> None:
    fires.fire(3, at=40)


def record_a_run_twice(fires: Fires) -> None:
    fires.note(FireKind.FIRED, 4, run_id="run-2")


def pass_over_a_time(fires: Fires) -> None:
    del fires.records[1]


def plan_a_later_fire(fires: Fires) -> None:
    fires.state(next_at=nominal(5))


def skip_a_time_twice(fires: Fires) -> None:
    fires.note(FireKind.SKIPPED, 2)


def stretch_a_record(fires: Fires) -> None:
    fires.records[1] = msgspec.structs.replace(fires.records[1], count=2)


def fire_without_a_record(fires: Fires) -> None:
    del fires.records[2]


def record_without_a_run(fires: Fires) -> None:
    fires.runs.remove("run-2")


def start_a_run_beside_another(fires: Fires) -> None:
    fires.fire(4, at=32)


def count_a_fire_more(fires: Fires) -> None:
    fires.state(fired=3)


def count_a_skip_less(fires: Fires) -> None:
    fires.state(skipped=0)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (fire_a_time_twice, "2 runs for the nominal time"),
        (record_a_run_twice, "2 records of run run-2"),
        (pass_over_a_time, f"{nominal(2)} has no record"),
        (plan_a_later_fire, f"{nominal(4)} has no record, and {nominal(5)} would be fired next"),
        (skip_a_time_twice, f"{nominal(3)} is on record twice"),
        (stretch_a_record, "a record that does not add up"),
        (fire_without_a_record, "runs without a record: {('run-2'"),
        (record_without_a_run, "records without a run: {('run-2'"),
        (start_a_run_beside_another, "run-3 was accepted 2026-01-01 00:00:32"),
        (count_a_fire_more, "3 counted as fired, 2 on record"),
        (count_a_skip_less, "0 counted as skipped, 1 on record"),
    ],
)
def test_the_rules_find_it_if_you(fires: Fires, tmp_path: Path, spoil: Callable[[Fires], None], complaint: str) -> None:
    spoil(fires)

    found = fires.wrong(tmp_path)
    assert any(complaint in line for line in found), found


def test_a_queued_run_waits_for_the_one_before(tmp_path: Path) -> None:
    fires = Fires(overlap=Overlap.QUEUE)
    fires.state(next_at=nominal(3), skipped=0)
    fires.fire(1)
    fires.fire(2, at=12)

    assert [line for line in fires.wrong(tmp_path) if "run-2 was started" in line]


def test_a_job_that_waits_for_ends_fires_a_period_after_the_last_end(tmp_path: Path) -> None:
    fires = Fires(Every(PERIOD, after="end"))
    fires.fire(1)
    fires.fire(2)

    assert [line for line in fires.wrong(tmp_path) if "run-2 was fired" in line]
