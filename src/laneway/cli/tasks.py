"""`laneway tasks`: what an app can execute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.app import app_argument, load
from laneway.cli.commands import Command, Group, json_option
from laneway.cli.errors import say

if TYPE_CHECKING:
    from laneway.engine.tasks import Task

HEADS = ("name", "kind", "lane", "timeout", "attempts", "parameters")


@click.group("tasks", cls=Group, examples=("laneway tasks list app:app", "laneway tasks list app:app --json"))
def tasks() -> None:
    """See what an app can execute: list."""


@tasks.command("list", cls=Command, examples=("laneway tasks list app:app", "laneway tasks list app:app --json"))
@app_argument
@json_option("an array of tasks")
def list_(app: str, as_json: bool) -> None:
    """List the tasks of APP in the order they were registered.

    `kind` says where handlers are executed: async ones on the event loop, plain ones in threads. A parameter with a `?`
    may be left out.
    """
    from laneway.cli import tables
    from laneway.cli.output import print_json

    records = [_record(task) for task in load(app).tasks]
    if as_json:
        print_json(records)
    elif records:
        tables.show(HEADS, [_row(record) for record in records])
    else:
        say(f"{app} has no tasks; register functions with @app.task")


def _record(task: Task[..., Any]) -> dict[str, Any]:
    import msgspec

    from laneway.core.instants import SECOND

    policy = task.policy
    return {
        "v": 1,
        "name": task.name,
        "kind": "async" if task.is_async else "plain",
        "lane": policy.lane,
        "timeout": None if policy.timeout is None else policy.timeout / SECOND,
        "retry": msgspec.to_builtins(policy.retry),
        "max_crashes": policy.max_crashes,
        "parameters": _parameters(task),
    }


def _parameters(task: Task[..., Any]) -> list[dict[str, Any]]:
    import inspect

    given = inspect.signature(task.function).parameters
    return [
        {"name": name, "type": _type(type_), "required": given[name].default is inspect.Parameter.empty}
        for name, type_ in task.parameters.types.items()
    ]


def _type(type_: Any) -> str:
    import inspect

    return inspect.formatannotation(type_).removeprefix("typing.")


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    from laneway.cli.phrases import span

    parameters = (
        f"{parameter['name']}{'' if parameter['required'] else '?'}"
        + ("" if parameter["type"] == "Any" else f": {parameter['type']}")
        for parameter in record["parameters"]
    )
    return (
        record["name"],
        record["kind"],
        record["lane"],
        "" if record["timeout"] is None else span(record["timeout"]),
        str(record["retry"]["attempts"]),
        ", ".join(parameters),
    )
