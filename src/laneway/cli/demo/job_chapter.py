"""The chapter about jobs: a job fires a few times, is disabled, and its next fires cross a change of the clock."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.cli.demo.screen import Row
from laneway.cli.shell.formats import spoken
from laneway.core.records.run import Run
from laneway.core.schedules import DailyAt, Every

if TYPE_CHECKING:
    from laneway.cli.demo.context import DemoContext

JOB = "heartbeat"
FIRES = 3
PUNCTUAL = timedelta(seconds=5)
LOOK = 0.02  # seconds
YEAR = 366  # fires of a daily rule


async def fire(demo: DemoContext) -> None:
    """A job fires every second, a few times, and is then disabled."""
    period = 1.0 if demo.screen.moving else 0.4
    row = Row(JOB, "pending", 0.0)
    await demo.app.jobs.create(JOB, Every(period), "embed", {"page": 0, "seconds": 0.05}, overlap="allow")
    async with demo.screen.rows([row]):
        while (done := await _succeeded(demo)) < FIRES:
            row.state, row.fraction, row.text = "running", done / FIRES, f"{done} of {FIRES} fires"
            await asyncio.sleep(LOOK)
        await demo.app.jobs.disable(JOB)
        before = (await demo.app.jobs.get(JOB)).fired
        row.state, row.fraction, row.text = "paused", 1.0, "disabled"
        await asyncio.sleep(2 * period)
    after = (await demo.app.jobs.get(JOB)).fired
    runs = [await demo.app.wait(run_id) for run_id in await _run_ids(demo)]
    demo.receipts += [run.id for run in runs]
    _tell(demo, runs, timedelta(seconds=period), quiet=before == after == len(runs))
    await _foresee(demo)


def _tell(demo: DemoContext, runs: Sequence[Run], period: timedelta, *, quiet: bool) -> None:
    nominal = [run.job.nominal_at for run in runs if run.job is not None]
    gaps = [later - earlier for earlier, later in itertools.pairwise(nominal)]
    # On a busy machine a fire may be late or missed, but no fire comes between two nominal times.
    in_step = all(gap > timedelta() and not gap % period for gap in gaps)
    late = max(run.accepted_at - at for run, at in zip(runs, nominal, strict=True))
    text = f"a job of every {spoken(period)} fired {len(runs)} times, one run each, at most {spoken(late)} late"
    text += "; disabled, it fired no more"
    demo.fact("fire", text, holds=quiet and in_step and late < PUNCTUAL)


async def _foresee(demo: DemoContext) -> None:
    """Check what a schedule does on the day without 02:30."""
    fires = await demo.app.jobs.preview(DailyAt(2, 30, tz="America/New_York"), YEAR)
    odd = [fire for fire in fires if fire.note is not None and fire.note.kind == "gap"]
    said = odd[0].note.text if odd and odd[0].note is not None else "no day without 02:30 was found"
    day = f"{odd[0].local:%Y-%m-%d}" if odd else "never"
    once = len({fire.local.date() for fire in fires}) == len(fires) == YEAR
    demo.fact("foresee", f"daily 02:30 in New York, on {day}: {said}", holds=bool(odd) and once)


async def _succeeded(demo: DemoContext) -> int:
    return sum(fire.state == "succeeded" for fire in await demo.app.jobs.runs(JOB))


async def _run_ids(demo: DemoContext) -> list[str]:
    return [fire.run_id for fire in reversed(await demo.app.jobs.runs(JOB)) if fire.run_id is not None]
