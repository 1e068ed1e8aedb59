"""Hints for people: the option that names the store again, and a warning about unknown tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler


def store_words(store: str | None) -> str:
    """Return the `--store` option of a command to paste; dots replace user and password."""
    if not store:
        return ""
    import shlex

    from laneway.core.common.addresses import to_paste

    return f" --store {shlex.quote(to_paste(store))}"


async def unknown_task(
    scheduler: Scheduler, name: str, *, then: str = "its runs wait for one", if_none_is_up: bool = False
) -> str:
    """Return a warning that no worker that is up knows the task, and what follows; nothing if one knows it.

    If no worker is up at all, this says nothing about the name: there is a warning only with `if_none_is_up`.
    """
    from laneway.errors import did_you_mean

    known = [state.name for state in await scheduler.tasks.list() if state.workers]
    if name in known or not (known or if_none_is_up):
        return ""
    return f"no worker that is up knows task {name!r}{did_you_mean(name, known) or f'; {then}'}"
