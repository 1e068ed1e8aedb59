"""What operators read and set while everything runs: lanes, users, sessions and tasks, for all processes at once."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from laneway.core.common.checks import checked_count, checked_name
from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.records.load import throttled
from laneway.core.records.policy import DEFAULT_RULE, MAIN, NO_RULE, Lane, Mode, SessionPolicy
from laneway.engine.client.client import Client
from laneway.engine.client.run_control import RunControl
from laneway.engine.common.ids import new_run_id
from laneway.engine.handlers.task import Registry, Task
from laneway.errors import BadSetting, UnknownLane
from laneway.ports.gates import Held, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import Extent, SessionState
from laneway.ports.settings import (
    BreakerClosed,
    Hold,
    LaneSetting,
    LaneUnset,
    SessionSetting,
    TaskDisabled,
    UserCap,
)
from laneway.ports.store import Store
from laneway.ports.users import UserState

List = builtins.list  # the classes here have a method of that name
Opened = Callable[[], Awaitable[Store]]


class AdminApi:
    """The base of these classes: an open store, and calls that are repeated if they get no answer."""

    def __init__(self, opened: Opened, client: Client) -> None:
        self._opened, self._client = opened, client

    async def _hold(self, what: Held, name: str, *, held: bool) -> None:
        checked_name(name, what.value)
        store = await self._opened()
        await self._client.repeated(lambda: store.set(Hold(what, name, held)))


class Lanes(AdminApi):
    """The lanes, as `app.lanes`."""

    async def get(self, name: str) -> LaneState:
        """Return a lane and how full it is. Raises UnknownLane."""
        checked_name(name, "lane")
        lanes = {state.lane.name: state for state in await self.list()}
        if name not in lanes:
            raise UnknownLane(name, lanes)
        return lanes[name]

    async def list(self) -> List[LaneState]:
        """Return all lanes, by name."""
        store = await self._opened()
        return await self._client.repeated(store.lanes)

    async def set(self, lane: Lane) -> None:
        """Create or change a lane, at once and for all processes. It wins over what code declares, until `unset`.

        A lower limit stops nothing that runs; it only holds new starts.
        """
        if not isinstance(lane, Lane):
            raise BadSetting(f"{lane!r} is no lane; give a Lane(name, limit, ...)")
        store = await self._opened()
        await self._client.repeated(lambda: store.set(LaneSetting(lane)))

    async def unset(self, name: str) -> None:
        """Return to what code, environment and file declare of the lane. Raises UnknownLane."""
        checked_name(name, "lane")
        store = await self._opened()
        await self._client.repeated(lambda: store.set(LaneUnset(name)))

    async def pause(self, name: str) -> None:
        """Start nothing of the lane. New runs are accepted and held, running ones go on. Raises UnknownLane."""
        await self._hold(Held.LANE, name, held=True)

    async def resume(self, name: str) -> None:
        """Continue a paused lane."""
        await self._hold(Held.LANE, name, held=False)


class Users(AdminApi):
    """The users, as `app.users`."""

    async def get(self, user: str) -> List[UserState]:
        """Return the user's state in each lane that has something of the user."""
        checked_name(user, "user")
        store = await self._opened()
        return await self._client.repeated(lambda: store.users(user=user, limit=1000))

    async def list(self, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> List[UserState]:
        """Return users with runs or an operator's settings, as (user, lane), after the cursor `after`."""
        checked_count(limit, "limit")
        if not isinstance(after, tuple) or len(after) != 2:
            raise BadSetting(f"after is {after!r}; it is the (user, lane) to go on behind")
        for part in after:
            _checked_text(part, "after")
        store = await self._opened()
        return await self._client.repeated(lambda: store.users(limit=limit, after=after))

    async def set(self, user: str, *, cap: int | None, lane: str = MAIN) -> None:
        """Set how many runs of the user may be active in the lane; None returns to the lane's `per_user`."""
        checked_name(user, "user")
        checked_name(lane, "lane")
        if cap is not None:
            checked_count(cap, "cap")
        store = await self._opened()
        await self._client.repeated(lambda: store.set(UserCap(user, lane, cap)))

    async def pause(self, user: str) -> None:
        """Start nothing of the user, in any lane."""
        await self._hold(Held.USER, user, held=True)

    async def resume(self, user: str) -> None:
        """Continue a paused user."""
        await self._hold(Held.USER, user, held=False)


class Sessions(AdminApi):
    """The sessions, as `app.sessions`."""

    def __init__(self, opened: Opened, client: Client, control: RunControl) -> None:
        super().__init__(opened, client)
        self._control = control

    async def get(self, name: str) -> SessionState:
        """Return a session; an idle one has only the default rule."""
        checked_name(name, "session")
        store = await self._opened()
        found = await self._client.repeated(lambda: store.sessions(named=name))
        return found[0] if found else SessionState(name=name, rule=DEFAULT_RULE)

    async def list(self, *, prefix: str = "", limit: int = 100, after: str = "") -> List[SessionState]:
        """Return sessions that are not idle or have an operator's settings, by name, after the cursor `after`."""
        checked_count(limit, "limit")
        _checked_text(prefix, "prefix")
        _checked_text(after, "after")
        store = await self._opened()
        return await self._client.repeated(lambda: store.sessions(prefix=prefix, limit=limit, after=after))

    async def set(self, name: str, policy: SessionPolicy | None = None, *, load: Any = None) -> None:
        """Set a session's rule: it wins over what messages say. Without policy and load, remove it.

        `load` is a share of the session's window, or (used, window): from 60 % on the session gets one run at a time.
        """
        checked_name(name, "session")
        if policy is not None and not isinstance(policy, SessionPolicy):
            raise BadSetting(f"{policy!r} is no session policy; give a SessionPolicy(cap=..., ...)")
        if policy is not None and (policy.mode is not Mode.QUEUE or policy.debounce or policy.max_wait is not None):
            raise BadSetting("mode, debounce and max_wait belong to a message; give them with submit")
        rule, verdict = NO_RULE if policy is None else policy.rule, throttled(load)
        if policy is not None and rule == NO_RULE and verdict is None:
            raise BadSetting("this policy gives nothing; leave it out to take back all that was set")
        store = await self._opened()
        await self._client.repeated(lambda: store.set(SessionSetting(name, rule, verdict)))

    async def pause(self, name: str) -> None:
        """Start nothing of the session, retries included; messages are accepted and held."""
        await self._hold(Held.SESSION, name, held=True)

    async def resume(self, name: str) -> None:
        """Continue a paused session."""
        await self._hold(Held.SESSION, name, held=False)

    async def stop(self, name: str) -> Stopped:
        """Cancel the session's oldest active run; other runs and the queue stay. Returns what it stopped."""
        store, call = await self._cleared(name)
        return await self._client.repeated(lambda: store.stop(call, name, Extent.OLDEST))

    async def stop_all(self, name: str) -> Stopped:
        """Cancel all active runs and drop all waiting ones, future runs included. Returns what it stopped.

        Nothing that was accepted before ever starts. A slot is free when the old run has really stopped.
        """
        store, call = await self._cleared(name)
        return await self._client.repeated(lambda: store.stop(call, name, Extent.ALL))

    async def reset(self, name: str) -> Stopped:
        """Do as `stop_all` without waiting: slots are free at once, and late completions are refused."""
        store, call = await self._cleared(name)
        return await self._client.repeated(lambda: store.stop(call, name, Extent.ABANDON))

    async def _cleared(self, name: str) -> tuple[Store, str]:
        checked_name(name, "session")
        store = await self._opened()
        await self._control.leave_for_dead_workers()
        return store, new_run_id()


class Tasks(AdminApi):
    """The tasks, as `app.tasks`: iteration gives those registered here, `list` those of all workers."""

    def __init__(self, opened: Opened, client: Client, registry: Registry) -> None:
        super().__init__(opened, client)
        self.registry = registry

    def __iter__(self) -> Iterator[Task[..., Any]]:
        """Yield the tasks registered here, in that order."""
        return iter(self.registry)

    @property
    def names(self) -> frozenset[str]:
        """The names of the tasks registered here."""
        return self.registry.names

    def get(self, name: str) -> Task[..., Any]:
        """Return the task registered here under that name. Raises UnknownTask."""
        return self.registry.get(name)

    async def list(self) -> List[TaskState]:
        """Return the tasks that live workers know, that are paused or disabled, or that have parked runs.

        Also those that failed under their breakers: `circuits` is their state.
        """
        store = await self._opened()
        return await self._client.repeated(store.tasks)

    async def pause(self, name: str) -> None:
        """Start nothing of the task, in any process. New runs are accepted and held."""
        await self._hold(Held.TASK, name, held=True)

    async def resume(self, name: str) -> None:
        """Continue a paused task."""
        await self._hold(Held.TASK, name, held=False)

    async def disable(self, name: str) -> None:
        """Refuse new runs of the task (`task_disabled`), in any process. Accepted runs are kept and go on."""
        await self._disable(name, disabled=True)

    async def enable(self, name: str) -> None:
        """Accept runs of a disabled task again, and close its breaker."""
        await self._disable(name, disabled=False)

    async def close_breaker(self, name: str, user: str | None = None) -> None:
        """Close the task's breaker, or that of one of its users: runs that wait for it start at once.

        The user "" means runs without one. A task that its breaker disabled stays disabled until it is enabled.
        """
        checked_name(name, "task")
        if user:
            checked_name(user, "user")
        store = await self._opened()
        await self._client.repeated(lambda: store.set(BreakerClosed(name, user)))

    async def _disable(self, name: str, *, disabled: bool) -> None:
        checked_name(name, "task")
        store = await self._opened()
        await self._client.repeated(lambda: store.set(TaskDisabled(name, disabled)))


def _checked_text(text: object, what: str) -> None:
    """Refuse what can be neither a name nor the beginning of one."""
    if not isinstance(text, str) or not text.isprintable():
        raise BadSetting(f"{what} is {text!r}; it must be text that can be printed")
