"""`laneway tasks`: show the tasks of an app or a store; pause and disable them, close their breakers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from laneway.cli.shell.commands import Group
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import Problem, say
from laneway.cli.shell.formats import span
from laneway.cli.shell.hints import unknown_task
from laneway.cli.shell.options import json_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import APP, MEMORY, call, file_of, load, read_store, store_option
from laneway.cli.shell.view import Column, View

if TYPE_CHECKING:
    from laneway.core.records.breakers import Breaker
    from laneway.engine.handlers.task import Task
    from laneway.ports.gates import TaskState
    from laneway.scheduler import Scheduler


class AppTask(NamedTuple):
    """A task of an app, and its state in the app's store; None if there is no store yet."""

    task: Task[..., Any]
    state: TaskState | None


def _record(found: AppTask) -> dict[str, Any]:
    import msgspec

    from laneway.core.common.instants import SECOND

    task, policy, options = found.task, found.task.policy, found.task.call_options
    standing = dict.fromkeys(("paused", "disabled", "workers", "circuits"))
    if found.state is not None:
        standing = {name: msgspec.to_builtins(getattr(found.state, name)) for name in standing}
    return {
        "v": 1,
        "name": task.name,
        "kind": _kind(task),
        "lane": policy.lane,
        "timeout": None if policy.timeout is None else policy.timeout / SECOND,
        "retry": msgspec.to_builtins(policy.retry),
        "max_crashes": policy.max_crashes,
        "breaker": _breaker(policy.breaker),
        "transient": [error.__name__ for error in options.transient],
        "transient_tries": options.tries,
        "transient_wait": options.wait,
        "validate": _validate(task),
        "parameters": _parameters(task),
        **standing,
    }


def _state_record(state: TaskState) -> dict[str, Any]:
    import msgspec

    return {"v": 1, **msgspec.to_builtins(state)}


def _kind(task: Task[..., Any]) -> str:
    return "process" if task.call_options.process else "async" if task.is_async else "plain"


def _timeout(task: Task[..., Any]) -> str:
    from laneway.core.common.instants import SECOND

    return "" if task.policy.timeout is None else span(task.policy.timeout / SECOND)


def _breaker(breaker: Breaker | None) -> dict[str, Any] | None:
    from laneway.core.common.instants import SECOND

    if breaker is None:
        return None
    seconds = breaker.length / SECOND
    return {"failures": breaker.failures, "open_for": seconds, "disable": breaker.disable, "per": str(breaker.per)}


def _validate(task: Task[..., Any]) -> str | None:
    function = task.call_options.validate
    return None if function is None else str(getattr(function, "__qualname__", type(function).__name__))


def _parameters(task: Task[..., Any]) -> list[dict[str, Any]]:
    import inspect

    given = inspect.signature(task.function).parameters
    return [
        {
            "name": name,
            "type": inspect.formatannotation(type_).removeprefix("typing."),
            "required": given[name].default is inspect.Parameter.empty,
        }
        for name, type_ in task.parameters.types.items()
    ]


def _signature(task: Task[..., Any]) -> str:
    return ", ".join(
        one["name"] + ("" if one["required"] else "?") + ("" if one["type"] == "Any" else f": {one['type']}")
        for one in _parameters(task)
    )


def _state(state: TaskState | None) -> str:
    return "" if state is None else ",".join(word for word in ("paused", "disabled") if getattr(state, word))


def _circuits(state: TaskState | None) -> str:
    """Return the phase of the circuits that are not closed, and how many users they concern."""
    circuits = [] if state is None else [one for one in state.circuits if one.phase != "closed"]
    if not circuits:
        return ""
    phase = circuits[0].phase.value.replace("_", " ")
    if circuits[0].user is None and len(circuits) == 1:
        return phase
    return f"{phase} for {len(circuits)} user{'s' * (len(circuits) != 1)}"


# The tasks of an app
APP_TASK: View[AppTask] = View(
    Column("name", lambda found: found.task.name),
    Column("kind", lambda found: _kind(found.task)),
    Column("lane", lambda found: found.task.policy.lane),
    Column("timeout", lambda found: _timeout(found.task)),
    Column("attempts", lambda found: found.task.policy.retry.attempts),
    Column("transient", lambda found: ",".join(e.__name__ for e in found.task.call_options.transient), optional=True),
    Column("validate", lambda found: _validate(found.task), optional=True),
    Column("state", lambda found: _state(found.state), optional=True),
    Column("breaker", lambda found: _circuits(found.state), optional=True),
    Column("workers", lambda found: None if found.state is None else found.state.workers, optional=True),
    Column("parameters", lambda found: _signature(found.task)),
    json=_record,
)
# The tasks that a store knows
TASK: View[TaskState] = View(
    Column("name", lambda state: state.name),
    Column("state", _state),
    Column("breaker", _circuits, optional=True),
    Column("workers", lambda state: state.workers),
    Column("aside", lambda state: state.aside),
    json=_state_record,
)


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
    """Show and control tasks, for all processes: list, pause, resume, enable, disable, close."""


