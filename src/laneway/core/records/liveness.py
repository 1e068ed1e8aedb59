"""Which workers are alive: leases by incarnation, judged by renewal.

An incarnation is one life of one worker process. It holds all its leases by renewing itself, with one write for the
whole process. It loses them in one of two ways. It *left*: it said so, or its process is seen to be gone. Or it
*lapsed*: a lease length went by without a renewal. A lapse counts only while workers could reach the store. If nobody
renewed for half a lease, that is an outage (or a clock that jumped), and the next renewal starts a grace of one lease.
A clock that was set back by as much starts a grace too.
"""

from __future__ import annotations

import msgspec

from laneway.core.common.instants import SECOND

RENEW_EVERY = 5 * SECOND
LEASE = 15 * SECOND


class ProcessMark(msgspec.Struct, frozen=True):
    """The identity of one process of one machine, so that another process there can see that it is gone."""

    boot: str
    namespace: str
    pid: int
    started: int


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """One life of one worker process, as it registers with a store."""

    id: str
    host: str
    process: ProcessMark
    tasks: frozenset[str]
    jobs: frozenset[str] = frozenset()  # names of the jobs that its code declares
    lease: int = LEASE
    concurrency: int = 1


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An incarnation as the store knows it. One that has left is listed only while it holds leases."""

    incarnation: Incarnation
    renewed_at: int
    running: int
    idle: bool
    left: bool = False
    short: bool = False  # short of memory: it takes no runs

    def is_up(self, now: int) -> bool:
        """Tell whether it has renewed within its lease. A worker that died silently is listed and is not up."""
        return not self.left and abs(now - self.renewed_at) <= self.incarnation.lease


class Heartbeat(msgspec.Struct, frozen=True):
    """When any worker last renewed, and until when lapses do not count."""

    renewed_at: int = 0
    grace_until: int = 0

    def after_renewal(self, now: int, lease: int) -> Heartbeat:
        """Return the heartbeat after a renewal at `now` by a worker with this lease length.

        >>> Heartbeat(renewed_at=1, grace_until=0).after_renewal(5, lease=15).grace_until
        0
        >>> Heartbeat(renewed_at=1, grace_until=0).after_renewal(10, lease=15).grace_until
        25
        """
        silence = now - self.renewed_at if self.renewed_at else 0
        if abs(silence) <= lease // 2:
            return Heartbeat(max(now, self.renewed_at), self.grace_until)
        # After the clock was set back, the old end of a grace may be years ahead, so it must not be kept.
        return Heartbeat(now, now + lease if silence < 0 else max(now + lease, self.grace_until))

    def lapsed(self, renewed_at: int, lease: int, now: int) -> bool:
        """Tell whether an incarnation that last renewed at `renewed_at` has lapsed, and the lapse counts.

        >>> Heartbeat(20, 0).lapsed(renewed_at=1, lease=15, now=20)
        True
        >>> Heartbeat(20, 30).lapsed(renewed_at=1, lease=15, now=20)
        False
        """
        # A renewal in the future was made before the clock was set back, and there was none since.
        return now >= self.grace_until and abs(now - renewed_at) > lease
