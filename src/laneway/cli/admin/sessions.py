"""`laneway sessions`: what goes on in conversations, and their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.admin.session_stop import reset, stop, stop_all
from laneway.cli.shell.commands import Command, Group, awaited
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import FINE, Problem, say
from laneway.cli.shell.options import DROPS, WHILE_WAITING, count, json_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.cli.admin.session_runs import SessionRuns
    from laneway.core.records.policy import Rule, SessionPolicy
    from laneway.ports.sessions import SessionState

HEADS = ("name", "active", "queued", "windows", "max_concurrent", "cap", "drop", "state", "set")


@click.group(
    "sessions",
    cls=Group,
    examples=("laneway sessions list", "laneway sessions show chat-7", "laneway sessions stop-all chat-7"),
)
def sessions() -> None:
    """See and change sessions: list, show, set, unset, pause, resume, stop, stop-all, reset."""


@sessions.command(
    "list",
    cls=Command,
    examples=(
        "laneway sessions list",
        "laneway sessions list --prefix chat- --limit 500",
        "laneway sessions list --json",
    ),
)
@click.option("--prefix", default="", metavar="TEXT", help="Only sessions whose names begin so.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N", help="At most N sessions."
)
@click.option("--after", default="", metavar="NAME", help="Go on from here: names behind NAME.")
@json_option("an array of sessions")
@store_option
def list_(prefix: str, limit: int, after: str, store: str | None, as_json: bool) -> None:
    """List the sessions that have something going on, or of which something is set, by name.

    `active` runs were started and have not ended, `queued` ones wait to be started, `windows` collect messages. `set`
    names what an operator has set of its rule. An idle session is not kept.
    """
    from laneway.cli.shell import tables
    from laneway.cli.shell.output import print_json

    async def read() -> list[SessionState]:
        async with read_store(store) as scheduler:
            return await scheduler.sessions.list(prefix=prefix, limit=limit + 1, after=after)

    found = awaited(read())
    records = [_record(state) for state in found[:limit]]
    if as_json:
        print_json(records)
    elif records:
        tables.show(HEADS, [_row(record) for record in records])
    else:
        say("no sessions that fit" if prefix or after else "no sessions: all are idle")
    if len(found) > limit:
        say(f"there are more; go on with --after {records[-1]['name']!r}")


@sessions.command("show", cls=Command, examples=("laneway sessions show chat-7", "laneway sessions show chat-7 --json"))
@name_argument("session")
@json_option("the session and the ids of its runs")
@store_option
def show(name: str, store: str | None, as_json: bool) -> None:
    """Show a session: its rule, and its active and queued runs in order."""
    from laneway.cli.admin import session_runs
    from laneway.cli.shell import facts
    from laneway.cli.shell.output import print_json

    async def read() -> tuple[SessionState, SessionRuns]:
        async with read_store(store) as scheduler:
            return await scheduler.sessions.get(name), await session_runs.read(scheduler, name)

    state, found = awaited(read())
    record = _record(state)
    if as_json:
        ids = {place: [run.id for run in runs] for place, runs in found._asdict().items()}
        print_json({**record, "runs": ids})
        return
    rule, ruled = (
        ", ".join(f"{field} {_cell(value)}" for field, value in record[one].items()) for one in ("rule", "set")
    )
    head = [("rule", rule), ("set", ruled), ("windows", str(state.windows or ""))]
    facts.show(f"{name}  {_state(record)}", [*head, *session_runs.facts(found, name)])


@sessions.command(
    "set",
    cls=Command,
    examples=(
        "laneway sessions set chat-7 --cap 3 --drop new",
        "laneway sessions set chat-7 --max-concurrent 2 --pass-on-retry",
        "laneway sessions set chat-7 --load 0.8",
    ),
)
@name_argument("session")
@click.option("--max-concurrent", type=count, metavar="N", help="Runs that are active at once.")
@click.option("--cap", type=count, metavar="N", help="Runs that may be queued.")
@click.option(
    "--drop",
    type=click.Choice(DROPS),
    help="Which goes when more come: the oldest queued one, or the new one.",
)
@click.option(
    "--while-waiting",
    type=click.Choice(WHILE_WAITING),
    help="What a message does while the active run waits for an answer.",
)
@click.option(
    "--pass-on-retry/--no-pass-on-retry", default=None, help="Whether the next goes ahead of a run that is tried again."
)
@click.option(
    "--load",
    type=click.FloatRange(min=0),
    metavar="SHARE",
    help="How full its window is, now: from 0.6 on it gets one run at a time.",
)
@json_option("the rule that it had and has")
@store_option
def set_(name: str, load: float | None, as_json: bool, store: str | None, **given: Any) -> int:
    """Set what belongs to a session, and say what it was and what it is.

    It wins over what messages give, and is kept while the session is idle, until `laneway sessions unset`. What is not
    given stays. --load alone changes no rule, and is forgotten when the session is idle.
    """
    wanted = {field: value for field, value in given.items() if value is not None}
    if not wanted and load is None:
        raise Problem(
            "what shall it be? give --max-concurrent, --cap, --drop, --while-waiting, --pass-on-retry or --load"
        )
    from laneway.core.records.policy import SessionPolicy

    policy = SessionPolicy(**wanted) if wanted else None
    return awaited(_changed(store, name, policy, load, as_json=as_json))


@sessions.command("unset", cls=Command, examples=("laneway sessions unset chat-7",))
@name_argument("session")
@json_option("the rule that it had and has")
@store_option
def unset(name: str, as_json: bool, store: str | None) -> int:
    """Take back all that was set of a session: what its messages give holds again."""
    return awaited(_changed(store, name, None, None, as_json=as_json))


async def _changed(
    store: str | None, name: str, policy: SessionPolicy | None, load: float | None, *, as_json: bool
) -> int:
    from laneway.cli.shell.formats import change
    from laneway.cli.shell.output import print_json

    async with read_store(store) as scheduler:
        was = _rule((await scheduler.sessions.get(name)).rule)
        await scheduler.sessions.set(name, policy, load=load)
        state = await scheduler.sessions.get(name)
    now = _rule(state.rule)
    if as_json:
        print_json({"v": 1, "session": name, "was": was, "is": now, "throttled": state.throttled})
        return FINE
    throttled = "; one run at a time, because of its load" if state.throttled else ""
    click.echo(f"{name}  {change(was, now)}{throttled}")
    return FINE


for command in (
    switch(
        "session",
        "pause",
        "Start nothing of these sessions, retries included: messages are accepted and held, what runs goes on.",
        example="chat-7",
    ),
    switch("session", "resume", "Let paused sessions go on.", example="chat-7"),
    stop,
    stop_all,
    reset,
):
    sessions.add_command(command)


def _rule(rule: Rule) -> dict[str, Any]:
    import msgspec

    given: dict[str, Any] = msgspec.to_builtins(rule)  # without what is None
    return given


def _record(state: SessionState) -> dict[str, Any]:
    return {
        "v": 1,
        "name": state.name,
        "active": state.active,
        "queued": state.queued,
        "windows": state.windows,
        "paused": state.paused,
        "throttled": state.throttled,
        "rule": _rule(state.rule),
        "set": _rule(state.ruled),
    }


def _state(record: dict[str, Any]) -> str:
    words = [word for word in ("paused", "throttled") if record[word]]
    return ",".join(words) or ("open" if any(record[name] for name in ("active", "queued", "windows")) else "idle")


def _row(record: dict[str, Any]) -> list[str]:
    values = {**record, **record["rule"], "state": _state(record), "set": ",".join(record["set"])}
    return [_cell(values[name]) for name in HEADS]


def _cell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
