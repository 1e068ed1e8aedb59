"""`laneway sessions stop`, `stop-all` and `reset`: ending what a conversation has going on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import FINE, say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be stopped, and change nothing.")


@click.command("stop", cls=Command, examples=("laneway sessions stop chat-7", "laneway sessions stop chat-7 --json"))
@name_argument("session")
@json_option("what was stopped")
@store_option
def stop(name: str, as_json: bool, store: str | None) -> int:
    """Cancel the session's oldest active run, and say which; the others and the queue stay.

    A handler that is running is told to stop; the next run starts when it has. Having nothing to stop is fine.
    """
    return awaited(_stopped(read_store(store), name, "stop", dry_run=False, as_json=as_json))


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
    """Cancel all active runs of the session and drop all that wait, those due later included; say which.

    Nothing accepted before this ever starts. Handlers that are running are told to stop; what is submitted from now on
    starts when they have. Having nothing to stop is fine.
    """
    return awaited(_stopped(read_store(store), name, "stop_all", dry_run=dry_run, as_json=as_json))


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
    """Stop all of the session, and do not wait for its handlers.

    As stop-all, but active runs end at once: their slots are free, and whatever their handlers still write is refused.
    For sessions whose handlers do not stop.
    """
    return awaited(_stopped(read_store(store), name, "reset", dry_run=dry_run, as_json=as_json))


async def _stopped(scheduler: Scheduler, session: str, verb: str, *, dry_run: bool, as_json: bool) -> int:
    from laneway.cli.shell.output import print_json

    async with scheduler:
        if dry_run:
            cancelled, dropped, stopping = await _would_stop(scheduler, session)
        else:
            cancelled, dropped, stopping = await _stop(scheduler, session, verb)
    if as_json:
        print_json(
            {
                "v": 1,
                "session": session,
                "cancelled": cancelled,
                "dropped": dropped,
                "stopping": stopping,
                "dry_run": dry_run,
            }
        )
    else:
        _tell(cancelled, dropped, stopping, dry_run=dry_run)
    if not cancelled and not dropped:
        say(f"session {session!r} has nothing to stop")
    return FINE


async def _would_stop(scheduler: Scheduler, session: str) -> tuple[list[str], list[str], list[str]]:
    from laneway.cli.admin import session_runs

    found = await session_runs.read(scheduler, session)
    return [run.id for run in found.stoppable], [run.id for run in found.droppable], []


async def _stop(scheduler: Scheduler, session: str, verb: str) -> tuple[list[str], list[str], list[str]]:
    """Do it; return what was cancelled and dropped, and of the cancelled those whose handlers have not stopped yet."""
    done = await getattr(scheduler.sessions, verb)(session)
    stopping = [run_id for run_id in done.cancelled if not (await scheduler.get(run_id)).ended]
    return list(done.cancelled), list(done.dropped), stopping


def _tell(cancelled: Sequence[str], dropped: Sequence[str], stopping: Sequence[str], *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for run_id in cancelled:
        click.echo(f"{run_id}  " + ("cancel requested" if run_id in stopping else f"{would}cancelled"))
    for run_id in dropped:
        click.echo(f"{run_id}  {would}dropped")
    if stopping:
        say(f"{len(stopping)} still running, told to stop")
