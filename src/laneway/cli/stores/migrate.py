"""`laneway migrate`: upgrade a store to the layout of this laneway."""

from __future__ import annotations

import click

from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.errors import FINE, say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import store_option, url_of


@click.command(
    "migrate",
    cls=Command,
    examples=("laneway migrate --dry-run", "laneway migrate --store sqlite:////var/lib/app/laneway.db"),
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@json_option("from which layout to which")
@store_option
def migrate(store: str | None, dry_run: bool, as_json: bool) -> int:
    """Upgrade a store to the layout of this laneway.

    Every process that opens a store does this, too; with this command you choose the time, before a deploy. The upgrade
    is atomic; workers that run meanwhile wait for it. There is no way back, so make a backup first (laneway doctor
    --backup). A store of a newer laneway is refused.
    """
    from laneway.cli.shell.output import print_json

    found, newest = awaited(_migrated(url_of(store), dry_run=dry_run))
    if as_json:
        print_json({"v": 1, "from": found, "to": newest, "done": found < newest and not dry_run})
    elif found == newest:
        say(f"layout {found} is the newest; there is nothing to do")
    else:
        say(f"{'would move' if dry_run else 'moved'} the store from layout {found} to {newest}")
    return FINE


async def _migrated(url: str, *, dry_run: bool) -> tuple[int, int]:
    from laneway.engine.common.clock import SystemClock
    from laneway.scheduler import store_at
    from laneway.settings import Settings

    store = store_at(url, SystemClock(), Settings())
    try:
        found = await store.examine(deep=False)
        # A store that cannot be examined cannot be opened either: the error says why.
        if not dry_run or not found.layout:
            await store.open()
        return found.layout, found.newest_layout
    finally:
        await store.close()
