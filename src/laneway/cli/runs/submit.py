"""`laneway submit`: submit a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.errors import CONFLICT, FINE, Problem, say
from laneway.cli.shell.hints import store_words
from laneway.cli.shell.options import DROPS, WHILE_WAITING, count, instant, json_object, json_option, seconds
from laneway.cli.shell.target import APP, MEMORY, load

if TYPE_CHECKING:
    from laneway.core.records.run import Receipt
    from laneway.engine.handlers.task import Task
    from laneway.scheduler import Scheduler

SILENT = 0.5  # seconds; a faster submission prints no message about a full lane

# Values of `mode`, and the fields of `SessionPolicy` that are options here
MODES = ("queue", "collect", "interrupt", "reject", "steer")
POLICY = ("mode", "debounce", "max_wait", "max_concurrent", "cap", "drop", "while_waiting")


def follow_up(text: str) -> tuple[str, dict[str, Any]]:
    """Parse `TASK`, or `TASK={"name": "value"}` with the arguments as a JSON object."""
    import msgspec

    task, equals, given = text.partition("=")
    if not task:
        raise click.BadParameter(f"{text!r} names no task; write TASK, or TASK={{...}} with its arguments")
    try:
        args = msgspec.json.decode(given) if equals else {}
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"the arguments of {task!r} are not JSON: {error}") from None
    if not isinstance(args, dict):
        raise click.BadParameter(f"the arguments of {task!r} must be a JSON object of names and values")
    return task, args


def name_and_text(text: str) -> tuple[str, str]:
    """Parse `NAME=TEXT`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r}; write name=text")
    return name, value


