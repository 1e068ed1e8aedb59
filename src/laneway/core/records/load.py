"""Adaptive concurrency: a session whose conversation fills its context window gets one run at a time."""

from __future__ import annotations

from typing import Any

from laneway.errors import BadSetting

FULL = 0.6  # from this share of its window on, a session is throttled


def throttled(load: object) -> bool | None:
    """Return whether this load throttles a session: a share, or (used, window). None if the load is None.

    >>> throttled((70_000, 100_000)), throttled(0.2), throttled(None), throttled((5, 0))
    (True, False, None, False)
    >>> throttled("much")
    Traceback (most recent call last):
    laneway.errors.BadSetting: a load is a share of the window (0.6), or (used, window), not 'much'
    """
    if load is None:
        return None
    pair: tuple[Any, ...] = load if isinstance(load, tuple) and len(load) == 2 else (load, 1)
    used, window = pair
    if not _is_number(used) or not _is_number(window) or used < 0 or window < 0:
        raise BadSetting(f"a load is a share of the window (0.6), or (used, window), not {load!r}")
    # A window of 0 cannot be full.
    return bool(window and used >= FULL * window)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124  # nan
