"""`laneway jobs add` and `edit`: the options of a job, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from laneway.cli.jobs.preview import zones
from laneway.cli.jobs.target import app_or_default, jobs_of, owner_option, where_options
from laneway.cli.shell.commands import Command
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import Problem, say
from laneway.cli.shell.options import NONE, count_or_none, json_object, json_option, seconds
from laneway.cli.shell.target import call

if TYPE_CHECKING:
    from laneway.core.jobs.job import Job
    from laneway.scheduler import Scheduler

F = TypeVar("F", bound=Callable[..., Any])
MISFIRE = ("skip", "once", "all")
OVERLAP = ("skip", "queue", "interrupt", "allow")


def seconds_or_none(text: str) -> float | str:
    """Parse a duration, or `none` for no limit; None would mean that the option is not given."""
    return NONE if text == NONE else seconds(text)


_OPTIONS = (
    click.option("--args", "given_args", metavar="JSON", help="The task's arguments, as one JSON object."),
    click.option(
        "--tz",
        metavar="ZONE",
        shell_complete=zones,
        help="The time zone of SCHEDULE.  [default: with --app the owner's, else the app's; else UTC]",
    ),
    click.option(
        "--lane", metavar="NAME", help="The lane of its runs.  [default: that of the task if it is not main, else cron]"
    ),
    click.option("--user", metavar="KEY", help="The user of its runs.  [default: the owner]"),
    click.option("--session", metavar="KEY", help="The session of its runs.  [default: one for this job]"),
    click.option("--priority", type=int, metavar="N", help="The priority of its runs, -100 to 100."),
    click.option("--description", metavar="TEXT", help="What it is for."),
    click.option("--misfire", type=click.Choice(MISFIRE), help="What happens to missed fires.  [default: once]"),
    click.option(
        "--max-staleness",
        type=seconds_or_none,
        metavar="S|none",
        help="Missed fires older than this are not made up for.  [default: 1h]",
    ),
    click.option(
        "--overlap",
        type=click.Choice(OVERLAP),
        help="What a fire does while an earlier run is active.  [default: skip]",
    ),
    click.option(
        "--delete-after-run/--keep-after-run",
        default=None,
        help="Remove the job after a run of it has succeeded, or keep it.",
    ),
    click.option(
        "--timeout",
        type=seconds_or_none,
        metavar="S|none",
        help="The time-out of its runs, instead of that of the task.",
    ),
    click.option(
        "--retry", type=count_or_none, metavar="N|none", help="The attempts of a run, instead of those of the task."
    ),
    click.option(
        "--breaker", type=count_or_none, metavar="N|none", help="Hold the job back after N failures in a row."
    ),
    click.option("--open-for", type=seconds, metavar="S", help="With --breaker: for this time.  [default: 5m]"),
    click.option("--auto-disable", is_flag=True, help="With --breaker: until somebody enables the job."),
    click.option(
        "--backoff",
        type=seconds_or_none,
        metavar="S|none",
        help="Hold the job back for this time after a failure, twice as long after the next one.",
    ),
    click.option("--backoff-cap", type=seconds_or_none, metavar="S|none", help="Longest --backoff."),
    click.option(
        "--alert-after",
        type=click.IntRange(min=0),
        metavar="N",
        help="Record an alert after N failed runs in a row; 0: never.  [default: 3]",
    ),
    click.option(
        "--enabled-when", metavar="NAME|none", help="A condition that the app registers: fire only if it is true."
    ),
)


def job_options(function: F) -> F:
    """Add the options of a job; its schedule and task are arguments or options of their own."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command(
    "add",
    cls=Command,
    examples=(
        'laneway jobs add digest "0 9 * * 1-5" summarize --tz Asia/Tokyo --args \'{"doc": "daily"}\'',
        'laneway jobs add sweep "every 30m" cleanup --misfire skip --overlap queue',
        'laneway jobs add launch "at 2126-12-01T09:00" announce --tz Europe/Berlin --delete-after-run',
        'laneway jobs add report "monthly last 18:00" report --breaker 5 --auto-disable --app app:app',
    ),
)
@click.argument("name", metavar="NAME")
@click.argument("schedule", metavar="SCHEDULE")
@click.argument("task", metavar="TASK")
@job_options
@click.option("--owner", metavar="USER", help="The user it belongs to.")
@click.option("--run-on-start", is_flag=True, help="Also fire now.")
@click.option("--disabled", is_flag=True, help="Do not fire until somebody enables it.")
@json_option("the job")
@where_options
def add(
    name: str, schedule: str, task: str, app: str | None, store: str | None, as_json: bool, disabled: bool, **given: Any
) -> None:
    """Add a job: SCHEDULE starts TASK.

    SCHEDULE is one line, as `laneway preview` takes it: a cron rule, or words such as "every 30m", "daily 09:00",
    "weekly mon,fri 09:00", "monthly last 18:00", "at 2126-12-01T09:00". With --app (or LANEWAY_APP) the task and its
    arguments are checked; without it they are stored as given. Everything else is checked in any case.
    """
    from laneway.cli.jobs.view import show_done
    from laneway.cli.shell import hints

    options = _options(given) | ({"enabled": False} if disabled else {})
    args = options.pop("args", None)
    app = app_or_default(app, store)
    # Only an app knows the default zone of its schedules; a job planned in another zone would lose its first fire.
    assumed = app is None and "tz" not in options and not schedule.lower().startswith("every")
    if assumed:
        options["tz"] = "UTC"

    async def added(scheduler: Scheduler) -> tuple[Job, str]:
        made = await scheduler.jobs.create(name, schedule, task, args, check_task=app is not None, **options)
        return made, await hints.unknown_task(scheduler, task)

    made, doubt = call(jobs_of(app, store), added)
    if assumed:
        say("its times are in UTC; give --tz for another zone, or --app for that of the app")
    if doubt:
        say(doubt)
    show_done(made, "added", as_json=as_json)