@click.command(
    "submit",
    cls=Command,
    examples=(
        "laneway submit app:app summarize doc=42",
        "laneway submit app:app summarize doc=42 --user ann --session chat-7 --priority 5",
        """laneway submit app:app summarize --args '{"doc": "42", "tags": ["new"]}' --delay 90s""",
        "laneway submit app:app cleanup --at 2031-05-01T03:00Z --lane background --json",
        "laneway submit app:app summarize doc=42 --wait --timeout 5m",
        "laneway submit app:app summarize doc=42 --user ann --key order-1001",
        "laneway submit app:app summarize doc=42 --session chat-7 --mode interrupt",
        "laneway submit app:app summarize doc=42 --session chat-7 --debounce 2s --max-wait 10s",
        """laneway submit app:app summarize doc=42 --then 'mail={"to": "ann"}' --on-failure alert""",
    ),
)
@click.argument("words", nargs=-1, metavar="APP TASK [NAME=VALUE]...")
@click.option("--args", "given", metavar="JSON", help="All arguments as one JSON object; NAME=VALUE adds to it.")
@click.option("--user", metavar="KEY", help="The user it belongs to: users take turns.")
@click.option("--session", metavar="KEY", help="The session: its runs keep their order.")
@click.option("--priority", type=int, metavar="N", help="-100 to 100; higher starts earlier.  [default: 0]")
@click.option("--delay", type=seconds, metavar="S", help="Do not start before this time has passed: 30, 90s, 5m, 2h.")
@click.option(
    "--at",
    type=instant,
    metavar="INSTANT",
    help="Do not start before this instant (ISO 8601; local time unless it has a zone).",
)
@click.option("--lane", metavar="NAME", help="The lane, instead of that of the task.")
@click.option(
    "--key", metavar="KEY", help="Idempotency key: once per task and user; used again, it returns the first run."
)
@click.option(
    "--mode", type=click.Choice(MODES), help="What the message does if its session is busy.  [default: queue]"
)
@click.option(
    "--debounce",
    type=seconds,
    metavar="S",
    help="Wait this long for more messages of the session, and make one run of them.",
)
@click.option(
    "--max-wait", type=seconds, metavar="S", help="Longest wait with --debounce.  [default: 5 times the debounce]"
)
@click.option(
    "--max-concurrent",
    type=count,
    metavar="N",
    help="How many runs of the session may be active at once.  [default: 1]",
)
@click.option("--cap", type=count, metavar="N", help="How many runs of the session may be queued.  [default: 10]")
@click.option(
    "--drop",
    type=click.Choice(DROPS),
    help="Which run is dropped if the queue is full: the oldest or the new one.  [default: old]",
)
@click.option(
    "--while-waiting",
    type=click.Choice(WHILE_WAITING),
    help="What a message does while the active run waits for an answer.  [default: cancel]",
)
@click.option(
    "--then",
    type=follow_up,
    multiple=True,
    metavar="TASK[=JSON]",
    help="Submit a run of TASK when this one has succeeded; JSON is its arguments. Repeatable.",
)
@click.option(
    "--on-failure",
    type=follow_up,
    multiple=True,
    metavar="TASK[=JSON]",
    help="The same when this one has failed for good. Neither happens after a cancel or drop.",
)
@click.option(
    "--trace",
    type=name_and_text,
    multiple=True,
    metavar="NAME=TEXT",
    help="Text that it and all runs that follow from it carry. Repeatable.",
)
@click.option("--wait", is_flag=True, help="Wait for its end, show its progress, print its result as JSON.")
@click.option(
    "--timeout", type=seconds, metavar="S", help="With --wait: stop waiting after this time; the run goes on."
)
@json_option("the receipt (with --wait: the whole run)")
def submit(
    words: tuple[str, ...], given: str | None, wait: bool, timeout: float | None, as_json: bool, **options: Any
) -> int:
    """Submit a run of TASK and print its id.

    APP may be omitted if LANEWAY_APP is set. A VALUE that is valid JSON is read as JSON, unless the parameter of the
    task is text: `doc=42` is the text "42" for `doc: str` and the number 42 for `doc: int`.

    If the session is busy, the message may be merged into a waiting run, put into the inbox of the active run
    (steered), or refused; stderr says which. The printed id is that of the run that has the message.

    If the lane is full, the command may wait, for 30 seconds unless APP sets another submit_timeout; Ctrl-C gives up.

    Exits with 0 once the run is stored, 5 if it is refused or its key was used with other arguments; with --wait, with
    1 if the run did not succeed and 7 if it did not end in time.
    """
    if timeout is not None and not wait:
        raise Problem("--timeout needs --wait; to delay the start, give --delay")
    app, name, pairs = _split(words)
    chosen = _with_policy({option: value for option, value in options.items() if value not in (None, ())})
    scheduler = load(app)
    if scheduler.url.startswith(MEMORY):
        raise Problem(
            f"{app} keeps its runs in memory://, which ends with this command",
            hint="give it a file: Scheduler('sqlite:///laneway.db')",
        )
    args = _arguments(scheduler.tasks.get(name), given, pairs)
    return awaited(_submitted(scheduler, name, args, chosen, wait=wait, timeout=timeout, as_json=as_json))


