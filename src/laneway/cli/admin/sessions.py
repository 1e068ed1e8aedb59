"""`laneway sessions`: show sessions, and set their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from laneway.cli.admin.session_stop import reset, stop, stop_all
from laneway.cli.shell.commands import Group
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import Problem
from laneway.cli.shell.options import DROPS, WHILE_WAITING, count, json_option, limit_option
from laneway.cli.shell.switches import switch
from laneway.cli.shell.target import call, read_store, store_option
from laneway.cli.shell.view import Column, Fact, View, cell, show_change

if TYPE_CHECKING:
    from laneway.cli.admin.session_runs import SessionRuns
    from laneway.core.records.policy import Rule, SessionPolicy
    from laneway.ports.sessions import SessionState
    from laneway.scheduler import Scheduler


class SessionPage(NamedTuple):
    """A session, and where its runs stand."""

    state: SessionState
    runs: SessionRuns


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


def _page_record(page: SessionPage) -> dict[str, Any]:
    ids = {place: [run.id for run in runs] for place, runs in page.runs._asdict().items()}
    return {**_record(page.state), "runs": ids}


def _page_facts(page: SessionPage) -> list[Fact]:
    from laneway.cli.admin import session_runs

    state = page.state
    return [
        ("rule", _said(_rule(state.rule))),
        ("set", _said(_rule(state.ruled))),
        ("windows", str(state.windows or "")),
        *session_runs.facts(page.runs, state.name),
    ]


def _rule(rule: Rule) -> dict[str, Any]:
    import msgspec

    given: dict[str, Any] = msgspec.to_builtins(rule)  # without what is None
    return given


def _said(rule: dict[str, Any]) -> str:
    return ", ".join(f"{field} {cell(value)}" for field, value in rule.items())


def _state(state: SessionState) -> str:
    words = [word for word in ("paused", "throttled") if getattr(state, word)]
    return ",".join(words) or ("open" if state.active or state.queued or state.windows else "idle")


SESSION: View[SessionState] = View(
    Column("name", lambda state: state.name),
    Column("active", lambda state: state.active),
    Column("queued", lambda state: state.queued),
    Column("windows", lambda state: state.windows),
    Column("max_concurrent", lambda state: state.rule.max_concurrent),
    Column("cap", lambda state: state.rule.cap),
    Column("drop", lambda state: state.rule.drop),
    Column("state", _state),
    Column("set", lambda state: ",".join(_rule(state.ruled))),
    json=_record,
)
SESSION_PAGE: View[SessionPage] = View(
    json=_page_record, title=lambda page: f"{page.state.name}  {_state(page.state)}", facts=_page_facts
)


@click.group(
    "sessions",
    cls=Group,
    examples=("laneway sessions list", "laneway sessions show chat-7", "laneway sessions stop-all chat-7"),
)
def sessions() -> None:
    """Show and change sessions: list, show, set, unset, pause, resume, stop, stop-all, reset."""


@sessions.command(
    "list",
    examples=(
        "laneway sessions list",
        "laneway sessions list --prefix chat- --limit 500",
        "laneway sessions list --json",
    ),
)
@click.option("--prefix", default="", metavar="TEXT", help="Only sessions whose names begin with TEXT.")
@limit_option("sessions")
@click.option("--after", default="", metavar="NAME", help="Continue a list: names after NAME.")
@json_option("an array of sessions")
@store_option
def list_(prefix: str, limit: int, after: str, store: str | None, as_json: bool) -> None:
    """List the sessions that are not idle, by name.

    Also those with a rule that an operator has set. `active` counts the runs that have started and not ended, `queued`
    those that wait to start, `windows` the open windows that collect messages. `set` names what an operator has set.
    """
    found = call(read_store(store), lambda app: app.sessions.list(prefix=prefix, limit=limit + 1, after=after))
    none = "no sessions that fit" if prefix or after else "no sessions: all are idle"
    SESSION.show_all(found, as_json=as_json, none=none, limit=limit, resume=lambda state: f"--after {state.name!r}")


@sessions.command("show", examples=("laneway sessions show chat-7", "laneway sessions show chat-7 --json"))
@name_argument("session")
@json_option("the session and the ids of its runs")
@store_option
def show(name: str, store: str | None, as_json: bool) -> None:
    """Show a session: its rule and its runs, in order."""

    async def read(app: Scheduler) -> SessionPage:
        from laneway.cli.admin import session_runs

        return SessionPage(await app.sessions.get(name), await session_runs.read(app, name))

    SESSION_PAGE.show(call(read_store(store), read), as_json=as_json)


@sessions.command(
    "set",
    examples=(
        "laneway sessions set chat-7 --cap 3 --drop new",
        "laneway sessions set chat-7 --max-concurrent 2 --pass-on-retry",
        "laneway sessions set chat-7 --load 0.8",
    ),
)
@name_argument("session")
@click.option("--max-concurrent", type=count, metavar="N", help="How many runs may be active at once.")
@click.option("--cap", type=count, metavar="N", help="How many runs may be queued.")
@click.option(
    "--drop",
    type=click.Choice(DROPS),
    help="Which run is dropped when the queue is full: the oldest queued one or the new one.",
)
@click.option(
    "--while-waiting",
    type=click.Choice(WHILE_WAITING),
    help="What a message does while the active run waits for an answer.",
)
@click.option(
    "--pass-on-retry/--no-pass-on-retry",
    default=None,
    help="Whether the next run may start before a run that is tried again.",
)
@click.option(
    "--load",
    type=click.FloatRange(min=0),
    metavar="SHARE",
    help="How full its context window is now; from 0.6 on, one run at a time.",
)
@json_option("the rule that it had and has")
@store_option
def set_(name: str, load: float | None, as_json: bool, store: str | None, **given: Any) -> None:
    """Set the rule of a session, and print the old and the new one.

    It has precedence over the policies of messages, and is kept while the session is idle, until `laneway sessions
    unset`. Options that are not given keep their values. --load alone changes no rule, and is forgotten when the
    session is idle.
    """
    wanted = {field: value for field, value in given.items() if value is not None}
    if not wanted and load is None:
        raise Problem(
            "nothing to set; give --max-concurrent, --cap, --drop, --while-waiting, --pass-on-retry or --load"
        )
    from laneway.core.records.policy import SessionPolicy

    policy = SessionPolicy(**wanted) if wanted else None
    _change(store, name, policy, load, as_json=as_json)


@sessions.command("unset", examples=("laneway sessions unset chat-7",))
@name_argument("session")
@json_option("the rule that it had and has")
@store_option
def unset(name: str, as_json: bool, store: str | None) -> None:
    """Remove the rule that an operator has set.

    From then on the policies of its messages apply again.
    """
    _change(store, name, None, None, as_json=as_json)


def _change(store: str | None, name: str, policy: SessionPolicy | None, load: float | None, *, as_json: bool) -> None:
    async def changed(app: Scheduler) -> tuple[SessionState, SessionState]:
        was = await app.sessions.get(name)
        await app.sessions.set(name, policy, load=load)
        return was, await app.sessions.get(name)

    was, now = call(read_store(store), changed)
    names = {"session": name, "throttled": now.throttled}
    note = "; one run at a time, because of its load" if now.throttled else ""
    show_change(f"{name}  ", names, _rule(was.rule), _rule(now.rule), as_json=as_json, note=note)


for command in (
    switch(
        "session",
        "pause",
        "Start no runs of these sessions, retries included.\n\nMessages are accepted and held; running runs go on.",
        example="chat-7",
    ),
    switch("session", "resume", "Resume paused sessions.", example="chat-7"),
    stop,
    stop_all,
    reset,
):
    sessions.add_command(command)
