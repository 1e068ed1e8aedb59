"""For tests of code that uses laneway.

FakeClock                a clock moved by hand
Hand, new_run, new_runs  a worker moved by hand, and what it works on
laneway.testing.servers  private Valkey, Redis and PostgreSQL servers
"""

from __future__ import annotations

from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs

__all__ = ["FakeClock", "Hand", "new_run", "new_runs"]
