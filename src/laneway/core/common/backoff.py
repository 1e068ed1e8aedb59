"""How long to wait before what crashed is started again."""

from __future__ import annotations

import msgspec

FIRST = 0.1  # seconds
LONGEST = 30.0
SETTLED = 60.0  # seconds after which a life counts as a good one


class Backoff(msgspec.Struct, frozen=True):
    """Crashes in a row, and the wait they lead to: each makes it twice as long, a good life makes it short again.

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
        """Return what holds after a crash that ended a life of so many seconds."""
        return Backoff(1 if lived >= SETTLED else self.crashes + 1)
