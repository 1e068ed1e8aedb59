"""`laneway jobs enable`, `disable` and `remove`: what is done to each job that is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laneway.cli.jobs.target import jobs_of, owner_option, where_options
from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import say
from laneway.cli.shell.options import json_option

if TYPE_CHECKING:
    from laneway.core.jobs.job import Job


@click.command(
    "enable", cls=Command, examples=("laneway jobs enable digest", "laneway jobs enable digest sweep --json")
)
@name_argument("job", many=True)
@owner_option
@json_option("the jobs")
@where_options
def enable(names: tuple[str, ...], owner: str | None, app: str | None, store: str | None, as_json: bool) -> int:
    """Let jobs fire again, from now on: what they missed is not made up for, and their failures are forgotten."""
    return awaited(_each("enable", names, owner, app, store, as_json=as_json))


@click.command("disable", cls=Command, examples=("laneway jobs disable digest", "laneway jobs disable digest sweep"))
@name_argument("job", many=True)
@owner_option
@json_option("the jobs")
@where_options
def disable(names: tuple[str, ...], owner: str | None, app: str | None, store: str | None, as_json: bool) -> int:
    """Let jobs fire no more until they are enabled, whatever code or laneway.toml say. What runs of them goes on."""
    return awaited(_each("disable", names, owner, app, store, as_json=as_json))


@click.command(
    "remove", cls=Command, examples=("laneway jobs remove digest", "laneway jobs remove old-1 old-2 --dry-run")
)
@name_argument("job", many=True)
@click.option("--dry-run", is_flag=True, help="Only say which jobs it would remove.")
@owner_option
@json_option("the jobs")
@where_options
def remove(
    names: tuple[str, ...], dry_run: bool, owner: str | None, app: str | None, store: str | None, as_json: bool
) -> int:
    """Forget jobs and what became of their fires. Their runs stay, and go on.

    One that laneway.toml declares comes back when the file is read again; one that code declares cannot be removed
    while a worker declares it. `laneway jobs disable` holds in both cases.
    """
    return awaited(_each("get" if dry_run else "remove", names, owner, app, store, as_json=as_json))


DONE = {"enable": "enabled", "disable": "disabled", "remove": "removed", "get": "would be removed"}


async def _each(
    verb: str, names: tuple[str, ...], owner: str | None, app: str | None, store: str | None, *, as_json: bool
) -> int:
    from laneway.cli.jobs import diagnose, records, render
    from laneway.cli.shell.batch_results import each, told

    async with jobs_of(app, store) as scheduler:

        async def ask(name: str) -> Job:
            job = await scheduler.jobs.get(name, owner=owner)
            done = await getattr(scheduler.jobs, verb)(job) or job
            if verb in ("remove", "get") and (declared := diagnose.of_declared(job, "removed")):
                say(declared)
            return done

        answers = await each(names, ask)
    return told(
        answers,
        line=lambda job: f"{job.name}  {render.done(job, DONE[verb])}",
        record=records.job_record,
        as_json=as_json,
        name="job",
    )
