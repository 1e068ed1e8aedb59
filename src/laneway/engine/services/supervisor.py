"""The supervisor: keeps the services of a worker alive.

A service is a coroutine that is meant never to end. It ends all the same, in one of three ways. It is *stopped*:
somebody asked for it. The *lease is lost*: its incarnation is over and nothing is left to serve, so it is not started
again. Everything else is a *crash*, a plain return and a stray cancellation included: it is logged, told to whoever
wants to know, and started again after a wait that grows with every crash in a row (`core.common.backoff`).
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
STOP_WITHIN = 5.0  # seconds that services get to end once they are cancelled
ERROR_LIMIT = 500  # characters of an error that health shows


class Supervisor:
    """Runs services by name, each as a task of its own. `crashed` hears of every crash, after it was logged."""

    def __init__(self, clock: Clock, crashed: Callable[[ServiceHealth], None] | None = None) -> None:
        self._clock, self._crashed = clock, crashed
        self._services: dict[str, _Service] = {}
        self.last_error: str | None = None  # of the newest crash of all

    def add(self, name: str, run: Run) -> None:
        """Start a service. `run` is called for each of its lives. The name of one that has ended may be used again."""
        known = self._services.get(name)
        if known is not None and not known.ended:
            raise ValueError(f"service {name!r} is there already; stop it first")
        service = self._services[name] = _Service(name, run, self._now())
        service.task = asyncio.get_running_loop().create_task(self._keep(service), name=f"laneway-{name}")

    async def stop(self, *names: str) -> None:
        """Stop the named services, or all of them; return when they have ended. Their health stays to be asked."""
        services = [self._services[name] for name in names] if names else list(self._services.values())
        tasks = [service.stop() for service in services if not service.ended]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_WITHIN)
            for task in late:
                log.error("%s was cancelled and has not ended after %g s", task.get_name(), STOP_WITHIN)

    def health(self) -> list[ServiceHealth]:
        """Return the health of every service, in the order they were added; may be asked from any thread."""
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
        service.error = self.last_error = _said(error)
        service.turn(self._now(), alive=False)
        log.error("service %s crashed; it is started again in %g s", service.name, wait, exc_info=error)
        if self._crashed is not None:
            try:
                self._crashed(service.health())
            except Exception:
                log.exception("whoever was told of the crash of %s crashed too", service.name)

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
        self._state = (True, now)  # one object, so that another thread never sees the half of it

    @property
    def ended(self) -> bool:
        return self.task is not None and self.task.done()

    async def live(self) -> BaseException | None:
        """Live one life. Return the crash that ended it, None if there is no other life to follow."""
        error: BaseException
        try:
            await self._run()
            error = RuntimeError("it returned, and a service has no end")
        except LeaseLost as lost:
            self.error = _said(lost)
            return None
        except asyncio.CancelledError as cancelled:
            if self.stopping or _is_cancelled(asyncio.current_task()):
                raise
            error = cancelled  # something inside the service was cancelled, not the service
        except Exception as raised:  # noqa: BLE001  # whatever it is, the service must live on
            error = raised
        return None if self.stopping else error  # or else one that swallows its cancellation could not be stopped

    def turn(self, now: datetime, *, alive: bool) -> None:
        self._state = (alive, now)

    def stop(self) -> asyncio.Task[None]:
        assert self.task is not None
        self.stopping = True
        self.task.cancel()
        return self.task

    def health(self) -> ServiceHealth:
        alive, since = self._state
        # A task that is cancelled before its first turn never says that it ended.
        alive = alive and not self.ended
        return ServiceHealth(name=self.name, alive=alive, since=since, restarts=self.restarts, last_error=self.error)


def _is_cancelled(task: asyncio.Task[Any] | None) -> bool:
    """Tell whether somebody cancelled the task itself: the loop that closes, or whoever runs the worker."""
    return task is not None and task.cancelling() > 0


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")[:ERROR_LIMIT]
