"""Stories about the job that started a run."""

from __future__ import annotations

from laneway import Context
from tests.engine.telling import Story


def whose(ctx: Context, folder: str) -> Story:
    """Tell which job it was."""
    yield from ()
    return None if ctx.job is None else [ctx.job.id, ctx.job.name, ctx.job.nominal_at.isoformat()]
