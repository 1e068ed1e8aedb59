"""`laneway lanes`: how full they are, and their limits, for all processes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.commands import Command, Group, awaited
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import FINE, NOT_FOUND, Problem
from laneway.cli.shell.options import NONE, count, count_or_none, json_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.core.records.policy import Lane
    from laneway.ports.lanes import LaneState
    from laneway.scheduler import Scheduler

WHEN_FULL = ("wait", "refuse", "drop_old")
OPTIONAL = ("per_user", "worker_limit", "max_pending", "when_full")
HEADS = ("name", "limit", *OPTIONAL, "active", "ready", "pending", "state", "by")


@click.group(
    "lanes", cls=Group, examples=("laneway lanes list", "laneway lanes set main --limit 40", "laneway lanes pause main")
)
def lanes() -> None:
    """See and change lanes, for all processes at once: list, show, set, unset, pause, resume."""


@lanes.command("list", cls=Command, examples=("laneway lanes list", "laneway lanes list --json"))
@json_option("an array of lanes")
@store_option
def list_(store: str | None, as_json: bool) -> None:
    """List the lanes by name.

    `active` runs are running, `ready` ones are startable, `pending` is all that waits for whatever reason. `by` says
    whether its limits are `declared` (in code, laneway.toml or the environment) or were `set` by an operator, which
    wins. Limits that no lane has are left out.
    """
    from laneway.cli.shell import tables
    from laneway.cli.shell.output import print_json

    async def read() -> list[LaneState]:
        async with read_store(store) as scheduler:
            return await scheduler.lanes.list()

    records = [_record(state) for state in awaited(read())]
    if as_json:
        print_json(records)
        return
    rows = [_row(record) for record in records]
    shown = [name for name in HEADS if name not in OPTIONAL or any(row[name] for row in rows)]
    tables.show(shown, [[row[name] for name in shown] for row in rows])


@lanes.command("show", cls=Command, examples=("laneway lanes show main", "laneway lanes show main --json"))
@name_argument("lane")
@json_option("the lane")
@store_option
def show(name: str, store: str | None, as_json: bool) -> None:
    """Show everything about a lane: limits, how full it is, and how many were merged, dropped or refused."""
    from laneway.cli.shell import facts
    from laneway.cli.shell.output import print_json

    async def read() -> LaneState:
        async with read_store(store) as scheduler:
            return await scheduler.lanes.get(name)

    state = awaited(read())
    if as_json:
        print_json(_record(state))
    else:
        facts.show(f"{name}  {'paused' if state.paused else 'open'}", _facts(state))


@lanes.command(
    "set",
    cls=Command,
    examples=(
        "laneway lanes set main --limit 40 --per-user 4",
        "laneway lanes set foreground --per-user none",
        "laneway lanes set intake --create --limit 5 --max-pending 1000 --when-full refuse",
    ),
)
@name_argument("lane")
@click.option("--limit", type=count, metavar="N", help="Runs that are running at once.")
@click.option("--per-user", type=count_or_none, metavar="N|none", help="Of them, those of one user.")
@click.option("--worker-limit", type=count_or_none, metavar="N|none", help="Of them, those of one worker.")
@click.option(
    "--max-pending", type=count_or_none, metavar="N|none", help="Runs that may be pending when one is submitted."
)
@click.option("--when-full", type=click.Choice(WHEN_FULL), help="What a submission does when so many are pending.")
@click.option("--create", is_flag=True, help="Make the lane if there is none of that name.")
@json_option("what it was and what it is")
@store_option
def set_(name: str, create: bool, as_json: bool, store: str | None, **given: Any) -> int:
    """Change a lane's limits, and say what they were and what they are.

    What is not given stays as it is. All of the lane holds from now on, whatever code, laneway.toml and the environment
    declare, until `laneway lanes unset`. A higher limit takes effect at once; a lower one stops nothing that runs.
    """
    wanted = {field: value for field, value in given.items() if value is not None}
    if not wanted and not create:
        raise Problem("what shall it be? give --limit, --per-user, --worker-limit, --max-pending or --when-full")
    fields = {field: None if value == NONE else value for field, value in wanted.items()}
    return awaited(_set(read_store(store), name, fields, create=create, as_json=as_json))


async def _set(scheduler: Scheduler, name: str, fields: dict[str, Any], *, create: bool, as_json: bool) -> int:
    import msgspec

    from laneway.core.records.policy import Lane
    from laneway.errors import UnknownLane

    async with scheduler:
        try:
            was = (await scheduler.lanes.get(name)).lane
        except UnknownLane as error:
            if not create:
                raise Problem(str(error), hint="--create makes a lane of that name", code=NOT_FOUND) from None
            was = None
        await scheduler.lanes.set(msgspec.structs.replace(was or Lane(name), **fields))
        return _tell(was, (await scheduler.lanes.get(name)).lane, as_json=as_json)


@lanes.command("unset", cls=Command, examples=("laneway lanes unset main",))
@name_argument("lane")
@json_option("what it was and what it is")
@store_option
def unset(name: str, as_json: bool, store: str | None) -> int:
    """Let the limits that code, laneway.toml and the environment declare hold again."""

    async def changed() -> int:
        async with read_store(store) as scheduler:
            was = (await scheduler.lanes.get(name)).lane
            await scheduler.lanes.unset(name)
            return _tell(was, (await scheduler.lanes.get(name)).lane, as_json=as_json)

    return awaited(changed())


for command in (
    switch(
        "lane",
        "pause",
        "Start nothing of these lanes: what comes is accepted and held, what runs goes on.",
        example="background",
    ),
    switch("lane", "resume", "Let paused lanes go on.", example="background"),
):
    lanes.add_command(command)


def _tell(was: Lane | None, now: Lane, *, as_json: bool) -> int:
    from laneway.cli.shell.formats import change
    from laneway.cli.shell.output import print_json

    old, new = None if was is None else _limits(was), _limits(now)
    if as_json:
        print_json({"v": 1, "lane": now.name, "was": old, "is": new})
    else:
        click.echo(f"{now.name}  {change(old, new)}")
    return FINE


def _limits(lane: Lane) -> dict[str, Any]:
    import msgspec

    limits: dict[str, Any] = msgspec.to_builtins(lane)
    del limits["name"]
    return limits


def _record(state: LaneState) -> dict[str, Any]:
    return {
        "v": 1,
        "name": state.lane.name,
        **_limits(state.lane),
        "active": state.active,
        "ready": state.ready,
        "pending": state.pending,
        "paused": state.paused,
        "by": "set" if state.ruled else "declared",
        "declared": None if state.declared is None else _limits(state.declared),
        "counts": state.counts,
    }


def _row(record: dict[str, Any]) -> dict[str, str]:
    state = "paused" if record["paused"] else "open"
    when_full = record["when_full"] if record["max_pending"] else None  # without a bound it says nothing
    values = {**record, "when_full": when_full, "state": state}
    return {name: "" if values[name] is None else str(values[name]) for name in HEADS}


def _facts(state: LaneState) -> list[tuple[str, str]]:
    lane, record = state.lane, _record(state)
    declared = "" if state.declared in (None, lane) else f"; declared: {_said(record['declared'])}"
    return [
        ("limits", f"{_said(_limits(lane))} ({record['by']}{declared})"),
        ("active", f"{state.active} of {lane.limit}"),
        ("ready", str(state.ready)),
        ("pending", str(state.pending) + (f" of {lane.max_pending}" if lane.max_pending else "")),
        *((what.partition(" ")[0], _counted(what, count)) for what, count in state.counts.items()),
    ]


def _counted(what: str, count: int) -> str:
    why = what.partition(" ")[2]
    return f"{count} ({why})" if why else str(count)


def _said(limits: dict[str, Any]) -> str:
    bounded = limits["max_pending"] is not None
    shown = {name: value for name, value in limits.items() if value is not None and (bounded or name != "when_full")}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
