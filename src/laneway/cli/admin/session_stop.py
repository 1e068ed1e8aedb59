"""`laneway sessions stop`, `stop-all` and `reset`: end the runs of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import FINE, say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import call, read_store, store_option

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would be stopped, and change nothing.")


@click.command("stop", cls=Command, examples=("laneway sessions stop chat-7", "laneway sessions stop chat-7 --json"))
@name_argument("session")
@json_option("what was stopped")
@store_option
def stop(name: str, as_json: bool, store: str | None) -> int:
    """Cancel the oldest active run of a session.

    Prints its id; the other runs stay. The next run starts when its handler has stopped. Nothing to stop is no error.
    """
    return _end(store, name, "stop", dry_run=False, as_json=as_json)


@click.command(
    "stop-all",
    cls=Command,
    examples=("laneway sessions stop-all chat-7 --dry-run", "laneway sessions stop-all chat-7"),
)
@name_argument("session")
@dry_run_option
@json_option("what was stopped")
@store_option
def stop_all(name: str, dry_run: bool, as_json: bool, store: str | None) -> int:
    """Cancel all active runs of a session and drop the others.

    Prints their ids. No run that was accepted before starts any more, even one that is due later. New runs start when
    the running handlers have stopped. Nothing to stop is no error.
    """
    return _end(store, name, "stop_all", dry_run=dry_run, as_json=as_json)


@click.command(
    "reset",
    cls=Command,
    examples=("laneway sessions reset chat-7 --dry-run", "laneway sessions reset chat-7"),
)
@name_argument("session")
@dry_run_option
@json_option("what was stopped")
@store_option
def reset(name: str, dry_run: bool, as_json: bool, store: str | None) -> int:
    """Like stop-all, without waiting for handlers.

    Active runs end at once and free their slots; the store refuses what their handlers still write. For sessions whose
    handlers do not stop.
    """
    return _end(store, name, "reset", dry_run=dry_run, as_json=as_json)


def _end(store: str | None, session: str, verb: str, *, dry_run: bool, as_json: bool) -> int:
    from laneway.cli.shell.output import print_json

    async def stop(scheduler: Scheduler) -> Stopped:
        return await (_would_stop(scheduler, session) if dry_run else _stop(scheduler, session, verb))

    stopped = call(read_store(store), stop)
    if as_json:
        print_json({"v": 1, "session": session, **stopped._asdict(), "dry_run": dry_run})
    else:
        _print(stopped, dry_run=dry_run)
    if not stopped.cancelled and not stopped.dropped:
        say(f"session {session!r} has nothing to stop")
    return FINE


class Stopped(NamedTuple):
    """The ids of the runs that were ended; those in `stopping` were cancelled, and their handlers still run."""

    cancelled: list[str]
    dropped: list[str]
    stopping: list[str]


async def _would_stop(scheduler: Scheduler, session: str) -> Stopped:
    from laneway.cli.admin import session_runs

    found = await session_runs.read(scheduler, session)
    return Stopped([run.id for run in found.stoppable], [run.id for run in found.droppable], [])


async def _stop(scheduler: Scheduler, session: str, verb: str) -> Stopped:
    done = await getattr(scheduler.sessions, verb)(session)
    stopping = [run_id for run_id in done.cancelled if not (await scheduler.get(run_id)).ended]
    return Stopped(list(done.cancelled), list(done.dropped), stopping)


def _print(stopped: Stopped, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for run_id in stopped.cancelled:
        click.echo(f"{run_id}  " + ("cancel requested" if run_id in stopped.stopping else f"{would}cancelled"))
    for run_id in stopped.dropped:
        click.echo(f"{run_id}  {would}dropped")
    if stopped.stopping:
        say(f"{len(stopped.stopping)} still running, told to stop")
