"""The short and the long form of system tests, the stores that they run on, and their seeds."""

from __future__ import annotations

import os
import time
from random import Random

import pytest

LONG = bool(os.environ.get("LANEWAY_CHAOS"))  # the long form, of `make chaos`
SHORT_LEASE = {"lease": 3, "renew_every": 1}

# A test about real processes runs on SQLite and on Redis, and on PostgreSQL where it is short or `make chaos` runs it.
_long_on = {name: pytest.param(name, marks=pytest.mark.chaos) for name in ("redis", "postgres")}
on_all_stores = pytest.mark.parametrize("stage", ["sqlite", "redis", "postgres"], indirect=True)
on_both_stores = pytest.mark.parametrize("stage", ["sqlite", "redis", _long_on["postgres"]], indirect=True)
on_redis_in_chaos = pytest.mark.parametrize("stage", ["sqlite", *_long_on.values()], indirect=True)


def sized(short: int, long: int) -> int:
    """Return the number for the form of the test that is run."""
    return long if LONG else short


def time_limit(*, short: int = 120, long: int = 900) -> pytest.MarkDecorator:
    """Mark a test with the seconds that it may take."""
    return pytest.mark.timeout(sized(short, long))


def report(text: str) -> None:
    """Show a figure (with `pytest -s`, or when the test fails)."""
    print(f"\n  {text}", flush=True)  # noqa: T201 - figures are for people


def seeded() -> Random:
    """Return random numbers by LANEWAY_SEED or by a seed that is printed, so that a test can be repeated."""
    seed = int(os.environ.get("LANEWAY_SEED") or time.time_ns() % 1_000_000_000)
    report(f"LANEWAY_SEED={seed}")
    return Random(seed)
