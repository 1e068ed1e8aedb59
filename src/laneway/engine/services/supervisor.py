"""The supervisor: keeps the services of a worker alive.

A service is a coroutine that should never end. It may end in three ways. It is *stopped*. Or its *lease is lost*: the
incarnation is over, so the service is not started again. Everything else is a *crash*, even a plain return or a stray
cancellation: it is logged, reported, and the service is started again after a wait that grows with each crash in a row
(`core.common.backoff`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from laneway.core.common.backoff import Backoff
from laneway.core.common.instants import instant
from laneway.core.records.status import ServiceHealth
from laneway.errors import LeaseLost
from laneway.ports.clock import Clock

log = logging.getLogger("laneway.supervisor")

Run = Callable[[], Awaitable[None]]
STOP_WITHIN = 5.0  # seconds for cancelled services to end
ERROR_LIMIT = 500  # characters of an error that health shows


class Supervisor:
    """Runs services by name, each in a task of its own. `crashed` is called after each crash was logged."""

    def __init__(self, clock: Clock, crashed: Callable[[ServiceHealth], None] | None = None) -> None:
        self._clock, self._crashed = clock, crashed
        self._services: dict[str, _Service] = {}
        self.last_error: str | None = None  # the newest crash of all services

    def add(self, name: str, run: Run) -> None:
        """Start a service. `run` is called for each of its lives. The name of an ended service may be used again."""
        known = self._services.get(name)
        if known is not None and not known.ended:
            raise ValueError(f"service {name!r} is there already; stop it first")
        service = self._services[name] = _Service(name, run, self._now())
        service.task = asyncio.get_running_loop().create_task(self._keep(service), name=f"laneway-{name}")

    async def stop(self, *names: str) -> None:
        """Stop the named services, or all of them; return when they have ended. Their health can still be read."""
        services = [self._services[name] for name in names] if names else list(self._services.values())
        tasks = [service.stop() for service in services if not service.ended]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_WITHIN)
            for task in late:
                log.error("%s was cancelled and has not ended after %g s", task.get_name(), STOP_WITHIN)

    def health(self) -> list[ServiceHealth]:
        """Return the health of every service, in the order they were added; any thread may call it."""
        return [service.health() for service in list(self._services.values())]

    async def _keep(self, service: _Service) -> None:
        backoff = Backoff()
        try:
            while True:
                service.turn(self._now(), alive=True)
                began = self._clock.monotonic()
                error = await service.live()
                if error is None:
                    return
                backoff = backoff.after_crash(self._clock.monotonic() - began)
                self._report(service, error, backoff.wait)
                await self._clock.sleep(backoff.wait)
                service.restarts += 1
        finally:
            service.turn(self._now(), alive=False)

    def _report(self, service: _Service, error: BaseException, wait: float) -> None:
        service.error = self.last_error = _shown(error)
        service.turn(self._now(), alive=False)
        log.error("service %s crashed; it is started again in %g s", service.name, wait, exc_info=error)
        if self._crashed is not None:
            try:
                self._crashed(service.health())
            except Exception:
                log.exception("the callback for the crash of %s crashed too", service.name)

    def _now(self) -> datetime:
        return instant(self._clock.now())


class _Service:
    """One service and its task."""

    def __init__(self, name: str, run: Run, now: datetime) -> None:
        self.name, self._run = name, run
        self.task: asyncio.Task[None] | None = None
        self.stopping = False
        self.restarts = 0
        self.error: str | None = None
        self._state = (True, now)  # one tuple, so that another thread never sees half of a change

    @property
    def ended(self) -> bool:
        return self.task is not None and self.task.done()

    async def live(self) -> BaseException | None:
        """Live one life. Return the crash that ended it, or None if there must not be another life."""
        error: BaseException
        try:
            await self._run()
            error = RuntimeError("it returned, and a service has no end")
        except LeaseLost as lost:
            self.error = _shown(lost)
            return None
        except asyncio.CancelledError as cancelled:
            if self.stopping or _is_cancelled(asyncio.current_task()):
                raise
            error = cancelled  # something inside the service was cancelled, not the service
        except Exception as raised:  # noqa: BLE001  # whatever it is, the service must live on
            error = raised
        return None if self.stopping else error  # a service that swallows its cancellation must still stop

    def turn(self, now: datetime, *, alive: bool) -> None:
        self._state = (alive, now)

    def stop(self) -> asyncio.Task[None]:
        assert self.task is not None
        self.stopping = True
        self.task.cancel()
        return self.task

    def health(self) -> ServiceHealth:
        alive, since = self._state
        # A task that is cancelled before its first turn does not report its end.
        alive = alive and not self.ended
        return ServiceHealth(name=self.name, alive=alive, since=since, restarts=self.restarts, last_error=self.error)


def _is_cancelled(task: asyncio.Task[Any] | None) -> bool:
    """Tell whether the task itself was cancelled: by the closing loop, or by the owner of the worker."""
    return task is not None and task.cancelling() > 0


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")[:ERROR_LIMIT]
