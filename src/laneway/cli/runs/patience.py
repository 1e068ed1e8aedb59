"""Submitting to a lane that may be full and lets its callers wait: whoever looks on is told that they do, and why."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from laneway.cli.shell.errors import say
from laneway.cli.shell.formats import spoken
from laneway.core.records.policy import MAIN, WhenFull
from laneway.errors import LanewayError

if TYPE_CHECKING:
    from laneway.core.records.run import Receipt
    from laneway.scheduler import Scheduler

SILENT = 0.5  # seconds; a submission that takes no longer needs no words


async def submitted(
    scheduler: Scheduler, task: str, args: Mapping[str, Any], options: Mapping[str, Any], *, lane: str
) -> Receipt:
    """Submit a run and return its receipt; `lane` is the one that it is for."""
    telling = asyncio.create_task(_tell(scheduler, lane))
    try:
        return await scheduler.submit(task, args, **options)
    finally:
        telling.cancel()


async def _tell(scheduler: Scheduler, name: str) -> None:
    await asyncio.sleep(SILENT)
    # What is wrong with the store is for the submission to say.
    with contextlib.suppress(LanewayError):
        lanes = {state.lane.name: state for state in await scheduler.lanes.list()}
        state = lanes.get(name) or lanes[MAIN]
        bound = state.lane.max_pending
        if bound is not None and state.pending >= bound and state.lane.when_full == WhenFull.WAIT:
            patience = spoken(scheduler.settings.submit_timeout)
            full = f"lane {state.lane.name} is full ({state.pending} of {bound} pending)"
            say(f"{full}; waiting up to {patience} for room, nothing is submitted before")
