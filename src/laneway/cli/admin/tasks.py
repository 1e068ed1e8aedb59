"""`laneway tasks`: what an app can execute, what workers know, and what is paused or disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laneway.cli.shell.commands import Command, Group, awaited
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import Problem, say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import APP, MEMORY, file_of, load, read_store, store_option

if TYPE_CHECKING:
    from laneway.ports.gates import TaskState
    from laneway.scheduler import Scheduler


@click.group(
    "tasks",
    cls=Group,
    examples=(
        "laneway tasks list app:app",
        "laneway tasks list --store sqlite:///laneway.db",
        "laneway tasks pause summarize",
    ),
)
def tasks() -> None:
    """See what can be executed, and hold tasks in all processes: list, pause, resume, enable, disable, close."""


@tasks.command(
    "list",
    cls=Command,
    examples=(
        "laneway tasks list app:app",
        "laneway tasks list app:app --json",
        "laneway tasks list --store sqlite:///laneway.db",
    ),
)
@click.argument("app", envvar=APP, metavar="[APP]", required=False)
@json_option("an array of tasks")
@click.option("--store", metavar="URL", help="List what this store knows of tasks, instead of those of APP.")
@click.pass_context
def list_(context: click.Context, app: str | None, store: str | None, as_json: bool) -> None:
    """List the tasks of APP in the order they were registered, or those that a store knows.

    `kind` says where handlers are executed: async ones on the event loop, plain ones in threads, process ones in child
    processes. `transient` names the errors that get quick tries inside an attempt, `validate` what looks at results;
    they are shown if any task has them. A parameter with a `?` may be left out. If APP's store is there, `workers` says
    how many that are up know the task, `state` which ones are paused or disabled, and `breaker`, if any has one that is
    not closed, which are held back after failures in a row.

    With --store instead of APP: the tasks that workers know, that are paused or disabled, or that have runs set
    `aside`, because no worker that claimed them knew the task or because it is paused.
    """
    if store and context.get_parameter_source("app") is click.core.ParameterSource.COMMANDLINE:
        raise Problem("give APP or --store, not both: APP says where its store is")
    if store:
        _list_store(store, as_json=as_json)
    elif app:
        _list_app(app, as_json=as_json)
    else:
        raise Problem("which tasks? give APP, such as app:app, or --store URL", hint="try: laneway tasks list --help")


def _list_app(app: str, *, as_json: bool) -> None:
    from laneway.cli.admin import task_records
    from laneway.cli.shell.output import print_json

    scheduler = load(app)
    states = _states_beside(scheduler)
    records = [task_records.record(task, states) for task in scheduler.tasks]
    if as_json:
        print_json(records)
    elif records:
        task_records.show(records)
    else:
        say(f"{app} has no tasks; register functions with @app.task")


def _list_store(store: str, *, as_json: bool) -> None:
    from laneway.cli.admin import task_records
    from laneway.cli.shell.output import print_json

    records = [task_records.state_record(state) for state in awaited(_states(read_store(store)))]
    if as_json:
        print_json(records)
    elif records:
        task_records.show_states(records)
    else:
        say("no tasks: no worker is up, and none is paused or disabled")


def _states_beside(scheduler: Scheduler) -> dict[str, TaskState] | None:
    """Return what the app's store knows of tasks, or None if there is none yet: listing tasks must not make it."""
    from laneway.errors import StoreError

    path = file_of(scheduler.url)
    if scheduler.url.startswith(MEMORY) or (path is not None and not path.exists()):
        return None
    try:
        return {state.name: state for state in awaited(_states(scheduler))}
    except StoreError as error:
        say(f"what is paused or disabled cannot be told: {error}")
        return None


async def _states(scheduler: Scheduler) -> list[TaskState]:
    async with scheduler:
        return await scheduler.tasks.list()


@tasks.command(
    "close",
    cls=Command,
    examples=("laneway tasks close summarize", "laneway tasks close summarize --user ann"),
)
@name_argument("task")
@click.option(
    "--user", metavar="USER", help="The breaker of this user, where each has one; '' for runs without a user."
)
@json_option("the task")
@store_option
def close(name: str, user: str | None, store: str | None, as_json: bool) -> None:
    """Close the breaker of a task: what waits for it starts at once.

    A breaker holds a task back after so many failures in a row. What it counted is forgotten.
    """
    from laneway.cli.shell.output import print_json

    closed, doubt = awaited(_close(read_store(store), name, user))
    whose = "" if user is None else f" of user {user}" if user else " without a user"
    if as_json:
        print_json({"v": 1, "task": name, "user": user, "closed": closed})
    elif closed:
        click.echo(f"{name}{whose}  closed")
    else:
        say(f"task {name}{whose} has no breaker that is open")
    if doubt:
        say(doubt)


async def _close(scheduler: Scheduler, name: str, user: str | None) -> tuple[bool, str]:
    """Close it; tell whether there was anything to close, and if not, what is odd about the name."""
    from laneway.cli.shell.hints import unknown_task

    async with scheduler:
        states = [state for state in await scheduler.tasks.list() if state.name == name]
        await scheduler.tasks.close_breaker(name, user)
        closed = any(circuit.user == user and circuit.failures for state in states for circuit in state.circuits)
        return closed, "" if closed else await unknown_task(scheduler, name)


async def _doubt(scheduler: Scheduler, name: str) -> str | None:
    from laneway.errors import did_you_mean

    known = [state.name for state in await scheduler.tasks.list() if state.workers]
    if name in known:
        return None
    near = did_you_mean(name, known) or "; it holds for those to come"
    return f"no worker that is up knows task {name!r}{near}"


for command in (
    switch(
        "task",
        "pause",
        "Start nothing of these tasks, in any process: what comes is accepted and held, what runs goes on.",
        example="summarize",
        doubt=_doubt,
    ),
    switch("task", "resume", "Let paused tasks go on.", example="summarize"),
    switch("task", "enable", "Accept runs of disabled tasks again.", example="summarize"),
    switch(
        "task",
        "disable",
        "Refuse new runs of these tasks, in any process; what was accepted is kept and goes on.",
        example="summarize",
        doubt=_doubt,
    ),
):
    tasks.add_command(command)
