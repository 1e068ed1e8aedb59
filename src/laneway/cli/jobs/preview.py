"""`laneway preview`: when a schedule fires. It needs no store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from laneway.cli.jobs import next_fires
from laneway.cli.jobs.next_fires import NEXT_FIRE
from laneway.cli.shell.commands import Command
from laneway.cli.shell.errors import FINE, Problem, say
from laneway.cli.shell.options import json_option

if TYPE_CHECKING:
    from laneway.core.schedules import Schedule
    from laneway.core.schedules.preview import Preview

MOST = 1000


def zones(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the time zones whose names begin with the text."""
    from zoneinfo import available_timezones

    return [CompletionItem(name) for name in sorted(available_timezones()) if name.startswith(begun)]


@click.command(
    "preview",
    cls=Command,
    examples=(
        'laneway preview "0 9 * * 1-5" --tz Europe/Berlin -n 10',
        'laneway preview "daily 02:30" --tz America/New_York --after 2027-03-13',
        "laneway preview every 30m",
        "laneway preview weekly mon,fri 09:00 --tz Asia/Tokyo",
        "laneway preview monthly last fri 18:00 --json",
        "laneway preview at 2126-12-01T09:00",
    ),
)
@click.argument("schedule", nargs=-1, required=True)
@click.option("--tz", default="UTC", show_default=True, metavar="ZONE", shell_complete=zones, help="The time zone.")
@click.option(
    "-n", "count", type=click.IntRange(1, MOST), default=10, show_default=True, metavar="N", help="How many fires."
)
@click.option(
    "--after", metavar="INSTANT", help="Only fires after this instant, such as 2027-03-13T12:00.  [default: now]"
)
@json_option("the fires")
def preview(schedule: tuple[str, ...], tz: str, count: int, after: str | None, as_json: bool) -> int:
    """Print when SCHEDULE fires next.

    Days on which the clock changes are marked.

    SCHEDULE is a cron rule (in quotes; five fields, or six with seconds first), a short form such as @daily, or words:
    every PERIOD, daily TIME, weekly DAYS TIME, monthly DAY TIME, at INSTANT.
    """
    from laneway.core.schedules.at_every import Every
    from laneway.core.schedules.calendar.zones import zone
    from laneway.core.schedules.preview import preview as previewed

    zone(tz)
    start = (_instant(after, tz) if after else datetime.now(UTC)).replace(microsecond=0)
    rule = _read(schedule, tz)
    if isinstance(rule, Every):
        rule = rule.anchored(start)
    fires = previewed(rule, start, tz, count)
    if not fires:
        raise Problem(
            f"it never fires: {rule.describe()} is not after {start.isoformat()}", hint="choose a later instant"
        )
    if as_json:
        _print_json(rule, tz, fires)
    else:
        say(rule.describe())
        next_fires.show(fires)
        if len(fires) < count:
            say("and never again")
    return FINE


def _read(words: tuple[str, ...], tz: str) -> Schedule:
    from laneway.core.schedules.text import read
    from laneway.errors import BadSetting

    try:
        return read(" ".join(words), tz)
    except BadSetting as error:
        if len(words) < 5:
            raise
        raise Problem(
            str(error), hint='put a cron rule in quotes, or the shell replaces * by the names of files: "0 9 * * *"'
        ) from None


def _instant(text: str, tz: str) -> datetime:
    from laneway.core.schedules.at_every import At

    try:
        return At(datetime.fromisoformat(text), tz).resolved()
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not an instant; write it as 2027-03-13T12:00 (in the time zone of --tz) or 2027-03-13T12:00Z"
        ) from None


def _print_json(rule: Schedule, tz: str, fires: list[Preview]) -> None:
    from laneway.cli.shell.output import print_json
    from laneway.core.schedules.form import to_dict

    rows = [NEXT_FIRE.record(fire) for fire in fires]
    print_json({"v": 1, "schedule": to_dict(rule), "words": rule.describe(), "tz": tz, "fires": rows})
