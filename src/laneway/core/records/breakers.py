"""The breaker: after so many failures in a row nothing more is started for a while, then one is tried.

A *circuit* is what is remembered of one key: a task, a task and a user, or a job. Closed, it counts failures in a row;
a success takes it back to nothing. At the breaker's number it opens, for all processes, and what it covers is held.
When its time is over it is *half open*: one run is let through as the probe. The probe's success closes the circuit,
its failure opens it again, also that its worker died; if it comes to neither (cancelled, given back, waiting), the next
one is the probe.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

import msgspec

from laneway.core.common.checks import checked_choice, checked_count
from laneway.core.common.instants import duration
from laneway.errors import BadSetting


class Per(StrEnum):
    """Whose failures a task's breaker counts together."""

    TASK = "task"
    USER = "user"  # each user of the task by itself


class Breaker(msgspec.Struct, frozen=True):
    """After `failures` in a row start nothing more for `open_for` (seconds), then try one.

    On a task, `per` says whether all its runs count together ("task") or each user's by themselves ("user"). With
    `disable` it does not close by itself: what it covers, the task or the job, is disabled until somebody enables it.

    >>> Breaker(0)
    Traceback (most recent call last):
    laneway.errors.BadSetting: Breaker.failures is 0; it must be a whole number, 1 or more
    """

    failures: int = 5
    open_for: timedelta | float = 300
    disable: bool = False
    per: str = Per.TASK

    def __post_init__(self) -> None:
        checked_count(self.failures, "Breaker.failures")
        length = duration(self.open_for, "Breaker.open_for")
        if length == 0:
            raise BadSetting("Breaker.open_for is 0; give the seconds after which one run is tried")
        if not isinstance(self.disable, bool):
            raise BadSetting(f"Breaker.disable is {self.disable!r}; it must be True or False")
        choose = msgspec.structs.force_setattr
        choose(self, "open_for", timedelta(microseconds=length))
        choose(self, "per", checked_choice(Per, self.per, "per"))
        if self.disable and self.per is Per.USER:
            raise BadSetting('a breaker per user cannot disable the task for all; leave out disable, or per="user"')

    @property
    def length(self) -> int:
        """How long it stays open, in microseconds."""
        return duration(self.open_for, "Breaker.open_for")


class Phase(StrEnum):
    """How a circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Circuit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of one key: failures in a row, until when it is open, and which run is the probe.

    `until` stays after its time is over: the circuit is half open then, until a probe succeeds. The `probe` is the
    number and the fence of its run, so it belongs to that lease.
    """

    failures: int = 0
    until: int | None = None
    probe: tuple[int, int] | None = None

    def phase(self, now: int) -> Phase:
        """Return how it stands at that time."""
        if self.until is None:
            return Phase.CLOSED
        return Phase.OPEN if now < self.until else Phase.HALF_OPEN

    def lets_start(self, now: int) -> bool:
        """Tell whether one more run may start."""
        phase = self.phase(now)
        return phase is Phase.CLOSED or (phase is Phase.HALF_OPEN and self.probe is None)

    def started(self, number: int, fence: int, now: int) -> Circuit:
        """Return it once that run was started: the probe, if it is half open."""
        if self.phase(now) is not Phase.HALF_OPEN or self.probe is not None:
            return self
        return msgspec.structs.replace(self, probe=(number, fence))

    def failed(self, breaker: Breaker, number: int, fence: int, now: int) -> Circuit:
        """Return it after a failure under that lease.

        While it is open or half open only the probe's counts: what was started before tells nothing new.
        """
        if self.until is not None and self.probe != (number, fence):
            return self
        failures = self.failures + 1
        opens = self.until is not None or failures >= breaker.failures
        return Circuit(failures=failures, until=now + breaker.length if opens else None)

    def succeeded(self, number: int, fence: int) -> Circuit:
        """Return it after a success under that lease."""
        return self if self.until is not None and self.probe != (number, fence) else CLOSED

    def let_go(self, number: int, fence: int) -> Circuit:
        """Return it after that lease ended without telling anything."""
        return msgspec.structs.replace(self, probe=None) if self.probe == (number, fence) else self


CLOSED = Circuit()
