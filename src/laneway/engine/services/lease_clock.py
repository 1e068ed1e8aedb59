"""Until when nobody can have taken over from an incarnation, by this process's own clock.

A process that stands still (SIGSTOP, a debugger, a machine that swaps) does not know it, and what it does next it does
as if no time had passed. But its clock has gone on: whoever has not been renewed for a lease asks before it begins
anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from laneway.ports.clock import Clock


class LeaseClock:
    """The renewals of one incarnation, which begins now: made on any thread, asked for on the loop."""

    def __init__(self, clock: Clock, lease: float) -> None:
        self._clock, self._lease = clock, lease
        self._until = clock.monotonic() + lease

    @property
    def may_have_lapsed(self) -> bool:
        """Tell whether ever more than a lease has passed between two renewals, or since the last, and nobody asked."""
        return self._clock.monotonic() > self._until

    @contextmanager
    def made(self) -> Iterator[None]:
        """Note that what is called inside renews the incarnation. What raises does not.

        Counted from before the call: the store did it later, so it takes nobody for lapsed sooner. One that is answered
        too late does not count: the incarnation lives, but a run of it may have been ended meanwhile.
        """
        at = self._clock.monotonic()
        yield
        if not self.may_have_lapsed:
            # Race: of two at once the earlier may be noted last. Then the worker asks once more than it need.
            self._until = at + self._lease

    def checked(self, at: float) -> None:
        """Hear that the worker has renewed, and asked what it holds, since then."""
        self._until = at + self._lease
