"""`laneway users`: show users in lanes, and set caps of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from laneway.cli.shell.commands import Group
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.options import NONE, count_or_none, json_option, limit_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import call, read_store, store_option
from laneway.cli.shell.view import Column, View, show_change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.ports.users import UserState
    from laneway.scheduler import Scheduler


class UserInLane(NamedTuple):
    """A user in a lane, and how many runs of one user that lane allows."""

    state: UserState
    per_user: int | None


def _record(user: UserInLane) -> dict[str, Any]:
    import msgspec

    return {"v": 1, **msgspec.to_builtins(user.state), "per_user": user.per_user}


def _by(user: UserInLane) -> str:
    if user.state.cap is not None:
        return "set"
    return "lane" if user.per_user is not None else ""


USER: View[UserInLane] = View(
    Column("user", lambda user: user.state.user),
    Column("lane", lambda user: user.state.lane),
    Column("active", lambda user: user.state.active),
    Column("waiting", lambda user: user.state.waiting),
    Column("cap", lambda user: user.per_user if user.state.cap is None else user.state.cap),
    Column("by", _by),
    Column("state", lambda user: "paused" if user.state.paused else "open"),
    json=_record,
)


@click.group("users", cls=Group, examples=("laneway users list", "laneway users set ann --lane main --cap 5"))
def users() -> None:
    """Show users, and pause or cap them: list, show, set, pause, resume."""


@users.command(
    "list",
    examples=("laneway users list", "laneway users list --limit 500 --after ann main", "laneway users list --json"),
)
@limit_option("lines")
@click.option("--after", nargs=2, default=("", ""), metavar="USER LANE", help="Continue a list: after USER in LANE.")
@json_option("an array of users in lanes")
@store_option
def list_(limit: int, after: tuple[str, str], store: str | None, as_json: bool) -> None:
    """List users and lanes, by name.

    There is a line for each user in each lane with runs, a cap or a pause. `active` counts running runs, `waiting`
    those that wait for their turn or because of the cap. `by` says where the cap comes from: it is `set` for that user,
    or that of the `lane`.
    """

    async def read(app: Scheduler) -> list[UserInLane]:
        return await _in_lanes(app, await app.users.list(limit=limit + 1, after=after))

    def resume(user: UserInLane) -> str:
        return f"--after {user.state.user!r} {user.state.lane!r}"

    USER.show_all(call(read_store(store), read), as_json=as_json, none="no users", limit=limit, resume=resume)


@users.command("show", examples=("laneway users show ann", "laneway users show ann --json"))
@name_argument("user")
@json_option("an array of the user's lanes")
@store_option
def show(name: str, store: str | None, as_json: bool) -> None:
    """Show a user in each lane."""

    async def read(app: Scheduler) -> list[UserInLane]:
        return await _in_lanes(app, await app.users.get(name))

    none = f"user {name!r} has no runs that wait or run, and nothing is set"
    USER.show_all(call(read_store(store), read), as_json=as_json, none=none)


async def _in_lanes(app: Scheduler, found: Sequence[UserState]) -> list[UserInLane]:
    caps = {state.lane.name: state.lane.per_user for state in await app.lanes.list()}
    return [UserInLane(state, caps.get(state.lane)) for state in found]


@users.command(
    "set",
    examples=("laneway users set ann --cap 5", "laneway users set ann --lane background --cap none"),
)
@name_argument("user")
@click.option("--lane", default="main", show_default=True, metavar="NAME", help="The lane of the cap.")
@click.option(
    "--cap",
    type=count_or_none,
    required=True,
    metavar="N|none",
    help="Runs of the user at once; none: the limit of the lane.",
)
@json_option("the cap that was and is set")
@store_option
def set_(name: str, lane: str, cap: int | str, as_json: bool, store: str | None) -> None:
    """Set how many runs of a user may be active in a lane.

    Prints the old and the new cap. A higher one takes effect at once; a lower one stops no run.
    """

    async def changed(app: Scheduler) -> tuple[int | None, int | None]:
        was = await _cap(app, name, lane)
        await app.users.set(name, lane=lane, cap=None if cap == NONE else int(cap))
        return was, await _cap(app, name, lane)

    was, now = call(read_store(store), changed)
    show_change(f"{name}  lane {lane}: ", {"user": name, "lane": lane}, {"cap": was}, {"cap": now}, as_json=as_json)


async def _cap(app: Scheduler, user: str, lane: str) -> int | None:
    return next((state.cap for state in await app.users.get(user) if state.lane == lane), None)


for command in (
    switch(
        "user",
        "pause",
        "Start no runs of these users, in any lane.\n\nNew runs are accepted and held; running ones go on.",
        example="ann",
    ),
    switch("user", "resume", "Resume paused users.", example="ann"),
):
    users.add_command(command)
