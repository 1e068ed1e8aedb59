"""Asking the load function that a scheduler was given."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import iscoroutine

from laneway.core.records.load import throttled

log = logging.getLogger("laneway")

Load = Callable[[str], object]


class SessionLoads:
    """Asks `load`, a plain function of a session's name, whether the session is throttled.

    It must be quick: it is called on the loop. One that raises or answers nonsense is reported, and changes nothing.
    """

    def __init__(self, load: Load | None) -> None:
        self._load = load

    def __call__(self, session: str) -> bool | None:
        """Return whether the session is throttled now; None if nobody can tell."""
        if self._load is None:
            return None
        try:
            answer = self._load(session)
            if iscoroutine(answer):
                answer.close()
                raise TypeError("the load function is async; it must be a plain function")
            return throttled(answer)
        except Exception as error:  # noqa: BLE001  # a message must not get stuck because somebody cannot count
            log.warning("the load of session %s cannot be told: %s: %s", session, type(error).__name__, error)
            return None
