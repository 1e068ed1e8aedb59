"""`laneway lanes`: show lanes and their load, and set their limits for all processes."""

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
    """Show and change lanes, for all processes: list, show, set, unset, pause, resume."""


@lanes.command("list", examples=("laneway lanes list", "laneway lanes list --json"))
@json_option("an array of lanes")
@store_option
def list_(store: str | None, as_json: bool) -> None:
    """List the lanes by name.

    `active` counts the runs that are running, `ready` those that could start, `pending` all that wait for any reason.
    `by` says whether the limits are `declared` (in code, laneway.toml or the environment) or `set` by an operator,
    which has precedence. A limit that no lane has is not shown.
    """
    LANE.show_all(call(read_store(store), lambda app: app.lanes.list()), as_json=as_json)


@lanes.command("show", examples=("laneway lanes show main", "laneway lanes show main --json"))
@name_argument("lane")
@json_option("the lane")
@store_option
def show(name: str, store: str | None, as_json: bool) -> None:
    """Show everything about a lane.

    Its limits, its load, and how many submissions were merged, dropped or refused.
    """
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
@click.option("--limit", type=count, metavar="N", help="How many runs may be running at once.")
@click.option("--per-user", type=count_or_none, metavar="N|none", help="The same for the runs of one user.")
@click.option("--worker-limit", type=count_or_none, metavar="N|none", help="The same for the runs of one worker.")
@click.option("--max-pending", type=count_or_none, metavar="N|none", help="How many runs may be pending.")
@click.option("--when-full", type=click.Choice(WHEN_FULL), help="What a submission does when --max-pending is reached.")
@click.option("--create", is_flag=True, help="Create the lane if it does not exist.")
@json_option("what it was and what it is")
@store_option
def set_(name: str, create: bool, as_json: bool, store: str | None, **given: Any) -> None:
    """Change the limits of a lane, and print the old and the new ones.

    Options that are not given keep their values. From now on all limits of the lane are those of the operator, whatever
    code, laneway.toml and the environment declare, until `laneway lanes unset`. A higher limit takes effect at once; a
    lower one stops no run.
    """
    wanted = {field: value for field, value in given.items() if value is not None}
    if not wanted and not create:
        raise Problem("nothing to set; give --limit, --per-user, --worker-limit, --max-pending or --when-full")
    fields = {field: None if value == NONE else value for field, value in wanted.items()}

    async def changed(app: Scheduler) -> tuple[Lane | None, Lane]:
        import msgspec

        from laneway.core.records.policy import Lane
        from laneway.errors import UnknownLane

        try:
            was = (await app.lanes.get(name)).lane
        except UnknownLane as error:
            if not create:
                raise Problem(str(error), hint="--create creates it", code=NOT_FOUND) from None
            was = None
        await app.lanes.set(msgspec.structs.replace(was or Lane(name), **fields))
        return was, (await app.lanes.get(name)).lane

    _show_change(*call(read_store(store), changed), as_json=as_json)


@lanes.command("unset", examples=("laneway lanes unset main",))
@name_argument("lane")
@json_option("what it was and what it is")
@store_option
def unset(name: str, as_json: bool, store: str | None) -> None:
    """Restore the declared limits of a lane.

    Those are the limits in code, laneway.toml and the environment.
    """

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
        "Start no runs of these lanes.\n\nNew runs are accepted and held; running ones go on.",
        example="background",
    ),
    switch("lane", "resume", "Resume paused lanes.", example="background"),
):
    lanes.add_command(command)
