"""For tests of laneway, of stores made elsewhere, and of code that uses laneway.

FakeClock        a clock moved by hand
Hand, new_run    a worker moved by hand, and what it works on
LossyStore       any store behind a line that fails
StoreContract    the suite every store passes: subclass it and give it a `store` fixture (needs pytest)
check_invariants what holds after every command; check_drains: that everything comes to its end
laneway.testing.servers  private Valkey and Redis servers
laneway.testing.model    random commands, compared with the memory store (needs hypothesis)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.testing.clock import FakeClock
from laneway.testing.doors import ManyDoors
from laneway.testing.faults import LossyStore
from laneway.testing.hand import Hand, new_run, new_runs
from laneway.testing.invariants import all_runs, check_drains, check_invariants, check_limits

if TYPE_CHECKING:
    from laneway.testing.contract import StoreContract as StoreContract

__all__ = [
    "FakeClock",
    "Hand",
    "LossyStore",
    "ManyDoors",
    "StoreContract",
    "all_runs",
    "check_drains",
    "check_invariants",
    "check_limits",
    "new_run",
    "new_runs",
]


def __getattr__(name: str) -> object:
    # Late, because only those who test stores have pytest and pytest-asyncio.
    if name == "StoreContract":
        import pytest

        pytest.register_assert_rewrite("laneway.testing.contract")
        from laneway.testing.contract import StoreContract

        return StoreContract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