@click.command(
    "edit",
    cls=Command,
    examples=(
        'laneway jobs edit digest --schedule "0 8 * * 1-5"',
        "laneway jobs edit digest --tz Europe/Berlin --misfire all --max-staleness none",
        "laneway jobs edit digest --rename weekday-digest --timeout none",
    ),
)
@name_argument("job")
@click.option("--schedule", metavar="SCHEDULE", help="When it fires; the time zone stays unless --tz is given.")
@click.option("--task", metavar="TASK", help="The task that it starts.")
@click.option("--rename", metavar="NAME", help="Its new name.")
@job_options
@owner_option
@json_option("what it was and what it is")
@where_options
def edit(
    name: str,
    rename: str | None,
    owner: str | None,
    app: str | None,
    store: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Change a job, and print the old and the new values.

    Options that are not given keep their values. Everything is checked before anything is changed. A new schedule
    counts from now on: its earlier fires are not made up for. `none` resets an option to its default.
    """
    from laneway.cli.jobs import diagnose
    from laneway.cli.jobs.view import show_edit

    changes = _options(given) | ({"name": rename} if rename else {})
    if not changes:
        raise Problem("nothing to change; give --schedule, --task, --args or another option")
    app = app_or_default(app, store)

    async def changed(scheduler: Scheduler) -> tuple[Job, Job]:
        was = await scheduler.jobs.get(name, owner=owner)
        return was, await scheduler.jobs.update(was, check_task=app is not None, **changes)

    was, now = call(jobs_of(app, store), changed)
    show_edit(was, now, as_json=as_json)
    if declared := diagnose.of_declared(now, "changed"):
        say(declared)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the given options of a job; `none` becomes None."""
    breaker, open_for, disable = given.pop("breaker"), given.pop("open_for"), given.pop("auto_disable")
    text = given.pop("given_args")
    said = {name: value for name, value in given.items() if value is not None and value is not False}  # 0 is a value
    options = {name: None if value == NONE else value for name, value in said.items()}
    if given.get("delete_after_run") is False:
        options["delete_after_run"] = False
    if breaker is not None:
        options["breaker"] = None if breaker == NONE else _breaker(breaker, open_for, disable=disable)
    elif open_for is not None or disable:
        raise Problem("--open-for and --auto-disable belong to a breaker; give --breaker N, too")
    if text is not None:
        options["args"] = json_object(text, "--args")
    return options


def _breaker(failures: int, open_for: float | None, *, disable: bool) -> object:
    from laneway.core.records.breakers import Breaker

    return Breaker(failures, disable=disable) if open_for is None else Breaker(failures, open_for, disable)
