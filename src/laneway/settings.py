"""All settings of a scheduler, in one frozen record that checks itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta

from laneway.core.common.checks import checked_count
from laneway.core.common.instants import SECOND, duration
from laneway.core.records.codec import ARGS_LIMIT, RESULT_LIMIT
from laneway.core.records.liveness import LEASE, RENEW_EVERY
from laneway.core.records.retention import KEEP, Retention, kept_for
from laneway.core.records.states import RunState
from laneway.core.schedules.calendar.zones import checked_zone
from laneway.errors import BadSetting

DEFAULT_URL = "sqlite:///laneway.db"
MAY_BE_NONE = ("grace", "stuck_drain", "submit_timeout")  # durations that may be 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a scheduler, without its store. A duration is a number of seconds or a `timedelta`.

    >>> Settings.of({"concurency": 3})
    Traceback (most recent call last):
    laneway.errors.BadSetting: unknown setting 'concurency', did you mean 'concurrency'?
    """

    concurrency: int = 50  # runs that one worker executes at the same time
    lease: float = LEASE / SECOND  # after so long without a renewal a worker has lapsed
    renew_every: float = RENEW_EVERY / SECOND
    grace: float = 10  # time for a cancelled handler to end, before it is stuck
    stuck_drain: float = 600  # when one handler is stuck, `laneway worker` ends after so long
    stall_after: float = 1  # an event loop that is blocked for so long is reported
    min_memory: float = 0  # megabytes that must be free for a run to start in this process; 0: not checked
    max_pressure: float = 0  # no run starts above this percentage of time waiting for memory; 0: not checked
    submit_timeout: float = 30  # how long a submission waits for a full lane whose policy is to wait
    busy_timeout: float = 5  # how long a call waits for a locked SQLite file
    args_limit: int = ARGS_LIMIT  # bytes of JSON
    result_limit: int = RESULT_LIMIT  # bytes of JSON
    max_children: int = 10  # follow-ups of one run, and calls of one run
    max_depth: int = 3  # generations of follow-ups and calls
    tz: str = "UTC"  # of jobs whose schedule and owner have no time zone
    keep_deltas: timedelta | float | None = 3600  # how long streamed text is kept after a run ends; None or 0: for ever
    retention: Retention = KEEP  # how long runs are kept; by state: {"failed": timedelta(days=30)}; None or 0: for ever

    def __post_init__(self) -> None:
        for name in ("concurrency", "args_limit", "result_limit", "max_children", "max_depth"):
            checked_count(getattr(self, name), name)
        for name in ("lease", "renew_every", "stall_after", "busy_timeout", *MAY_BE_NONE):
            length = duration(getattr(self, name), name)
            if length == 0 and name not in MAY_BE_NONE:
                raise BadSetting(f"{name} is 0; it must be more (seconds)")
            # The record is frozen for everybody else. A timedelta becomes seconds here, once.
            object.__setattr__(self, name, length / SECOND)
        for name in ("min_memory", "max_pressure"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise BadSetting(f"{name} is {value!r}; it must be a number, 0 or more")
        object.__setattr__(self, "keep_deltas", duration(self.keep_deltas or 0, "keep_deltas") / SECOND or None)
        kept_for(self.retention)
        if checked_zone(self.tz) is None:
            raise BadSetting("tz is None; it must be the name of a time zone")
        if self.renew_every * 2 > self.lease:
            raise BadSetting(
                f"renew_every is {self.renew_every} s and lease {self.lease} s;"
                " a lease must be at least two renewals long, or one late renewal loses it"
            )

    @property
    def kept_for(self) -> dict[RunState, int]:
        """For how many microseconds runs of each state are kept. A state that is absent is kept for ever."""
        return kept_for(self.retention)

    @property
    def deltas_kept_for(self) -> int | None:
        """For how many microseconds deltas are kept after a run's end; None: for ever."""
        return duration(self.keep_deltas, "keep_deltas") if self.keep_deltas else None

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Settings:
        """Return settings from a mapping. Raises BadSetting, which names the wrong setting."""
        known = {field.name for field in fields(cls)}
        for name in given:
            if name not in known:
                raise BadSetting.unknown("setting", name, known)
        return cls(**given)  # type: ignore[arg-type]  # __post_init__ checks the values
