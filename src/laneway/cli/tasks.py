"""`laneway tasks`: what an app can execute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.app import app_argument, load
from laneway.cli.commands import Command, Group, json_option
from laneway.cli.errors import say

if TYPE_CHECKING:
    from laneway.engine.tasks import Task

HEADS = ("name", "kind", "lane", "timeout", "attempts", "transient", "validate", "parameters")
OPTIONAL = ("transient", "validate")


@click.group("tasks", cls=Group, examples=("laneway tasks list app:app", "laneway tasks list app:app --json"))
def tasks() -> None:
    """See what an app can execute: list."""


@tasks.command("list", cls=Command, examples=("laneway tasks list app:app", "laneway tasks list app:app --json"))
@app_argument
@json_option("an array of tasks")
def list_(app: str, as_json: bool) -> None:
    """List the tasks of APP in the order they were registered.

    `kind` says where handlers are executed: async ones on the event loop, plain ones in threads, process ones in child
    processes. `transient` names the errors that get quick tries inside an attempt, `validate` what looks at results;
    they are shown if any task has them. A parameter with a `?` may be left out.
    """
    from laneway.cli import tables
    from laneway.cli.output import print_json

    records = [_record(task) for task in load(app).tasks]
    if as_json:
        print_json(records)
    elif records:
        shown = [name for name in HEADS if name not in OPTIONAL or any(record[name] for record in records)]
        rows = [_row(record) for record in records]
        tables.show(shown, [[row[name] for name in shown] for row in rows])
    else:
        say(f"{app} has no tasks; register functions with @app.task")


def _record(task: Task[..., Any]) -> dict[str, Any]:
    import msgspec

    from laneway.core.instants import SECOND

    policy, manner = task.policy, task.manner
    return {
        "v": 1,
        "name": task.name,
        "kind": "process" if manner.process else "async" if task.is_async else "plain",
        "lane": policy.lane,
        "timeout": None if policy.timeout is None else policy.timeout / SECOND,
        "retry": msgspec.to_builtins(policy.retry),
        "max_crashes": policy.max_crashes,
        "transient": [error.__name__ for error in manner.transient],
        "transient_tries": manner.tries,
        "transient_wait": manner.wait,
        "validate": None if manner.validate is None else _named(manner.validate),
        "parameters": _parameters(task),
    }


def _parameters(task: Task[..., Any]) -> list[dict[str, Any]]:
    import inspect

    given = inspect.signature(task.function).parameters
    return [
        {"name": name, "type": _type(type_), "required": given[name].default is inspect.Parameter.empty}
        for name, type_ in task.parameters.types.items()
    ]


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _type(type_: Any) -> str:
    import inspect

    return inspect.formatannotation(type_).removeprefix("typing.")


def _row(record: dict[str, Any]) -> dict[str, str]:
    from laneway.cli.phrases import span

    parameters = (
        f"{parameter['name']}{'' if parameter['required'] else '?'}"
        + ("" if parameter["type"] == "Any" else f": {parameter['type']}")
        for parameter in record["parameters"]
    )
    return {
        "name": record["name"],
        "kind": record["kind"],
        "lane": record["lane"],
        "timeout": "" if record["timeout"] is None else span(record["timeout"]),
        "attempts": str(record["retry"]["attempts"]),
        "transient": ",".join(record["transient"]),
        "validate": record["validate"] or "",
        "parameters": ", ".join(parameters),
    }
