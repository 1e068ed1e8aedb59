"""The status of a scheduler that works: what `app.status()` returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec


class ServiceHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One service: whether it is alive, since when, and how often it crashed and was started again."""

    name: str
    alive: bool
    since: datetime
    restarts: int = 0
    last_error: str | None = None


class LoopLag(msgspec.Struct, frozen=True):
    """How late the event loop is, in seconds: now, and at most in the last minute."""

    now: float = 0.0
    worst: float = 0.0


NO_LAG = LoopLag()


class StuckRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose handler was told to stop and has not: how many seconds ago that was, and its stack."""

    run_id: str
    task: str
    seconds: float
    stack: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler in this process, at this moment. `tasks` counts the running handlers by task.

    `file_error` says what is wrong with `laneway.toml`: then the file is not applied. `bad_jobs` are the jobs that are
    due and that this process cannot fire, by name, with the reason.
    """

    running: bool
    services: tuple[ServiceHealth, ...] = ()
    tasks: Mapping[str, int] = {}
    last_error: str | None = None
    stuck: tuple[StuckRun, ...] = ()
    loop_lag: LoopLag = NO_LAG
    file_error: str | None = None
    bad_jobs: Mapping[str, str] = {}

    @classmethod
    def of(
        cls,
        *,
        services: Iterable[ServiceHealth],
        executing: Iterable[str],
        stuck: Iterable[StuckRun] = (),
        loop_lag: LoopLag = NO_LAG,
        last_error: str | None = None,
        file_error: str | None = None,
        bad_jobs: Mapping[str, str] | None = None,
    ) -> Status:
        """Return the status of a scheduler that works; `executing` names the task of each running handler.

        >>> Status.of(services=[], executing=["add", "fail", "add"]).tasks
        {'add': 2, 'fail': 1}
        """
        return cls(
            running=True,
            services=tuple(services),
            tasks=dict(sorted(Counter(executing).items())),
            stuck=tuple(stuck),
            loop_lag=loop_lag,
            last_error=last_error,
            file_error=file_error,
            bad_jobs=bad_jobs or {},
        )

    @property
    def healthy(self) -> bool:
        """Whether it works, all its services are alive, and nothing is stuck."""
        return self.running and not self.stuck and all(service.alive for service in self.services)
