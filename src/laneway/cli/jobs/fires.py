"""`laneway jobs run`, `runs`, `preview` and `calendar`: fire by hand, list past and future fires."""

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
    """Fire a job now, and print the id of its run.

    Neither its schedule nor a disabled state prevents it, but its overlap rule does. Future fires stay as they are.
    With --if-due it does nothing, and exits with 0, if the job is not due. A fire that is refused or skipped for
    another reason exits with 5.
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
@click.option("--before", type=click.IntRange(min=1), metavar="NUMBER", help="Continue a list: records before NUMBER.")
@owner_option
@json_option("an array of fires, with what their runs came to")
@where_options
def runs(
    name: str, limit: int, before: int | None, owner: str | None, app: str | None, store: str | None, as_json: bool
) -> None:
    """List the past fires of a job, newest first.

    Each was fired, skipped or missed. Consecutive fires that were skipped or missed for one reason share a line, with
    their count. Times are nominal times in UTC. The newest 1,000 records of a job are kept; the state of a run is shown
    as long as the run is kept.
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
@click.option(
    "-n", "count", type=click.IntRange(1, MOST), default=10, show_default=True, metavar="N", help="How many fires."
)
@owner_option
@json_option("the fires")
@where_options
def preview(name: str, count: int, owner: str | None, app: str | None, store: str | None, as_json: bool) -> None:
    """Print the next fires of a job.

    Also of a disabled one. Days on which the clock changes are marked. `laneway preview SCHEDULE` prints the fires of a
    schedule without a job.
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
@click.option(
    "-n", "count", type=click.IntRange(1, MOST), default=20, show_default=True, metavar="N", help="How many fires."
)
@json_option("the fires")
@where_options
def calendar(count: int, app: str | None, store: str | None, as_json: bool) -> None:
    """Print the next fires of all enabled jobs, day by day.

    Times are in the time zone of each job. Days on which a clock changes are marked.
    """
    from laneway.cli.jobs import view

    view.calendar(call(jobs_of(app, store), lambda scheduler: scheduler.jobs.upcoming(count)), as_json=as_json)
