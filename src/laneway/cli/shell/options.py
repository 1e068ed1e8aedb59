"""Options that several commands share, and the parsers of their values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from laneway.cli.shell.errors import Problem

F = TypeVar("F", bound=Callable[..., Any])
AS_JSON = """write it as in --args '{"doc": "42"}'"""
NONE = "none"
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}

# Values of the fields of `SessionPolicy` that belong to a session
DROPS = ("old", "new")
WHILE_WAITING = ("cancel", "queue", "answer")


def filter_options(function: click.decorators.FC) -> click.decorators.FC:
    """Add `--state`, `--task`, `--lane`, `--user` and `--session`."""
    options = (
        click.option("--state", metavar="STATE", help="Only runs in this state: pending, running, succeeded, ..."),
        click.option("--task", metavar="NAME", help="Only runs of this task."),
        click.option("--lane", metavar="NAME", help="Only runs in this lane."),
        click.option("--user", metavar="KEY", help="Only runs of this user."),
        click.option("--session", metavar="KEY", help="Only runs of this session."),
    )
    for option in reversed(options):  # the last one applied is shown first
        function = option(function)
    return function


def json_option(what: str) -> Callable[[F], F]:
    """Return the `--json` option of a command that prints `what`."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


def concurrency_option(function: F) -> F:
    """Add `--concurrency`."""
    text = "Runs to execute at once.  [default: the setting of APP, or 50]"
    return click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help=text)(function)


def count(text: str) -> int:
    """Parse a whole number of 1 or more."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f"{text!r}; write a whole number, 1 or more")
    return int(text)


def count_or_none(text: str) -> int | str:
    """Parse a whole number of 1 or more, or `none` for no limit; None would mean that the option is not given."""
    if text == NONE:
        return NONE
    try:
        return count(text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message}, or none") from None


def seconds(text: str) -> float:
    """Parse a duration: seconds as a number, or with units as in 90s, 5m, 1h30m, 2d."""
    import re

    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise click.BadParameter(f"{text!r} is not a duration; write seconds, or units as in 90s, 5m, 1h30m, 2d")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def instant(text: str) -> datetime:
    """Parse an instant in ISO 8601; without a time zone it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not an instant; write it as 2031-05-01T09:30 (local time) or 2031-05-01T09:30Z"
        ) from None


def limit_option(what: str, default: int = 100, most: int = 10_000) -> Callable[[F], F]:
    """Return the `--limit` option of a command that lists `what`."""
    number = click.IntRange(1, most)
    return click.option(
        "--limit", type=number, default=default, show_default=True, metavar="N", help=f"At most N {what}."
    )


def json_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object of names and values; `what` names the source in errors."""
    import msgspec

    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Problem(f"{what} is not JSON: {error}", hint=AS_JSON) from None
    if not isinstance(found, dict):
        raise Problem(f"{what} must be a JSON object of names and values", hint=AS_JSON)
    return found
