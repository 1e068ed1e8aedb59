"""How a command line says what follows a run, and what goes along with it."""

from __future__ import annotations

from typing import Any

import click


def follow_up(text: str) -> tuple[str, dict[str, Any]]:
    """Read `TASK`, or `TASK={"name": "value"}` with its arguments as a JSON object."""
    import msgspec

    task, equals, given = text.partition("=")
    if not task:
        raise click.BadParameter(f"{text!r} names no task; write TASK, or TASK={{...}} with its arguments")
    try:
        args = msgspec.json.decode(given) if equals else {}
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"the arguments of {task!r} are not JSON: {error}") from None
    if not isinstance(args, dict):
        raise click.BadParameter(f"the arguments of {task!r} must be a JSON object of names and values")
    return task, args


def name_and_text(text: str) -> tuple[str, str]:
    """Read `NAME=TEXT`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r}; write name=text")
    return name, value
