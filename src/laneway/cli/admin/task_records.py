"""Tasks as records and as rows of a table: those of an app, and those that a store knows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.cli.shell import tables
from laneway.cli.shell.formats import span
from laneway.core.common.instants import SECOND
from laneway.core.records.breakers import Breaker, Phase
from laneway.ports.gates import TaskState

if TYPE_CHECKING:
    from laneway.engine.handlers.task import Task

HEADS = (
    "name",
    "kind",
    "lane",
    "timeout",
    "attempts",
    "transient",
    "validate",
    "state",
    "breaker",
    "workers",
    "parameters",
)
OPTIONAL = ("transient", "validate", "state", "breaker", "workers")
STATE_HEADS = ("name", "state", "breaker", "workers", "aside")


def record(task: Task[..., Any], states: Mapping[str, TaskState] | None) -> dict[str, Any]:
    """Return a task of an app, and how it stands among the `states` of its store, if there is one."""
    policy, call_options = task.policy, task.call_options
    return {
        "v": 1,
        "name": task.name,
        "kind": "process" if call_options.process else "async" if task.is_async else "plain",
        "lane": policy.lane,
        "timeout": None if policy.timeout is None else policy.timeout / SECOND,
        "retry": msgspec.to_builtins(policy.retry),
        "max_crashes": policy.max_crashes,
        "breaker": _breaker(policy.breaker),
        "transient": [error.__name__ for error in call_options.transient],
        "transient_tries": call_options.tries,
        "transient_wait": call_options.wait,
        "validate": None if call_options.validate is None else _named(call_options.validate),
        "parameters": _parameters(task),
        **_standing(task.name, states),
    }


def state_record(state: TaskState) -> dict[str, Any]:
    """Return what a store knows of a task."""
    return {"v": 1, **msgspec.to_builtins(state)}


def show(records: Sequence[dict[str, Any]]) -> None:
    """Print tasks of an app, without columns in which nothing would stand."""
    rows = [_row(record) for record in records]
    _table([name for name in HEADS if name not in OPTIONAL or any(row[name] for row in rows)], rows)


def show_states(records: Sequence[dict[str, Any]]) -> None:
    """Print what a store knows of tasks."""
    rows = [{**_state_row(record), "aside": str(record["aside"])} for record in records]
    _table([name for name in STATE_HEADS if name != "breaker" or any(row[name] for row in rows)], rows)


def _table(heads: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    tables.show(heads, [[row[name] for name in heads] for row in rows])


def _standing(name: str, states: Mapping[str, TaskState] | None) -> dict[str, Any]:
    if states is None:
        return {"paused": None, "disabled": None, "workers": None, "circuits": None}
    state = states.get(name) or TaskState(name=name)
    circuits = msgspec.to_builtins(state.circuits)
    return {"paused": state.paused, "disabled": state.disabled, "workers": state.workers, "circuits": circuits}


def _breaker(breaker: Breaker | None) -> dict[str, Any] | None:
    if breaker is None:
        return None
    seconds = breaker.length / SECOND
    return {"failures": breaker.failures, "open_for": seconds, "disable": breaker.disable, "per": str(breaker.per)}


def _parameters(task: Task[..., Any]) -> list[dict[str, Any]]:
    given = inspect.signature(task.function).parameters
    return [
        {"name": name, "type": _type(type_), "required": given[name].default is inspect.Parameter.empty}
        for name, type_ in task.parameters.types.items()
    ]


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _type(type_: Any) -> str:
    return inspect.formatannotation(type_).removeprefix("typing.")


def _row(record: Mapping[str, Any]) -> dict[str, str]:
    parameters = (
        f"{parameter['name']}{'' if parameter['required'] else '?'}"
        + ("" if parameter["type"] == "Any" else f": {parameter['type']}")
        for parameter in record["parameters"]
    )
    return {
        **_state_row(record),
        "kind": record["kind"],
        "lane": record["lane"],
        "timeout": "" if record["timeout"] is None else span(record["timeout"]),
        "attempts": str(record["retry"]["attempts"]),
        "transient": ",".join(record["transient"]),
        "validate": record["validate"] or "",
        "parameters": ", ".join(parameters),
    }


def _circuits(circuits: Sequence[Mapping[str, Any]]) -> str:
    """Say how those circuits of a task stand that are not closed."""
    if not circuits:
        return ""
    [first, *more] = circuits
    phase = str(first["phase"]).replace("_", " ")
    if first["user"] is None and not more:
        return phase
    return f"{phase} for {len(circuits)} user{'s' * bool(more)}"


def _state_row(record: Mapping[str, Any]) -> dict[str, str]:
    return {
        "name": record["name"],
        "state": ",".join(word for word in ("paused", "disabled") if record[word]),
        "breaker": _circuits([one for one in record["circuits"] or () if one["phase"] != Phase.CLOSED]),
        "workers": "" if record["workers"] is None else str(record["workers"]),
    }
