"""The progress of a move: a bar for each stage on a terminal, a line for each elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from laneway.cli.shell.errors import say
from laneway.cli.shell.output import console
from laneway.engine.common.clock import SystemClock
from laneway.engine.mover import Mover, Progress, Side, Stage
from laneway.scheduler import place_of, store_at
from laneway.settings import Settings

Watch = Callable[[Progress], None]

_SAID = {
    Stage.WAITING: "waiting for runs that are executed",
    Stage.COPYING: "copying",
    Stage.CHECKING: "comparing both sides",
}


@contextlib.contextmanager
def watching(source: str, target: str, *, quiet: bool) -> Iterator[Watch]:
    """Show the progress of a move on stderr, unless it is to be quiet."""
    out = console(stderr=True)
    if quiet:
        yield lambda _: None
        return
    heading = f"moving {source} to {target}; Ctrl-C stops here, the same command goes on, --abort gives up"
    if not out.is_terminal:
        yield _in_lines(heading)
        return
    columns = (TextColumn("  {task.description:<36}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=out) as bars:
        yield _in_bars(bars, heading)


def _in_lines(heading: str) -> Watch:
    told: set[Stage] = set()

    def tell(progress: Progress) -> None:
        if not told:
            say(heading)
        if progress.stage not in told:
            told.add(progress.stage)
            say(f"  {_SAID[progress.stage]}: {progress.total} run{'s' * (progress.total != 1)}")

    return tell


def _in_bars(bars: Bars, heading: str) -> Watch:
    shown: dict[Stage, TaskID] = {}
    most: dict[Stage, int] = {}

    def tell(progress: Progress) -> None:
        stage = progress.stage
        if not shown:
            bars.console.print(heading)
        if stage not in shown:
            shown[stage] = bars.add_task(_SAID[stage], total=progress.total)
        total, done = progress.total, progress.done
        if stage is Stage.WAITING:
            # The bar counts those that ran at first and have ended.
            most[stage] = max(most.get(stage, 0), progress.total)
            total, done = most[stage], most[stage] - progress.total
        else:
            for before in set(shown.values()) - {shown[stage]}:
                bars.update(before, completed=bars.tasks[before].total)
        bars.update(shown[stage], total=total, completed=done)

    return tell


@contextlib.asynccontextmanager
async def opened(
    source: str, target: str, *, wait: float = 0.0, overwrite: bool = False, watch: Watch = lambda _: None
) -> AsyncIterator[Mover]:
    """Open both stores and yield the mover."""
    clock, settings = SystemClock(), Settings()
    here, there = (Side(store_at(url, clock, settings), place_of(url)) for url in (source, target))
    try:
        # Opening a store that does not exist would create it.
        await here.store.examine(deep=False)
        await here.store.open()
        await there.store.open()
        yield Mover(here, there, clock, wait=wait, overwrite=overwrite, report=watch)
    finally:
        await here.store.close()
        await there.store.close()