@tasks.command(
    "list",
    examples=(
        "laneway tasks list app:app",
        "laneway tasks list app:app --json",
        "laneway tasks list --store sqlite:///laneway.db",
    ),
)
@click.argument("app", envvar=APP, metavar="[APP]", required=False)
@json_option("an array of tasks")
@click.option("--store", metavar="URL", help="List the tasks that this store knows, instead of those of APP.")
@click.pass_context
def list_(context: click.Context, app: str | None, store: str | None, as_json: bool) -> None:
    """List the tasks of APP, or those that a store knows.

    `kind` says where handlers run: `async` on the event loop, `plain` in threads, `process` in child processes.
    `transient` names the errors that are retried at once inside an attempt, `validate` the function that checks
    results. A parameter with a `?` is optional. If the store of APP exists, `workers` counts the workers that know the
    task, `state` says whether it is paused or disabled, and `breaker` whether it is held back after failures in a row.
    Columns without a value are not shown.

    With --store instead of APP: the tasks that workers know, that are paused or disabled, or that have runs set
    `aside` because no worker knew the task or because it is paused.
    """
    if store and context.get_parameter_source("app") is click.core.ParameterSource.COMMANDLINE:
        raise Problem("give APP or --store, not both: APP names its own store")
    if store:
        none = "no tasks: no worker is up, and none is paused or disabled"
        TASK.show_all(call(read_store(store), lambda app: app.tasks.list()), as_json=as_json, none=none)
    elif app:
        none = f"{app} has no tasks; register functions with @app.task"
        APP_TASK.show_all(_tasks_of(load(app)), as_json=as_json, none=none)
    else:
        raise Problem("give APP, such as app:app, or --store URL", hint="try: laneway tasks list --help")


def _tasks_of(scheduler: Scheduler) -> list[AppTask]:
    from laneway.ports.gates import TaskState

    states = _states_beside(scheduler)
    return [
        AppTask(task, None if states is None else states.get(task.name) or TaskState(name=task.name))
        for task in scheduler.tasks
    ]


def _states_beside(scheduler: Scheduler) -> dict[str, TaskState] | None:
    """Read the states of tasks from the app's store, or return None if it does not exist: a list must not create it."""
    from laneway.errors import StoreError

    path = file_of(scheduler.url)
    if scheduler.url.startswith(MEMORY) or (path is not None and not path.exists()):
        return None
    try:
        return {state.name: state for state in call(scheduler, lambda app: app.tasks.list())}
    except StoreError as error:
        say(f"the states of tasks cannot be read: {error}")
        return None


@tasks.command(
    "close",
    examples=("laneway tasks close summarize", "laneway tasks close summarize --user ann"),
)
@name_argument("task")
@click.option(
    "--user", metavar="USER", help="The breaker of this user, if each user has one; '' for runs without a user."
)
@json_option("the task")
@store_option
def close(name: str, user: str | None, store: str | None, as_json: bool) -> None:
    """Close the breaker of a task: its waiting runs start at once.

    A breaker holds a task back after a number of failures in a row. Closing it resets that number.
    """
    from laneway.cli.shell.output import print_json

    async def closing(app: Scheduler) -> tuple[bool, str]:
        states = [state for state in await app.tasks.list() if state.name == name]
        await app.tasks.close_breaker(name, user)
        closed = any(circuit.user == user and circuit.failures for state in states for circuit in state.circuits)
        return closed, "" if closed else await unknown_task(app, name)

    closed, warning = call(read_store(store), closing)
    whose = "" if user is None else f" of user {user}" if user else " without a user"
    if as_json:
        print_json({"v": 1, "task": name, "user": user, "closed": closed})
    elif closed:
        click.echo(f"{name}{whose}  closed")
    else:
        say(f"task {name}{whose} has no breaker that is open")
    if warning:
        say(warning)


async def _warning(scheduler: Scheduler, name: str) -> str:
    return await unknown_task(scheduler, name, then="it holds for those to come", if_none_is_up=True)


for command in (
    switch(
        "task",
        "pause",
        "Start no runs of these tasks, in any process.\n\nNew runs are accepted and held; running ones go on.",
        example="summarize",
        warning=_warning,
    ),
    switch("task", "resume", "Resume paused tasks.", example="summarize"),
    switch("task", "enable", "Accept new runs of disabled tasks again.", example="summarize"),
    switch(
        "task",
        "disable",
        "Refuse new runs of these tasks, in any process.\n\nRuns that were accepted before are kept and go on.",
        example="summarize",
        warning=_warning,
    ),
):
    tasks.add_command(command)
