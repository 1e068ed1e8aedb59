"""The job environment of one process: the jobs that it declares, their conditions, and their time zones.

Functions are never stored. A job that is declared in code, or names a condition, is fired only by a process that has
them. All others leave it to those.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from laneway.core.jobs.record import JobRecord, JobSpec, Source, Verdict
from laneway.core.schedules.calendar.zones import checked_zone
from laneway.engine.common.threads import result_on_thread
from laneway.errors import BadSetting

log = logging.getLogger("laneway.jobs")

PATIENCE = 5.0  # seconds that a condition may take

OwnerZone = Callable[[str], str | None]


class JobEnvironment:
    """`tz` is the scheduler's time zone; `owner_zone`, called with a job's owner, may return another."""

    def __init__(self, tz: str = "UTC", owner_zone: OwnerZone | None = None) -> None:
        checked_zone(tz)
        self.tz, self._owner_zone = tz, owner_zone
        self.keeps_zones = False  # it does not know the app's zones: a job stays in the one of its plan
        self.declared: dict[str, JobSpec] = {}  # by code
        self.conditions: dict[str, Callable[[], Any]] = {}
        self._complained: dict[str, str] = {}  # what was complained about, and the last message
        self._under_way: dict[str, asyncio.Task[Any]] = {}  # plain conditions that have not returned yet

    def fires(self, spec: JobSpec) -> bool:
        """Tell whether this process may fire the job."""
        if spec.source is Source.CODE and spec.name not in self.declared:
            return False
        return spec.enabled_when is None or spec.enabled_when in self.conditions

    def zone(self, spec: JobSpec) -> str:
        """Return the time zone of a job whose schedule names none: its owner's, as of now, else the scheduler's."""
        if spec.owner is None or self._owner_zone is None:
            return self.tz
        try:
            found = self._owner_zone(spec.owner)
            checked_zone(found)
        except Exception as error:  # noqa: BLE001  # a user's function; the job must fire all the same
            self._complain(f"the time zone of {spec.owner!r}", error)
            return self.tz
        return found or self.tz

    def zone_of(self, job: JobRecord, spec: JobSpec | None = None) -> str:
        """Return the time zone of an existing job, or the one that it has with another `spec`; as `zone` does."""
        return job.state.zone if self.keeps_zones else self.zone(spec or job.spec)

    async def verdict(self, spec: JobSpec) -> Verdict | None:
        """Return the answer of the job's condition, None for yes. One that raises, or takes too long, means no."""
        if spec.enabled_when is None:
            return None
        condition = self.conditions[spec.enabled_when]
        try:
            answer = bool(await asyncio.wait_for(self._evaluated(spec.enabled_when, condition), PATIENCE))
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return self._gating_error(spec.enabled_when, error)
        except Exception as error:  # noqa: BLE001  # as above
            return self._gating_error(spec.enabled_when, error)
        return None if answer else Verdict.GATED

    def _gating_error(self, condition: str, error: BaseException) -> Verdict:
        self._complain(f"the condition {condition!r}", error)
        return Verdict.GATING_ERROR

    async def _evaluated(self, name: str, condition: Callable[[], Any]) -> Any:
        if inspect.iscoroutinefunction(condition):
            return await _unable_to_exit(condition())
        task = self._under_way.get(name)
        if task is None or task.done():
            # A thread of its own: a condition that hangs blocks nothing, not even the end of the process. One at a
            # time, or each fire would leave another thread behind.
            task = self._under_way[name] = asyncio.create_task(result_on_thread("laneway-condition", condition))
            task.add_done_callback(_retrieve_error)
        answer = await asyncio.shield(task)
        return await _unable_to_exit(answer) if inspect.isawaitable(answer) else answer

    def _complain(self, what: str, error: BaseException) -> None:
        answer = f"{type(error).__name__}: {error}"
        if self._complained.get(what) != answer:
            self._complained[what] = answer
            log.warning("%s: %s", what, answer)


async def _unable_to_exit(answer: Awaitable[Any]) -> Any:
    """Await a condition's answer. On a loop, sys.exit() in a condition would end the whole worker."""
    try:
        return await answer
    except SystemExit as error:
        raise RuntimeError(f"SystemExit: {error}") from error


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a condition that nobody waits for any more, or the loop would complain."""
    if not task.cancelled():
        task.exception()


def condition_name(condition: object) -> str:
    """Return the name under which a condition is registered."""
    name = getattr(condition, "__name__", None)
    if not callable(condition) or not isinstance(name, str):
        raise BadSetting(f"enabled_when is {condition!r}; it must be a function without parameters, or the name of one")
    return name
