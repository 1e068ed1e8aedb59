"""What a scheduler's runs have in their event logs."""

from __future__ import annotations

from laneway import Event, Receipt, Scheduler


async def log_of(app: Scheduler, run: Receipt | str) -> list[Event]:
    """Return the events of a run that has ended."""
    return [event async for event in app.events(run)]


async def kinds_of(app: Scheduler, run: Receipt | str) -> list[str]:
    """Return the kinds of the events there are now, whether the run has ended or not."""
    store = await app.open()
    return [event.kind for event in await store.events(run if isinstance(run, str) else run.run_id)]
