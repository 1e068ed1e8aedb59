"""The link of a run to the job that started it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from laneway.core.common.instants import instant
from laneway.core.records.retry import Retry


class Overlap(StrEnum):
    """What a fire does while an earlier run of its job has not ended."""

    SKIP = "skip"
    QUEUE = "queue"  # one run waits, the earliest
    INTERRUPT = "interrupt"
    ALLOW = "allow"


class JobTie(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The link of a run to its job: which job, for which nominal time, and on which terms."""

    id: str
    name: str
    at: int
    overlap: Overlap | None = None  # of a live fire; None: the run waits its turn
    by_hand: bool = False  # somebody started it, whatever the schedule says
    timeout: int | None = None
    retry: Retry | None = None

    @property
    def nominal_at(self) -> datetime:
        """The nominal time of the fire."""
        return instant(self.at)
