"""A script that returns the job that started its run."""

from __future__ import annotations

from laneway import Context
from tests.support.scripts.runner import Script


def whose(ctx: Context, folder: str) -> Script:
    """Return the job's names and the nominal time."""
    yield from ()
    return None if ctx.job is None else [ctx.job.id, ctx.job.name, ctx.job.nominal_at.isoformat()]
