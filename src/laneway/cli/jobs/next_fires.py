"""The next fires of a schedule, with warnings about changes of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.view import Column, View

if TYPE_CHECKING:
    from laneway.core.schedules.preview import Preview


def _record(fire: Preview) -> dict[str, Any]:
    at, local, note = fire
    return {
        "at": at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "local": local.isoformat(),
        "note": {"kind": note.kind, "text": note.text} if note else None,
    }


NEXT_FIRE: View[Preview] = View(
    Column("local", lambda fire: f"{fire.local:%a %Y-%m-%d %H:%M:%S}"),
    Column("zone", lambda fire: f"{fire.local:%Z}"),
    Column("utc", lambda fire: f"{fire.at:%Y-%m-%dT%H:%M:%SZ}"),
    Column("clock", lambda fire: fire.note.kind if fire.note else None),
    json=_record,
)


def show(fires: Sequence[Preview]) -> None:
    """Print fires as a table, and the warnings below it."""
    NEXT_FIRE.print_table(fires)
    for said in filter(None, map(warning, fires)):
        click.echo(said)


def warning(fire: Preview) -> str:
    """Return the warning about a fire, or an empty text."""
    return f"{fire.note.kind} on {fire.local:%Y-%m-%d}: {fire.note.text}" if fire.note else ""
