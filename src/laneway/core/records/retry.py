"""When a failed attempt is tried again."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from laneway.core.common.instants import SECOND, duration
from laneway.core.common.jitter import share
from laneway.errors import BadSetting

LARGEST_FACTOR = 1000


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a task's failed attempts are retried, and how long apart.

    `attempts` counts the first one: 3 means two retries. The wait before attempt n is `base * factor ** (n - 2)`
    seconds, at most `cap`, then moved by up to `jitter` (a share of it) either way. The jitter is a hash of run and
    attempt, so every process computes the same. `on_timeout=False` fails a run at its first time-out.

    >>> Retry(attempts=3).delay_before(2), Retry(attempts=3).delay_before(4)
    (2000000, None)
    >>> [Retry.delays(60, 240, 960).delay_before(n) for n in (2, 3, 4, 5)]
    [60000000, 240000000, 960000000, None]
    """

    attempts: int = 3
    base: float = 2
    factor: float = 2
    cap: float = 30
    jitter: float = 0.25
    on_timeout: bool = True
    steps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool) or self.attempts < 1:
            raise BadSetting(f"Retry(attempts={self.attempts!r}): it must be a whole number, 1 or more")
        for name in ("base", "cap"):
            duration(getattr(self, name), f"Retry.{name}")
        if not _is_number(self.factor) or not 1 <= self.factor <= LARGEST_FACTOR:
            raise BadSetting(f"Retry(factor={self.factor!r}): it must be a number, 1 to {LARGEST_FACTOR}")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise BadSetting(f"Retry(jitter={self.jitter!r}): it is a share, 0 to 1")
        if self.steps and self.attempts != len(self.steps) + 1:
            raise BadSetting(f"Retry has {len(self.steps)} steps for {self.attempts} attempts; use Retry.delays(...)")

    @classmethod
    def delays(cls, *seconds: float | timedelta, on_timeout: bool = True) -> Retry:
        """Return a policy of fixed waits: one retry after each, without jitter."""
        steps = tuple(duration(step, "Retry.delays") / SECOND for step in seconds)
        return cls(attempts=len(steps) + 1, jitter=0, on_timeout=on_timeout, steps=steps)

    def delay_before(self, attempt: int, run_id: str = "") -> int | None:
        """Return the wait before `attempt` in microseconds, or None to give up.

        Attempts count from 1, so the first retry is attempt 2. Without a run id there is no jitter.
        """
        if attempt > self.attempts:
            return None
        if self.steps:
            return round(self.steps[attempt - 2] * SECOND)
        # Exponent and factor are bounded so that a float never overflows. The cap is much lower than that.
        plain = min(self.base * self.factor ** min(attempt - 2, 64), self.cap)
        shift = (2 * share(f"{run_id}/{attempt}") - 1) * self.jitter if run_id else 0.0
        return round(plain * (1 + shift) * SECOND)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
