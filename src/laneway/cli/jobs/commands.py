"""`laneway jobs`: show and change jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.jobs.edit import add, edit
from laneway.cli.jobs.fires import calendar, preview, run, runs
from laneway.cli.jobs.switch import disable, enable, remove
from laneway.cli.jobs.target import jobs_of, owner_option, where_options
from laneway.cli.shell.commands import Group
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import say
from laneway.cli.shell.options import json_option, limit_option
from laneway.cli.shell.target import call

if TYPE_CHECKING:
    from laneway.core.jobs.job import Job
    from laneway.scheduler import Scheduler

SHOWN = 5  # next fires and last fires
PAGE = 1000  # jobs per read


@click.group(
    "jobs",
    cls=Group,
    examples=(
        "laneway jobs list",
        'laneway jobs add digest "0 9 * * 1-5" summarize --tz Asia/Tokyo --args \'{"doc": "daily"}\'',
        "laneway jobs show digest",
        "laneway jobs calendar",
    ),
)
def jobs() -> None:
    """Show and change jobs: list, show, calendar, preview, add, edit, enable, disable, ...

    JOB is the name of a job, its id, or a beginning of its id that no other job's id has.
    """


@jobs.command(
    "list",
    examples=(
        "laneway jobs list",
        "laneway jobs list --task summarize --enabled",
        "laneway jobs list --owner ann --json",
    ),
)
@click.option("--owner", metavar="USER", help="Only jobs of this owner.")
@click.option("--task", metavar="NAME", help="Only jobs that start this task.")
@click.option(
    "--source",
    type=click.Choice(("call", "code", "file")),
    help="Only jobs that were made by a call, in code, or in a file.",
)
@click.option("--enabled/--disabled", default=None, help="Only jobs that are enabled, or disabled.")
@limit_option("jobs")
@click.option("--after", nargs=2, default=("", ""), metavar="NAME ID", help="Continue a list: after this job.")
@click.option("--next", "by_next", is_flag=True, help="Sort by the next fire instead of the name.")
@json_option("an array of jobs")
@where_options
def list_(limit: int, by_next: bool, app: str | None, store: str | None, as_json: bool, **wanted: Any) -> None:
    """List jobs by name.

    `next` is the next fire, in the time zone of the job; `last` says how its last run ended. States: `on`: it fires;
    `disabled`: somebody disabled it; `breaker`: its breaker did; `done`, `failed`, `missed`, `cancelled`, `skipped`: it
    has no fire left, and the last one ended so; `gated`, `gating_error`: its condition was false, or raised an error;
    `backoff`, `breaker_open`: it is held back after failures; `orphaned`: no worker that is up declares it.
    """
    from laneway.cli.jobs import diagnose
    from laneway.cli.jobs.view import JOB

    async def read(scheduler: Scheduler) -> tuple[list[Job], int]:
        listed = _by_next(scheduler, **wanted) if by_next else scheduler.jobs.list(limit=limit + 1, **wanted)
        return await listed, await diagnose.workers_up(scheduler)

    found, workers = call(jobs_of(app, store), read)
    given = any(value not in (None, ("", "")) for value in wanted.values())
    JOB.show_all(found[:limit], as_json=as_json, none="no jobs" + (" that fit" if given else ""))
    if not workers and any(job.enabled for job in found):
        say("no worker is up: nobody fires them")
    if len(found) > limit and by_next:
        say(f"there are {len(found) - limit} more; show them with --limit {len(found)}")
    elif len(found) > limit:
        last = found[limit - 1]
        say(f"there are more; go on with --after {last.name!r} {last.id}")


async def _by_next(scheduler: Scheduler, **wanted: Any) -> list[Job]:
    """Return all matching jobs by their next fires; those that do not fire come last."""
    found: list[Job] = []
    while page := await scheduler.jobs.list(limit=PAGE, **wanted):
        found += page
        wanted["after"] = (page[-1].name, page[-1].id)
    return sorted(found, key=lambda job: (job.next_fire_at is None, job.next_fire_at or job.created_at))


@jobs.command("show", examples=("laneway jobs show digest", "laneway jobs show digest --json"))
@name_argument("job")
@owner_option
@json_option("the job, its next and its last fires")
@where_options
def show(name: str, owner: str | None, app: str | None, store: str | None, as_json: bool) -> None:
    """Show everything about a job.

    When it fires, in words; the next 5 fires with warnings; the last 5 fires and their runs. If it does not fire: why,
    and the command that changes that.
    """
    from laneway.cli.jobs.diagnose import Prerequisites
    from laneway.cli.jobs.view import JobPage

    async def read(scheduler: Scheduler) -> JobPage:
        job = await scheduler.jobs.get(name, owner=owner)
        fires = await scheduler.jobs.preview(job, SHOWN)
        past = await scheduler.jobs.runs(job, limit=SHOWN)
        return JobPage(job, await Prerequisites.read(scheduler, job), fires, past)

    call(jobs_of(app, store), read).show(as_json=as_json)


for command in (calendar, preview, add, edit, enable, disable, remove, run, runs):
    jobs.add_command(command)
