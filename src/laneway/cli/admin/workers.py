"""`laneway workers`: show the workers of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.commands import Group
from laneway.cli.shell.formats import age, now
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import call, read_store, store_option
from laneway.cli.shell.view import Column, View

if TYPE_CHECKING:
    from laneway.core.records.liveness import WorkerInfo


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


def _state(worker: WorkerInfo) -> str:
    return "left" if worker.left else "resting" if worker.idle else "busy"


def _renewed(worker: WorkerInfo) -> str:
    from laneway.core.common.instants import instant

    return age(instant(worker.renewed_at), now())


WORKER: View[WorkerInfo] = View(
    Column("id", lambda worker: worker.incarnation.id),
    Column("host", lambda worker: worker.incarnation.host),
    Column("pid", lambda worker: worker.incarnation.process.pid),
    Column("running", lambda worker: worker.running),
    Column("concurrency", lambda worker: worker.incarnation.concurrency),
    Column("state", _state),
    Column("renewed", _renewed),
    Column("tasks", lambda worker: ",".join(sorted(worker.incarnation.tasks))),
    json=_record,
)


@click.group("workers", cls=Group, examples=("laneway workers list", "laneway workers list --json"))
def workers() -> None:
    """Show workers: list."""


@workers.command("list", examples=("laneway workers list", "laneway workers list --json --store sqlite:///laneway.db"))
@json_option("an array of workers")
@store_option
def list_(store: str | None, as_json: bool) -> None:
    """List the workers of a store, oldest first.

    A worker is `resting` while it waits for runs, `busy` while it has no free slot or something to write, and `left`
    when it has stopped and its last runs have not been taken over yet. A worker that was killed is listed until another
    worker notices.
    """
    WORKER.show_all(call(read_store(store), lambda app: app.workers.list()), as_json=as_json, none="no workers")
