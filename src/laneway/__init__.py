"""laneway: accept work now, run it later, lose nothing.

One durable task scheduler for people who run agents and web apps in Python. Start with `Scheduler`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laneway.core.jobs.job import Job
    from laneway.core.records.breakers import Breaker
    from laneway.core.records.events import Event
    from laneway.core.records.policy import Lane, SessionPolicy
    from laneway.core.records.retry import Retry
    from laneway.core.records.run import Reason, Receipt, Run
    from laneway.core.schedules import AnyOf, At, Between, Cron, DailyAt, Every, Except, Monthly, Weekly
    from laneway.engine.client.submissions import Submission
    from laneway.engine.handlers.context import Context
    from laneway.errors import (
        BadArguments,
        BadSetting,
        GiveUp,
        JobChanged,
        JobExists,
        KeyConflict,
        LanewayError,
        NotWaiting,
        RunCancelled,
        RunDropped,
        RunFailed,
        Snooze,
        StepsChanged,
        StoreMoved,
        StoreUnavailable,
        UnknownJob,
        UnknownLane,
        UnknownRun,
        UnknownTask,
        WrongState,
    )
    from laneway.scheduler import Scheduler
else:
    # A name is imported when it is first asked for, so that `laneway --help` need not wait for the engine.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"laneway.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__all__ = [
    "AnyOf",
    "At",
    "BadArguments",
    "BadSetting",
    "Between",
    "Breaker",
    "Context",
    "Cron",
    "DailyAt",
    "Event",
    "Every",
    "Except",
    "GiveUp",
    "Job",
    "JobChanged",
    "JobExists",
    "KeyConflict",
    "Lane",
    "LanewayError",
    "Monthly",
    "NotWaiting",
    "Reason",
    "Receipt",
    "Retry",
    "Run",
    "RunCancelled",
    "RunDropped",
    "RunFailed",
    "Scheduler",
    "SessionPolicy",
    "Snooze",
    "StepsChanged",
    "StoreMoved",
    "StoreUnavailable",
    "Submission",
    "UnknownJob",
    "UnknownLane",
    "UnknownRun",
    "UnknownTask",
    "Weekly",
    "WrongState",
]

_NAMES = {
    "core.records.breakers": ("Breaker",),
    "core.records.events": ("Event",),
    "core.jobs.job": ("Job",),
    "core.records.policy": ("Lane", "SessionPolicy"),
    "core.records.retry": ("Retry",),
    "core.records.run": ("Reason", "Receipt", "Run"),
    "core.schedules": ("AnyOf", "At", "Between", "Cron", "DailyAt", "Every", "Except", "Monthly", "Weekly"),
    "engine.handlers.context": ("Context",),
    "errors": (
        "BadArguments",
        "BadSetting",
        "GiveUp",
        "JobChanged",
        "JobExists",
        "KeyConflict",
        "LanewayError",
        "NotWaiting",
        "RunCancelled",
        "RunDropped",
        "RunFailed",
        "Snooze",
        "StepsChanged",
        "StoreMoved",
        "StoreUnavailable",
        "UnknownJob",
        "UnknownLane",
        "UnknownRun",
        "UnknownTask",
        "WrongState",
    ),
    "engine.client.submissions": ("Submission",),
    "scheduler": ("Scheduler",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
