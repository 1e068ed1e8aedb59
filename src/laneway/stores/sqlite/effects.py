"""What follows a commit."""

from __future__ import annotations

from collections.abc import Iterable


class Effects:
    """Whom to wake, as (incarnation, its socket), and whether events were written."""

    __slots__ = ("events", "wake")

    def __init__(self) -> None:
        self.wake: list[tuple[str, str | None]] = []
        self.events = False

    @classmethod
    def of(cls, parts: Iterable[Effects]) -> Effects:
        """Return the effects of several pieces of work as one."""
        whole = cls()
        for part in parts:
            whole.wake += part.wake
            whole.events = whole.events or part.events
        return whole
