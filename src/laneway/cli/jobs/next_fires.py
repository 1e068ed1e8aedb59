"""Fires to come, with what is strange about them because a clock is changed: a table, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from laneway.core.schedules.preview import Preview

HEADS = ("local", "zone", "utc", "clock")


def record(fire: Preview) -> dict[str, Any]:
    """Return a fire for JSON."""
    at, local, note = fire
    return {
        "at": at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "local": local.isoformat(),
        "note": {"kind": note.kind, "text": note.text} if note else None,
    }


def cells(fire: Preview) -> tuple[str, str, str, str]:
    """Return a fire as cells under `HEADS`."""
    at, local, note = fire
    shown = (local.strftime("%a %Y-%m-%d %H:%M:%S"), local.strftime("%Z"), f"{at:%Y-%m-%dT%H:%M:%SZ}")
    return (*shown, note.kind if note else "")


def warning(fire: Preview) -> str:
    """Say what is strange about a fire; nothing if nothing is."""
    _, local, note = fire
    return f"{note.kind} on {local:%Y-%m-%d}: {note.text}" if note else ""


def show(fires: Sequence[Preview]) -> None:
    """Print fires as a table, and below it what is strange."""
    from laneway.cli.shell.tables import show as table

    table(HEADS, [cells(fire) for fire in fires])
    for said in filter(None, map(warning, fires)):
        click.echo(said)
