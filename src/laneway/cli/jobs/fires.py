"""`laneway jobs run`, `runs`, `preview` and `calendar`: fires by hand, those that were, and those to come."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

import click

from laneway.cli.jobs.target import app_or_default, jobs_of, owner_option, where_options
from laneway.cli.shell.commands import Command
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import CONFLICT, FINE, Problem, say
from laneway.cli.shell.options import json_option, limit_option
from laneway.cli.shell.target import call

if TYPE_CHECKING:
    from laneway.core.jobs.fires import Fire
    from laneway.core.jobs.job import Job
    from laneway.core.records.run import Receipt
    from laneway.core.schedules.preview import Preview
    from laneway.scheduler import Scheduler

MOST = 1000


@click.command("run", cls=Command, examples=("laneway jobs run digest", "laneway jobs run digest --if-due"))
@name_argument("job")
@click.option("--if-due", is_flag=True, help="Only if it is due by its schedule.")
@owner_option
@json_option("the receipt")
@where_options
def run(name: str, if_due: bool, owner: str | None, app: str | None, store: str | None, as_json: bool) -> int:
    """Fire a job now and print the run's id, whatever its schedule says, also if it is disabled.

    Its plan stays as it is: a run by hand moves no fire to come. Its overlap rule holds. With --if-due a job that is
    not due is left alone, which is fine; a fire that is refused or skipped for another reason exits with 5.
    """
    from laneway.cli.shell.output import print_json
    from laneway.core.records.codec import to_dict

    async def fired(scheduler: Scheduler) -> tuple[Job, Receipt]:
        job = await scheduler.jobs.get(name, owner=owner)
        return job, await scheduler.jobs.run(job, force=not if_due)

    job, receipt = call(jobs_of(app_or_default(app, store), store), fired)
    if as_json:
        print_json({**to_dict(receipt), "job": job.name})
    elif receipt.accepted:
        click.echo(receipt.run_id)
    if receipt.accepted or receipt.reason == "not_due":
        if not receipt.accepted:
            say(f"job {job.name} is not due")
        return FINE
    raise Problem(_refusal(job, receipt), code=CONFLICT)


def _refusal(job: Job, receipt: Receipt) -> str:
    if receipt.reason == "overlap":
        return f"job {job.name} was not fired: an earlier run of it goes on (overlap {job.spec.overlap.value})"
    return f"job {job.name} was not fired: {receipt.outcome.value}, {receipt.reason}"


@click.command(
    "runs",
    cls=Command,
    examples=("laneway jobs runs digest", "laneway jobs runs digest --limit 100 --before 1200 --json"),
)
@name_argument("job")
@limit_option("records", 20, MOST)
@click.option("--before", type=click.IntRange(min=1), metavar="NUMBER", help="Go on from here: records before NUMBER.")
@owner_option
@json_option("an array of fires, with what their runs came to")
@where_options
def runs(
    name: str, limit: int, before: int | None, owner: str | None, app: str | None, store: str | None, as_json: bool
) -> None:
    """List what became of a job's fires, newest first: fired, skipped or missed.

    A stretch of fires that were skipped or missed for one reason is one line, with how many they were. Times are
    nominal ones, in UTC. Of a job the newest 1,000 records are kept; what a run came to is told as long as it is kept.
    """
    from laneway.cli.jobs.view import FIRE

    def read(scheduler: Scheduler) -> Awaitable[list[Fire]]:
        return scheduler.jobs.runs(name, owner=owner, limit=limit + 1, before=before)

    none = "it has not fired yet" if before is None else "no more records"
    found = call(jobs_of(app, store), read)
    FIRE.show_all(found, as_json=as_json, none=none, limit=limit, resume=lambda fire: f"--before {fire.number}")


@click.command(
    "preview", cls=Command, examples=("laneway jobs preview digest", "laneway jobs preview digest -n 50 --json")
)
@name_argument("job")
@click.option("-n", "count", type=click.IntRange(1, MOST), default=10, show_default=True, metavar="N", help="How many.")
@owner_option
@json_option("the fires")
@where_options
def preview(name: str, count: int, owner: str | None, app: str | None, store: str | None, as_json: bool) -> None:
    """Print when a job fires next, enabled or not, and mark the days on which the clock is changed.

    `laneway preview SCHEDULE` shows the same of a schedule that is no job yet.
    """
    from laneway.cli.jobs import next_fires
    from laneway.cli.jobs.view import words
    from laneway.cli.shell.output import print_json

    async def read(scheduler: Scheduler) -> tuple[Job, Sequence[Preview]]:
        job = await scheduler.jobs.get(name, owner=owner)
        return job, await scheduler.jobs.preview(job, count)

    job, fires = call(jobs_of(app, store), read)
    if as_json:
        rows = [next_fires.NEXT_FIRE.record(fire) for fire in fires]
        print_json({"v": 1, "job": job.name, "words": words(job), "tz": job.zone, "fires": rows})
        return
    say(words(job) + ("" if job.enabled else f"; it does not fire now ({job.reason})"))
    if fires:
        next_fires.show(fires)
    if len(fires) < count:
        say("and never again" if fires else "it never fires again")


@click.command("calendar", cls=Command, examples=("laneway jobs calendar", "laneway jobs calendar -n 100 --json"))
@click.option("-n", "count", type=click.IntRange(1, MOST), default=20, show_default=True, metavar="N", help="How many.")
@json_option("the fires")
@where_options
def calendar(count: int, app: str | None, store: str | None, as_json: bool) -> None:
    """Print the next fires of all jobs that are enabled, in order, day by day, each on the wall of its time zone.

    Days on which a clock is changed are marked.
    """
    from laneway.cli.jobs import view

    view.calendar(call(jobs_of(app, store), lambda scheduler: scheduler.jobs.upcoming(count)), as_json=as_json)
