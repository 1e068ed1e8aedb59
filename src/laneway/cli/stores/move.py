"""`laneway move`: move everything in a store to another store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.errors import FINE, Problem, say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import MEMORY, file_of

if TYPE_CHECKING:
    from laneway.cli.stores.move_progress import Watch
    from laneway.engine.mover import Done


@click.command(
    "move",
    cls=Command,
    examples=(
        "laneway move sqlite:///laneway.db postgresql://db.example/app",
        "laneway move redis://10.0.0.5 postgresql://db.example/app --wait 300",
        "laneway move sqlite:///laneway.db redis://10.0.0.5 --abort",
    ),
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=60.0,
    metavar="SECONDS",
    help="How long to wait for running runs.  [default: 60]",
)
@click.option("--overwrite", is_flag=True, help="Delete what TO contains, if it is not empty.")
@click.option("--abort", is_flag=True, help="Give up a move: FROM is open again, TO is emptied.")
@json_option("what was moved")
def move(source: str, target: str, wait: float, overwrite: bool, abort: bool, as_json: bool) -> int:
    """Move everything in the store FROM to the store TO.

    From SQLite, Redis or PostgreSQL to any of them. At the beginning FROM is shut: it accepts, claims and fires nothing
    more, and its callers receive the address of TO; workers let their running runs end and exit with 5. When nothing
    runs any more, everything is copied, both stores are compared, and TO is opened. Then change the address in your
    apps; FROM stays as it is, read-only.

    A move that was killed continues when it is started again with the same FROM and TO; until TO is opened, --abort
    undoes it. If runs still run after --wait, it exits with 7 and leaves FROM shut: start it again, or --abort. A TO
    that is not empty is refused with 5. If the comparison finds differences, TO is not opened, and it exits with 1.
    """
    _refuse_unfit(source, target)
    if abort:
        return _abort(source, target, as_json=as_json)
    from laneway.cli.shell.output import print_json
    from laneway.cli.stores.move_progress import watching
    from laneway.scheduler import place_of

    with watching(place_of(source), place_of(target), quiet=as_json) as watch:
        done = awaited(_moved(source, target, wait=wait, overwrite=overwrite, watch=watch))
    if as_json:
        told = {"v": 1, "move": done.move, "to": place_of(target), "moved": done.counts, "digest": done.digest}
        print_json(told | {"before": done.before})
    elif done.before:
        say(f"the move to {place_of(target)}{_begun(done.move)} is done: {_told(done.counts)}; there is nothing to do")
    else:
        say(f"moved {_told(done.counts)} to {place_of(target)}; both sides hold the same")
        say("  point your apps there now: submit and worker on the old address end with 5 and say so")
    return FINE


def _refuse_unfit(source: str, target: str) -> None:
    from laneway.errors import SameStore
    from laneway.scheduler import place_of

    for url in (source, target):
        if url.startswith(MEMORY):
            raise Problem(f"{place_of(url)} lives inside one process and ends with it; there is nothing to move")
    # The mover detects all other cases. A file that is opened under two names may be damaged.
    if source == target or _is_same_file(source, target):
        raise SameStore(place_of(source), place_of(target))


def _is_same_file(source: str, target: str) -> bool:
    here, there = file_of(source), file_of(target)
    try:
        return here is not None and there is not None and here.samefile(there)
    except OSError:
        return False  # one of them does not exist


def _abort(source: str, target: str, *, as_json: bool) -> int:
    from laneway.cli.shell.errors import CONFLICT
    from laneway.cli.shell.output import print_json
    from laneway.scheduler import place_of

    done = awaited(_aborted(source, target))
    if as_json:
        print_json({"v": 1, "aborted": done})
    elif done:
        say(f"the move is given up: {place_of(source)} is open again; start its workers")
    else:
        say(f"laneway: {place_of(source)} is not being moved; there is nothing to give up")
    return FINE if done else CONFLICT


def _begun(move: str) -> str:
    """Return when a move began, if its id has the time."""
    from datetime import UTC, datetime

    from laneway.engine.common.ids import made_at

    at = made_at(move)
    return "" if at is None else f", begun {datetime.fromtimestamp(at // 1000, UTC):%Y-%m-%dT%H:%M:%SZ},"


def _told(counts: dict[str, int]) -> str:
    words = {"run": "run", "job": "job", "session": "session", "lane": "lane"}
    told = [f"{counts[kind]:,} {word}{'s' * (counts[kind] != 1)}" for kind, word in words.items() if counts.get(kind)]
    return ", ".join(told) or "nothing"


async def _moved(source: str, target: str, *, wait: float, overwrite: bool, watch: Watch) -> Done:
    from laneway.cli.stores.move_progress import opened

    async with opened(source, target, wait=wait, overwrite=overwrite, watch=watch) as mover:
        return await mover.move()


async def _aborted(source: str, target: str) -> bool:
    from laneway.cli.stores.move_progress import opened

    async with opened(source, target) as mover:
        return await mover.abort()