async def _submitted(
    scheduler: Scheduler,
    name: str,
    args: dict[str, Any],
    options: dict[str, Any],
    *,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> int:
    from laneway.cli.runs.follow import await_end
    from laneway.cli.runs.receipts import refusal, told
    from laneway.cli.shell.output import print_json
    from laneway.core.records.codec import to_dict
    from laneway.core.records.run import Receipt, ReceiptOutcome, Why
    from laneway.errors import KeyConflict

    async with scheduler:
        lane = options.get("lane") or scheduler.tasks.get(name).policy.lane
        try:
            receipt = await _receipt(scheduler, name, args, options, lane=lane)
        except KeyConflict as conflict:
            if as_json:
                print_json(to_dict(Receipt(ReceiptOutcome.REFUSED, conflict.run_id, Why.KEY_CONFLICT)))
            raise
        store = _store_to_name(scheduler.url)
        if as_json and not (wait and receipt.accepted):
            print_json(to_dict(receipt))
        if not receipt.accepted:
            why, hint = refusal(receipt, task=name, lane=lane, session=options.get("session"))
            raise Problem(f"{receipt.outcome.value}: {why}", hint=hint and f"{hint}{store_words(store)}", code=CONFLICT)
        say(told(receipt, {**options, "lane": lane}, named=wait))
        if wait:
            return await await_end(scheduler, receipt.run_id, timeout=timeout, as_json=as_json, store=store)
        say(f"follow it: laneway runs events {receipt.run_id} --follow{store_words(store)}")
        if not as_json:
            click.echo(receipt.run_id)
        return FINE


async def _receipt(
    scheduler: Scheduler, task: str, args: Mapping[str, Any], options: Mapping[str, Any], *, lane: str
) -> Receipt:
    """Submit a run and return its receipt; print a message while a full lane lets the submission wait."""
    import asyncio

    telling = asyncio.create_task(_tell(scheduler, lane))
    try:
        return await scheduler.submit(task, args, **options)
    finally:
        telling.cancel()


async def _tell(scheduler: Scheduler, name: str) -> None:
    import asyncio

    from laneway.cli.shell.formats import spoken
    from laneway.core.records.policy import MAIN, WhenFull
    from laneway.errors import LanewayError

    await asyncio.sleep(SILENT)
    # If the store fails, the submission itself reports it.
    with contextlib.suppress(LanewayError):
        lanes = {state.lane.name: state for state in await scheduler.lanes.list()}
        state = lanes.get(name) or lanes[MAIN]
        bound = state.lane.max_pending
        if bound is not None and state.pending >= bound and state.lane.when_full == WhenFull.WAIT:
            patience = spoken(scheduler.settings.submit_timeout)
            full = f"lane {state.lane.name} is full ({state.pending} of {bound} pending)"
            say(f"{full}; waiting up to {patience} for room, nothing is submitted before")


def _with_policy(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `submit`, with a policy made of those that concern the session."""
    given |= {name: list(given[name]) for name in ("then", "on_failure") if name in given}
    given |= {"trace": _once(given["trace"])} if "trace" in given else {}
    about_session = {name: given.pop(name) for name in POLICY if name in given}
    if not about_session:
        return given
    if "session" not in given:
        option = next(iter(about_session)).replace("_", "-")
        raise Problem(f"--{option} needs --session KEY")
    if "max_wait" in about_session and "debounce" not in about_session:
        raise Problem("--max-wait needs --debounce; to limit how long this command waits, give --wait --timeout")
    from laneway.core.records.policy import SessionPolicy

    return {**given, "session_policy": SessionPolicy(**about_session)}


def _once(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, text in pairs:
        if name in texts:
            raise Problem(f"--trace gives {name!r} twice; give it once")
        texts[name] = text
    return texts


def _store_to_name(url: str) -> str | None:
    from laneway.settings import DEFAULT_URL

    return None if url == (os.environ.get("LANEWAY_STORE") or DEFAULT_URL) else url


def _split(words: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """Return APP, TASK and the arguments. If the first word has no colon, APP is that of the environment."""
    default = os.environ.get(APP)
    if default and (not words or ":" not in words[0].partition("=")[0]):
        words = (default, *words)
    if len(words) < 2:
        raise Problem("give APP and TASK: laneway submit app:app summarize doc=42", hint="try: laneway submit --help")
    return words[0], words[1], words[2:]


def _arguments(task: Task[..., Any], given: str | None, pairs: Sequence[str]) -> dict[str, Any]:
    args = {} if given is None else json_object(given, "--args")
    seen: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise Problem(
                f"{pair!r} is not an argument; write name=value", hint=f"{task.name} takes {_signature(task)}"
            )
        if name in seen:
            raise Problem(f"argument {name!r} is given twice, as {seen[name]} and {pair}; give it once")
        seen[name] = pair
        args[name] = _value(task, name, text)
    return args


def _value(task: Task[..., Any], name: str, text: str) -> Any:
    """Return the value for a parameter: decoded, if it is JSON of the right type, else the text."""
    import msgspec

    wanted = task.parameters.types.get(name, Any)
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if wanted is str or (_fits(text, wanted) and not _fits(value, wanted)):
        return text
    return value


def _fits(value: Any, wanted: Any) -> bool:
    import msgspec

    try:
        msgspec.convert(value, wanted)
    except (msgspec.ValidationError, TypeError):
        return False
    return True


def _signature(task: Task[..., Any]) -> str:
    return ", ".join(task.parameters.names) or "no arguments"
