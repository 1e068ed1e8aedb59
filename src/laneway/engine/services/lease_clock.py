"""Until when no other worker can have taken over from an incarnation, by this process's own clock.

A process that was stopped (SIGSTOP, a debugger, a machine that swaps) does not notice it, and would go on as if no time
had passed. But its clock has advanced. So an incarnation that has not renewed for a lease must check what it still
holds before it starts anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from laneway.ports.clock import Clock


class LeaseClock:
    """The renewals of one incarnation, which begins now. Any thread may renew; the loop reads."""

    def __init__(self, clock: Clock, lease: float) -> None:
        self._clock, self._lease = clock, lease
        self._until = clock.monotonic() + lease

    @property
    def may_have_lapsed(self) -> bool:
        """Whether more than a lease has passed between two renewals, or since the last, and was not checked yet."""
        return self._clock.monotonic() > self._until

    @contextmanager
    def renewal(self) -> Iterator[None]:
        """Count the block as a renewal of the incarnation, unless it raises.

        It counts from before the call: the store renewed later, so the store does not see a lapse earlier. A renewal
        that comes back too late does not count: the incarnation lives, but a run of it may have been ended meanwhile.
        """
        at = self._clock.monotonic()
        yield
        if not self.may_have_lapsed:
            # Race: of two renewals at the same time, the earlier may be recorded last. Then the worker checks once too
            # often.
            self._until = at + self._lease

    def checked(self, at: float) -> None:
        """Record that the worker renewed at that time, and then checked what it holds."""
        self._until = at + self._lease
