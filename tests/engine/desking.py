"""What the tests of jobs share: a scheduler with tasks, and firing what is due as a worker's ticker does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from laneway import Scheduler
from laneway.core.jobs.fire_decision import decide
from laneway.core.jobs.job import Job
from laneway.core.jobs.record import JobSpec, Source
from laneway.engine.jobs.specs import spec_of

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)  # when a FakeClock starts: a Thursday


def with_tasks(app: Scheduler) -> Scheduler:
    """Register what the jobs of these tests start."""

    @app.task
    def summarize(doc: str, pages: int = 1) -> str:
        """Say in short what a document says."""
        return f"summary of {doc}" * pages

    @app.task(retry=None)
    def fail() -> None:
        raise ValueError("it is broken")

    @app.task
    def cleanup() -> int:
        return 3

    return app


async def fire_due(app: Scheduler) -> int:
    """Fire all that is due, once; return how many jobs that were."""
    store = await app.open()
    due = await store.due_jobs()
    knowing = app._environment
    firings = [decide(job, due.now, knowing.zone(job.spec), await knowing.verdict(job.spec)) for job in due.jobs]
    return sum(fired.won for fired in await store.fire(firings))


def at(job: Job) -> str:
    """Return when a job fires next."""
    return "never" if job.next_fire_at is None else f"{job.next_fire_at:%a %d %H:%M}"


def in_file(app: Scheduler, name: str, schedule: Any, task: str = "cleanup", **options: Any) -> JobSpec:
    """Return a job as `laneway.toml` declares it."""
    return spec_of(app.tasks.registry, name, schedule, task, None, options, source=Source.FILE, origin="laneway.toml")
