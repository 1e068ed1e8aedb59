"""The options that say which runs are meant: the same for every command that takes many."""

from __future__ import annotations

import click


def filter_options(function: click.decorators.FC) -> click.decorators.FC:
    """Add `--state`, `--task`, `--lane`, `--user` and `--session`."""
    options = (
        click.option("--state", metavar="STATE", help="Only runs in this state: pending, running, succeeded, ..."),
        click.option("--task", metavar="NAME", help="Only runs of this task."),
        click.option("--lane", metavar="NAME", help="Only runs in this lane."),
        click.option("--user", metavar="KEY", help="Only runs of this user."),
        click.option("--session", metavar="KEY", help="Only runs of this session."),
    )
    for option in reversed(options):  # the last one applied is shown first
        function = option(function)
    return function
