"""`laneway jobs enable`, `disable` and `remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laneway.cli.jobs.target import jobs_of, owner_option, where_options
from laneway.cli.shell.commands import Command
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import say
from laneway.cli.shell.options import json_option

if TYPE_CHECKING:
    from laneway.core.jobs.job import Job
    from laneway.scheduler import Scheduler


@click.command(
    "enable", cls=Command, examples=("laneway jobs enable digest", "laneway jobs enable digest sweep --json")
)
@name_argument("job", many=True)
@owner_option
@json_option("the jobs")
@where_options
def enable(names: tuple[str, ...], owner: str | None, app: str | None, store: str | None, as_json: bool) -> int:
    """Enable jobs: they fire again from now on.

    Fires that they missed are not made up for, and their failures are forgotten.
    """
    return _act("enable", names, owner, app, store, as_json=as_json)


@click.command("disable", cls=Command, examples=("laneway jobs disable digest", "laneway jobs disable digest sweep"))
@name_argument("job", many=True)
@owner_option
@json_option("the jobs")
@where_options
def disable(names: tuple[str, ...], owner: str | None, app: str | None, store: str | None, as_json: bool) -> int:
    """Disable jobs: they do not fire until they are enabled.

    Neither code nor laneway.toml enables them. Runs of them go on.
    """
    return _act("disable", names, owner, app, store, as_json=as_json)


@click.command(
    "remove", cls=Command, examples=("laneway jobs remove digest", "laneway jobs remove old-1 old-2 --dry-run")
)
@name_argument("job", many=True)
@click.option("--dry-run", is_flag=True, help="Only print which jobs would be removed.")
@owner_option
@json_option("the jobs")
@where_options
def remove(
    names: tuple[str, ...], dry_run: bool, owner: str | None, app: str | None, store: str | None, as_json: bool
) -> int:
    """Remove jobs and the records of their fires.

    Their runs stay and go on. A job that laneway.toml declares comes back when the file is read again; a job that code
    declares cannot be removed while a worker declares it. `laneway jobs disable` works in both cases.
    """
    return _act("get" if dry_run else "remove", names, owner, app, store, as_json=as_json)


DONE = {"enable": "enabled", "disable": "disabled", "remove": "removed", "get": "would be removed"}


def _act(
    verb: str, names: tuple[str, ...], owner: str | None, app: str | None, store: str | None, *, as_json: bool
) -> int:
    from laneway.cli.jobs import diagnose, view
    from laneway.cli.shell.batch_results import act_on_each

    async def act(scheduler: Scheduler, name: str) -> Job:
        job = await scheduler.jobs.get(name, owner=owner)
        done = await getattr(scheduler.jobs, verb)(job) or job
        if verb in ("remove", "get") and (declared := diagnose.of_declared(job, "removed")):
            say(declared)
        return done

    return act_on_each(
        jobs_of(app, store),
        names,
        act,
        line=lambda job: f"{job.name}  {view.done(job, DONE[verb])}",
        record=view.job_record,
        as_json=as_json,
        name="job",
    )
