"""The circuit breaker: after so many failures in a row nothing more starts for a while, then one run is tried.

A *circuit* is the state of one key: a task, a task and a user, or a job. Closed, it counts failures in a row; a success
resets the count. At the breaker's number it opens, for all processes, and holds the runs that it covers. When its time
is over it is *half open*: one run may start, the probe. If the probe succeeds the circuit closes. If it fails, or its
worker dies, the circuit opens again. If it does neither (it is cancelled, given back, or waits), the next run is the
probe.
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
    USER = "user"  # each user of the task apart


class Breaker(msgspec.Struct, frozen=True):
    """After `failures` in a row start nothing for `open_for` (seconds), then try one run.

    On a task, `per` says whether all its runs count together ("task") or each user's apart ("user"). With `disable` the
    circuit does not close by itself: the task or the job is disabled until somebody enables it.

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
        """How long a circuit stays open, in microseconds."""
        return duration(self.open_for, "Breaker.open_for")


class Phase(StrEnum):
    """The three phases of a circuit."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Circuit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one key: failures in a row, until when it is open, and which run is the probe.

    `until` stays set when its time is over: then the circuit is half open, until a probe succeeds. `probe` is the
    number and the fence of a run, so it means one lease.
    """

    failures: int = 0
    until: int | None = None
    probe: tuple[int, int] | None = None

    def phase(self, now: int) -> Phase:
        """Return the phase at that time."""
        if self.until is None:
            return Phase.CLOSED
        return Phase.OPEN if now < self.until else Phase.HALF_OPEN

    def lets_start(self, now: int) -> bool:
        """Tell whether one more run may start."""
        phase = self.phase(now)
        return phase is Phase.CLOSED or (phase is Phase.HALF_OPEN and self.probe is None)

    def started(self, number: int, fence: int, now: int) -> Circuit:
        """Return the circuit after that run was started; if it was half open, the run is the probe."""
        if self.phase(now) is not Phase.HALF_OPEN or self.probe is not None:
            return self
        return msgspec.structs.replace(self, probe=(number, fence))

    def failed(self, breaker: Breaker, number: int, fence: int, now: int) -> Circuit:
        """Return the circuit after a failure under that lease.

        While it is open or half open, only the probe's failure counts: other runs started before it opened.
        """
        if self.until is not None and self.probe != (number, fence):
            return self
        failures = self.failures + 1
        opens = self.until is not None or failures >= breaker.failures
        return Circuit(failures=failures, until=now + breaker.length if opens else None)

    def succeeded(self, number: int, fence: int) -> Circuit:
        """Return the circuit after a success under that lease."""
        return self if self.until is not None and self.probe != (number, fence) else CLOSED

    def let_go(self, number: int, fence: int) -> Circuit:
        """Return the circuit after that lease ended without success or failure."""
        return msgspec.structs.replace(self, probe=None) if self.probe == (number, fence) else self


CLOSED = Circuit()
