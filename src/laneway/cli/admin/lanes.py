"""`laneway lanes`: how full they are, and their limits, for all processes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.commands import Group
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import NOT_FOUND, Problem
from laneway.cli.shell.options import NONE, count, count_or_none, json_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import call, read_store, store_option
from laneway.cli.shell.view import Column, Fact, View, show_change

if TYPE_CHECKING:
    from laneway.core.records.policy import Lane
    from laneway.ports.lanes import LaneState
    from laneway.scheduler import Scheduler

WHEN_FULL = ("wait", "refuse", "drop_old")


def _record(state: LaneState) -> dict[str, Any]:
    return {
        "v": 1,
        "name": state.lane.name,
        **_limits(state.lane),
        "active": state.active,
        "ready": state.ready,
        "pending": state.pending,
        "paused": state.paused,
        "by": _by(state),
        "declared": None if state.declared is None else _limits(state.declared),
        "counts": state.counts,
    }


def _facts(state: LaneState) -> list[Fact]:
    lane, declared = state.lane, ""
    if state.declared not in (None, lane):
        declared = f"; declared: {_bounds(state.declared)}"
    return [
        ("limits", f"{_bounds(lane)} ({_by(state)}{declared})"),
        ("active", f"{state.active} of {lane.limit}"),
        ("ready", str(state.ready)),
        ("pending", str(state.pending) + (f" of {lane.max_pending}" if lane.max_pending else "")),
        *(_count(what, count) for what, count in state.counts.items()),
    ]


def _count(what: str, count: int) -> Fact:
    outcome, _, reason = what.partition(" ")
    return outcome, f"{count} ({reason})" if reason else str(count)


def _limits(lane: Lane) -> dict[str, Any]:
    import msgspec

    limits: dict[str, Any] = msgspec.to_builtins(lane)
    del limits["name"]
    return limits


def _bounds(lane: Lane) -> str:
    limits = {name: value for name, value in _limits(lane).items() if value is not None}
    if lane.max_pending is None:
        del limits["when_full"]  # without a bound it says nothing
    return ", ".join(f"{name} {value}" for name, value in limits.items())


def _state(state: LaneState) -> str:
    return "paused" if state.paused else "open"


def _by(state: LaneState) -> str:
    return "set" if state.ruled else "declared"


LANE: View[LaneState] = View(
    Column("name", lambda state: state.lane.name),
    Column("limit", lambda state: state.lane.limit),
    Column("per_user", lambda state: state.lane.per_user, optional=True),
    Column("worker_limit", lambda state: state.lane.worker_limit, optional=True),
    Column("max_pending", lambda state: state.lane.max_pending, optional=True),
    Column("when_full", lambda state: state.lane.when_full if state.lane.max_pending else None, optional=True),
    Column("active", lambda state: state.active),
    Column("ready", lambda state: state.ready),
    Column("pending", lambda state: state.pending),
    Column("state", _state),
    Column("by", _by),
    json=_record,
    title=lambda state: f"{state.lane.name}  {_state(state)}",
    facts=_facts,
)


@click.group(
    "lanes", cls=Group, examples=("laneway lanes list", "laneway lanes set main --limit 40", "laneway lanes pause main")
)
def lanes() -> None:
    """See and change lanes, for all processes at once: list, show, set, unset, pause, resume."""


@lanes.command("list", examples=("laneway lanes list", "laneway lanes list --json"))
@json_option("an array of lanes")
@store_option
def list_(store: str | None, as_json: bool) -> None:
    """List the lanes by name.

    `active` runs are running, `ready` ones are startable, `pending` is all that waits for whatever reason. `by` says
    whether its limits are `declared` (in code, laneway.toml or the environment) or were `set` by an operator, which
    wins. Limits that no lane has are left out.
    """
    LANE.show_all(call(read_store(store), lambda app: app.lanes.list()), as_json=as_json)


@lanes.command("show", examples=("laneway lanes show main", "laneway lanes show main --json"))
@name_argument("lane")
@json_option("the lane")
@store_option
def show(name: str, store: str | None, as_json: bool) -> None:
    """Show everything about a lane: limits, how full it is, and how many were merged, dropped or refused."""
    LANE.show(call(read_store(store), lambda app: app.lanes.get(name)), as_json=as_json)


@lanes.command(
    "set",
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
def set_(name: str, create: bool, as_json: bool, store: str | None, **given: Any) -> None:
    """Change a lane's limits, and say what they were and what they are.

    What is not given stays as it is. All of the lane holds from now on, whatever code, laneway.toml and the environment
    declare, until `laneway lanes unset`. A higher limit takes effect at once; a lower one stops nothing that runs.
    """
    wanted = {field: value for field, value in given.items() if value is not None}
    if not wanted and not create:
        raise Problem("what shall it be? give --limit, --per-user, --worker-limit, --max-pending or --when-full")
    fields = {field: None if value == NONE else value for field, value in wanted.items()}

    async def changed(app: Scheduler) -> tuple[Lane | None, Lane]:
        import msgspec

        from laneway.core.records.policy import Lane
        from laneway.errors import UnknownLane

        try:
            was = (await app.lanes.get(name)).lane
        except UnknownLane as error:
            if not create:
                raise Problem(str(error), hint="--create makes a lane of that name", code=NOT_FOUND) from None
            was = None
        await app.lanes.set(msgspec.structs.replace(was or Lane(name), **fields))
        return was, (await app.lanes.get(name)).lane

    _show_change(*call(read_store(store), changed), as_json=as_json)


@lanes.command("unset", examples=("laneway lanes unset main",))
@name_argument("lane")
@json_option("what it was and what it is")
@store_option
def unset(name: str, as_json: bool, store: str | None) -> None:
    """Let the limits that code, laneway.toml and the environment declare hold again."""

    async def changed(app: Scheduler) -> tuple[Lane, Lane]:
        was = (await app.lanes.get(name)).lane
        await app.lanes.unset(name)
        return was, (await app.lanes.get(name)).lane

    _show_change(*call(read_store(store), changed), as_json=as_json)


def _show_change(was: Lane | None, now: Lane, *, as_json: bool) -> None:
    old = None if was is None else _limits(was)
    show_change(f"{now.name}  ", {"lane": now.name}, old, _limits(now), as_json=as_json)


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
