"""The store of the jobs of a command: that of an app, or the one at an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from laneway.cli.shell.errors import Problem
from laneway.cli.shell.target import APP, load, read_store

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

F = TypeVar("F", bound=Callable[..., Any])


def where_options(function: F) -> F:
    """Add `--app` and `--store`."""
    store = "The store's address.  [default: LANEWAY_STORE, else sqlite:///laneway.db]"
    function = click.option("--store", metavar="URL", help=store)(function)
    return click.option("--app", metavar="APP", help="Use the store of APP, and check tasks and arguments.")(function)


def owner_option(function: F) -> F:
    """Add `--owner`, which selects one of several jobs of a name."""
    return click.option("--owner", metavar="USER", help="The owner, if several jobs have that name.")(function)


def jobs_of(app: str | None, store: str | None) -> Scheduler:
    """Return the scheduler with the jobs.

    Only an app knows its time zone: without one, jobs that name no zone keep the zone that they were planned in.
    """
    if app and store:
        raise Problem("give --app or --store, not both: APP names its own store")
    if app:
        return load(app)
    scheduler = read_store(store)
    scheduler.jobs.keep_zones()
    return scheduler


def app_or_default(app: str | None, store: str | None) -> str | None:
    """Return the APP to use: the one given, else `LANEWAY_APP` unless a store is given."""
    import os

    return app or (None if store else os.environ.get(APP))
