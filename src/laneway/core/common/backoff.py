"""How long to wait before something that crashed is started again."""

from __future__ import annotations

import msgspec

FIRST = 0.1  # seconds
LONGEST = 30.0
SETTLED = 60.0  # a life of so many seconds counts as a good one


class Backoff(msgspec.Struct, frozen=True):
    """Crashes in a row, and the wait after them. Each crash doubles the wait; a good life resets it.

    >>> backoff = Backoff()
    >>> for _ in range(4):
    ...     backoff = backoff.after_crash(lived=1)
    >>> backoff.wait, backoff.after_crash(lived=60).wait
    (0.8, 0.1)
    """

    crashes: int = 0

    @property
    def wait(self) -> float:
        """Seconds to wait after the newest crash."""
        return min(FIRST * 2.0 ** min(self.crashes - 1, 32), LONGEST) if self.crashes else 0.0

    def after_crash(self, lived: float) -> Backoff:
        """Return the backoff after a crash that ended a life of so many seconds."""
        return Backoff(1 if lived >= SETTLED else self.crashes + 1)
