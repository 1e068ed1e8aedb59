"""Where the jobs of a command are: in an app's store, or in the one at an address."""

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
    return click.option("--app", metavar="APP", help="Use APP's store, and check what is given against its tasks.")(
        function
    )


def owner_option(function: F) -> F:
    """Add `--owner`, which tells jobs of one name apart."""
    return click.option("--owner", metavar="USER", help="Whose job, if several have that name.")(function)


def jobs_of(app: str | None, store: str | None) -> Scheduler:
    """Return the scheduler whose jobs are meant; only an app knows the time zones of jobs that name none."""
    if app and store:
        raise Problem("give --app or --store, not both: APP says where its store is")
    if app:
        return load(app)
    scheduler = read_store(store)
    scheduler.jobs.keep_zones()
    return scheduler


def app_or_default(app: str | None, store: str | None) -> str | None:
    """Return the APP for a command that is better with one: `LANEWAY_APP`, unless a store is named."""
    import os

    return app or (None if store else os.environ.get(APP))
