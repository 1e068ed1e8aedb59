"""What ties a run to the job that started it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from laneway.core.common.instants import instant
from laneway.core.records.retry import Retry


class Overlap(StrEnum):
    """What a fire does while an earlier one of the job has not ended."""

    SKIP = "skip"
    QUEUE = "queue"  # one waits, the earliest
    INTERRUPT = "interrupt"
    ALLOW = "allow"


class JobTie(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What ties a run to the job that started it: which, for what nominal time, and on which terms."""

    id: str
    name: str
    at: int
    overlap: Overlap | None = None  # of a live fire; None waits its turn
    by_hand: bool = False  # somebody asked for it, whatever the schedule says
    timeout: int | None = None
    retry: Retry | None = None

    @property
    def nominal_at(self) -> datetime:
        """The time that it was started for."""
        return instant(self.at)
