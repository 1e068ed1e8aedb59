"""`laneway workers`: who executes runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.commands import Command, Group, awaited
from laneway.cli.shell.errors import say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.core.records.liveness import WorkerInfo

HEADS = ("id", "host", "pid", "running", "concurrency", "state", "renewed", "tasks")


@click.group("workers", cls=Group, examples=("laneway workers list", "laneway workers list --json"))
def workers() -> None:
    """See who executes runs: list."""


@workers.command(
    "list", cls=Command, examples=("laneway workers list", "laneway workers list --json --store sqlite:///laneway.db")
)
@json_option("an array of workers")
@store_option
def list_(store: str | None, as_json: bool) -> None:
    """List the workers of a store, oldest first.

    A worker is `resting` when it waits for runs, `busy` while it has no room for more or has something to write, and
    `left` when it has stopped and its last runs have not been taken over yet. One that died without a word is listed
    until another worker notices.
    """
    from laneway.cli.shell import tables
    from laneway.cli.shell.formats import now
    from laneway.cli.shell.output import print_json

    async def read() -> list[WorkerInfo]:
        async with read_store(store) as scheduler:
            return await (await scheduler.open()).workers()

    found = awaited(read())
    if as_json:
        print_json([_record(worker) for worker in found])
    elif found:
        tables.show(HEADS, [_row(worker, now()) for worker in found])
    else:
        say("no workers")


def _record(worker: WorkerInfo) -> dict[str, Any]:
    from laneway.core.common.instants import instant

    incarnation = worker.incarnation
    return {
        "v": 1,
        "id": incarnation.id,
        "host": incarnation.host,
        "pid": incarnation.process.pid,
        "tasks": sorted(incarnation.tasks),
        "running": worker.running,
        "concurrency": incarnation.concurrency,
        "resting": worker.idle,
        "renewed_at": instant(worker.renewed_at),
        "left": worker.left,
    }


def _row(worker: WorkerInfo, now: datetime) -> tuple[str, ...]:
    from laneway.cli.shell.formats import age
    from laneway.core.common.instants import instant

    incarnation = worker.incarnation
    state = "left" if worker.left else "resting" if worker.idle else "busy"
    return (
        incarnation.id,
        incarnation.host,
        str(incarnation.process.pid),
        str(worker.running),
        str(incarnation.concurrency),
        state,
        age(instant(worker.renewed_at), now),
        ",".join(sorted(incarnation.tasks)),
    )
