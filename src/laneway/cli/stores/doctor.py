"""`laneway doctor`: examine, repair and back up a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.errors import CONFLICT, FAILED, FINE, Problem, say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import file_of, store_option, url_of

if TYPE_CHECKING:
    from laneway.cli.stores.diagnosis import Diagnosis
    from laneway.core.queue.audit import Finding


@click.command(
    "doctor",
    cls=Command,
    examples=(
        "laneway doctor",
        "laneway doctor --store sqlite:////var/lib/app/laneway.db --json",
        "laneway doctor --repair",
        "laneway doctor --backup /var/backups/laneway.db",
    ),
)
@click.option("--repair", is_flag=True, help="Correct counts and indexes that do not agree; not damage by a disk.")
@click.option(
    "--backup",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Copy the store to a new file instead, also while it is in use.",
)
@json_option("what was found")
@store_option
def doctor(store: str | None, repair: bool, backup: Path | None, as_json: bool) -> int:
    """Examine a store: versions, damage, counts, clock, space, workers.

    Safe to use while workers run; changes nothing without --repair. Exits with 0 if nothing is wrong (there may be
    warnings), else with 1.
    """
    if backup is not None:
        if repair:
            raise Problem("give --backup or --repair, not both; back up first")
        return _back_up(url_of(store), backup, as_json=as_json)
    return _examine(url_of(store), repair=repair, as_json=as_json)


def _examine(url: str, *, repair: bool, as_json: bool) -> int:
    from laneway.cli.shell.output import print_json
    from laneway.cli.stores import diagnosis

    found = awaited(_diagnosis(url, repair=repair))
    if as_json:
        print_json(found.as_dict())
    else:
        diagnosis.show(found)
    return FINE if found.well else FAILED


async def _diagnosis(url: str, *, repair: bool) -> Diagnosis:
    from laneway.cli.stores.diagnosis import Diagnosis
    from laneway.core.common.addresses import without_password
    from laneway.engine.common.clock import SystemClock
    from laneway.scheduler import store_at
    from laneway.settings import Settings

    clock = SystemClock()
    store = store_at(url, clock, Settings())
    repaired: list[Finding] = []
    try:
        examination = await store.examine()
        if repair and examination.findings:
            repaired = await store.check(repair=True)
            examination = await store.examine()
        return Diagnosis(without_password(url), examination, repaired, clock.now(), file_of(url))
    finally:
        await store.close()


def _back_up(url: str, target: Path, *, as_json: bool) -> int:
    from laneway.cli.shell.formats import size
    from laneway.cli.shell.output import print_json
    from laneway.stores.sqlite.backup import back_up

    path = file_of(url)
    if path is None:
        raise Problem(f"--backup is for SQLite files; {url.partition(':')[0]} is backed up with its own tools")
    try:
        written = back_up(path.absolute(), target.absolute())
    except FileExistsError:
        raise Problem(f"{target} exists, and is not overwritten; give another name", code=CONFLICT) from None
    if as_json:
        print_json({"v": 1, "backup": str(target), "bytes": written})
    else:
        say(f"wrote {target}: {size(written)}, checked")
    return FINE
