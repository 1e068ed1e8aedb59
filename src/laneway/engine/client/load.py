"""Calls the `load` function of a scheduler."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import iscoroutine

from laneway.core.records.load import throttled

log = logging.getLogger("laneway")

Load = Callable[[str], object]


class SessionLoads:
    """Calls `load`, a plain function of a session's name, to find out whether the session is throttled.

    It must be quick, because the event loop calls it. If it raises or returns nonsense, that is logged and changes
    nothing.
    """

    def __init__(self, load: Load | None) -> None:
        self._load = load

    def __call__(self, session: str) -> bool | None:
        """Return whether the session is throttled now; None if it is not known."""
        if self._load is None:
            return None
        try:
            answer = self._load(session)
            if iscoroutine(answer):
                answer.close()
                raise TypeError("the load function is async; it must be a plain function")
            return throttled(answer)
        except Exception as error:  # noqa: BLE001  # a message must not fail because of a faulty function
            log.warning("the load of session %s is not known: %s: %s", session, type(error).__name__, error)
            return None
