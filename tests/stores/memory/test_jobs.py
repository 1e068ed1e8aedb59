"""The memory store's order of jobs by due time."""

from __future__ import annotations

import msgspec

from laneway.core.common.instants import SECOND
from laneway.core.jobs.plan import with_next
from laneway.core.schedules import Every
from laneway.stores.memory.state.job_records import SPARE, JobRecords
from laneway.testing.clock import START
from tests.support.jobs import new_job


def test_a_job_that_is_moved_again_and_again_takes_up_no_more_room() -> None:
    jobs, job = JobRecords(), new_job(START)
    jobs.add(job, START)
    later = jobs.add(new_job(START, id="later", name="later"), START)

    for nth in range(1000):
        planned = with_next(msgspec.structs.replace(job, call=str(nth)), START + (5000 + nth) * SECOND, "UTC")
        moved = jobs.change(planned, START)
        assert moved is not None
        job = moved

    assert len(jobs._coming) <= 2 * 2 + SPARE + 1
    due = jobs.due(START + 9999 * SECOND, 10, (0, ""))
    assert [one.id for one in due.jobs] == [later.id, job.id]


def test_a_clock_that_is_set_back_brings_no_place_of_a_job_back_that_has_moved_on() -> None:
    jobs = JobRecords()
    for job_id, period in (("first", 10), ("gone", 20)):
        jobs.add(new_job(START, Every(period), id=job_id), START)
    assert len(jobs.due(START + 30 * SECOND, 10, (0, "")).jobs) == 2
    jobs.remove("gone")

    due = jobs.due(START + 15 * SECOND, 10, (0, ""))

    assert [one.id for one in due.jobs] == ["first"]
    assert due.next_at is None
