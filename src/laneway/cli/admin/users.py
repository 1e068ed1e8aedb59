"""`laneway users`: who has how much in which lane, and caps of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.commands import Command, Group, awaited
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import FINE, say
from laneway.cli.shell.options import NONE, count_or_none, json_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.ports.users import UserState
    from laneway.scheduler import Scheduler

HEADS = ("user", "lane", "active", "waiting", "cap", "by", "state")


@click.group("users", cls=Group, examples=("laneway users list", "laneway users set ann --lane main --cap 5"))
def users() -> None:
    """See how users stand, and hold or cap them: list, show, set, pause, resume."""


@users.command(
    "list",
    cls=Command,
    examples=("laneway users list", "laneway users list --limit 500 --after ann main", "laneway users list --json"),
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N", help="At most N lines."
)
@click.option("--after", nargs=2, default=("", ""), metavar="USER LANE", help="Go on from here: behind USER in LANE.")
@json_option("an array of users in lanes")
@store_option
def list_(limit: int, after: tuple[str, str], store: str | None, as_json: bool) -> None:
    """List users in lanes, by name: those who have runs there, or of whom something is set.

    `active` runs are running, `waiting` ones wait for a turn or at the cap, which is `set` for that user or the
    `lane`'s.
    """

    async def read() -> list[dict[str, Any]]:
        async with read_store(store) as scheduler:
            return await _records(scheduler, await scheduler.users.list(limit=limit + 1, after=after))

    records = awaited(read())
    _print(records[:limit], "no users", as_json=as_json)
    if len(records) > limit:
        last = records[limit - 1]
        say(f"there are more; go on with --after {last['user']!r} {last['lane']!r}")


@users.command("show", cls=Command, examples=("laneway users show ann", "laneway users show ann --json"))
@name_argument("user")
@json_option("an array of the user's lanes")
@store_option
def show(name: str, store: str | None, as_json: bool) -> None:
    """Show how a user stands in each lane where there is something to say."""

    async def read() -> list[dict[str, Any]]:
        async with read_store(store) as scheduler:
            return await _records(scheduler, await scheduler.users.get(name))

    nothing = f"user {name!r} has no runs that wait or run, and nothing is set"
    _print(awaited(read()), nothing, as_json=as_json)


@users.command(
    "set",
    cls=Command,
    examples=("laneway users set ann --cap 5", "laneway users set ann --lane background --cap none"),
)
@name_argument("user")
@click.option("--lane", default="main", show_default=True, metavar="NAME", help="The lane that it holds in.")
@click.option(
    "--cap",
    type=count_or_none,
    required=True,
    metavar="N|none",
    help="Runs of the user at once; none: as the lane says.",
)
@json_option("the cap that was and is set")
@store_option
def set_(name: str, lane: str, cap: int | str, as_json: bool, store: str | None) -> int:
    """Set how many runs of a user may be active in a lane, and say what it was and what it is.

    A raised cap takes effect at once; a lowered one stops nothing that runs.
    """
    from laneway.cli.shell.formats import change
    from laneway.cli.shell.output import print_json

    async def changed() -> tuple[int | None, int | None]:
        async with read_store(store) as scheduler:
            was = await _cap(scheduler, name, lane)
            await scheduler.users.set(name, lane=lane, cap=None if cap == NONE else int(cap))
            return was, await _cap(scheduler, name, lane)

    was, now = awaited(changed())
    if as_json:
        print_json({"v": 1, "user": name, "lane": lane, "was": {"cap": was}, "is": {"cap": now}})
    else:
        click.echo(f"{name}  lane {lane}: {change({'cap': was}, {'cap': now})}")
    return FINE


for command in (
    switch(
        "user",
        "pause",
        "Start nothing of these users, in any lane: what comes is accepted and held, what runs goes on.",
        example="ann",
    ),
    switch("user", "resume", "Let paused users go on.", example="ann"),
):
    users.add_command(command)


async def _cap(scheduler: Scheduler, user: str, lane: str) -> int | None:
    return next((state.cap for state in await scheduler.users.get(user) if state.lane == lane), None)


async def _records(scheduler: Scheduler, found: Sequence[UserState]) -> list[dict[str, Any]]:
    import msgspec

    caps = {state.lane.name: state.lane.per_user for state in await scheduler.lanes.list()}
    return [{"v": 1, **msgspec.to_builtins(state), "per_user": caps.get(state.lane)} for state in found]


def _print(records: Sequence[dict[str, Any]], nothing: str, *, as_json: bool) -> None:
    from laneway.cli.shell import tables
    from laneway.cli.shell.output import print_json

    if as_json:
        print_json(records)
    elif records:
        tables.show(HEADS, [_row(record) for record in records])
    else:
        say(nothing)


def _row(record: dict[str, Any]) -> list[str]:
    own, lanes = record["cap"], record["per_user"]
    cap, by = (own, "set") if own is not None else (lanes, "lane" if lanes is not None else "")
    state = "paused" if record["paused"] else "open"
    values = {**record, "cap": "" if cap is None else cap, "by": by, "state": state}
    return [str(values[name]) for name in HEADS]
