"""The blocking forms of `app.lanes`, `app.users`, `app.sessions`, `app.tasks` and `app.workers`.

Made by `make sync`; do not edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.policy import MAIN, Lane, SessionPolicy
from laneway.engine.client.admin import Lanes, List, Sessions, Tasks, Users
from laneway.engine.client.run_control import Workers
from laneway.engine.handlers.task import Task
from laneway.ports.gates import TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.users import UserState
from laneway.sync.base import SyncPart


class SyncLanes(SyncPart[Lanes]):
    """The lanes, as `app.sync.lanes`."""

    def get(self, name: str) -> LaneState:
        """Return a lane and how full it is. Raises UnknownLane."""
        return self._call(lambda: self._async.get(name))

    def list(self) -> List[LaneState]:
        """Return all lanes, by name."""
        return self._call(self._async.list)

    def set(self, lane: Lane) -> None:
        """Create or change a lane, at once and for all processes. It wins over what code declares, until `unset`.

        A lower limit stops nothing that runs; it only holds new starts.
        """
        self._call(lambda: self._async.set(lane))

    def unset(self, name: str) -> None:
        """Return to what code, environment and file declare of the lane. Raises UnknownLane."""
        self._call(lambda: self._async.unset(name))

    def pause(self, name: str) -> None:
        """Start nothing of the lane. New runs are accepted and held, running ones go on. Raises UnknownLane."""
        self._call(lambda: self._async.pause(name))

    def resume(self, name: str) -> None:
        """Continue a paused lane."""
        self._call(lambda: self._async.resume(name))


class SyncUsers(SyncPart[Users]):
    """The users, as `app.sync.users`."""

    def get(self, user: str) -> List[UserState]:
        """Return the user's state in each lane that has something of the user."""
        return self._call(lambda: self._async.get(user))

    def list(self, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> List[UserState]:
        """Return users with runs or an operator's settings, as (user, lane), after the cursor `after`."""
        return self._call(lambda: self._async.list(limit=limit, after=after))

    def set(self, user: str, *, cap: int | None, lane: str = MAIN) -> None:
        """Set how many runs of the user may be active in the lane; None returns to the lane's `per_user`."""
        self._call(lambda: self._async.set(user, cap=cap, lane=lane))

    def pause(self, user: str) -> None:
        """Start nothing of the user, in any lane."""
        self._call(lambda: self._async.pause(user))

    def resume(self, user: str) -> None:
        """Continue a paused user."""
        self._call(lambda: self._async.resume(user))


class SyncSessions(SyncPart[Sessions]):
    """The sessions, as `app.sync.sessions`."""

    def get(self, name: str) -> SessionState:
        """Return a session; an idle one has only the default rule."""
        return self._call(lambda: self._async.get(name))

    def list(self, *, prefix: str = "", limit: int = 100, after: str = "") -> List[SessionState]:
        """Return sessions that are not idle or have an operator's settings, by name, after the cursor `after`."""
        return self._call(lambda: self._async.list(prefix=prefix, limit=limit, after=after))

    def set(self, name: str, policy: SessionPolicy | None = None, *, load: Any = None) -> None:
        """Set a session's rule: it wins over what messages say. Without policy and load, remove it.

        `load` is a share of the session's window, or (used, window): from 60 % on the session gets one run at a time.
        """
        self._call(lambda: self._async.set(name, policy, load=load))

    def pause(self, name: str) -> None:
        """Start nothing of the session, retries included; messages are accepted and held."""
        self._call(lambda: self._async.pause(name))

    def resume(self, name: str) -> None:
        """Continue a paused session."""
        self._call(lambda: self._async.resume(name))

    def stop(self, name: str) -> Stopped:
        """Cancel the session's oldest active run; other runs and the queue stay. Returns what it stopped."""
        return self._call(lambda: self._async.stop(name))

    def stop_all(self, name: str) -> Stopped:
        """Cancel all active runs and drop all waiting ones, future runs included. Returns what it stopped.

        Nothing that was accepted before ever starts. A slot is free when the old run has really stopped.
        """
        return self._call(lambda: self._async.stop_all(name))

    def reset(self, name: str) -> Stopped:
        """Do as `stop_all` without waiting: slots are free at once, and late completions are refused."""
        return self._call(lambda: self._async.reset(name))


class SyncTasks(SyncPart[Tasks]):
    """The tasks, as `app.sync.tasks`: iteration gives those registered here, `list` those of all workers."""

    def __iter__(self) -> Iterator[Task[..., Any]]:
        """Yield the tasks registered here, in that order."""
        return self._async.__iter__()

    @property
    def names(self) -> frozenset[str]:
        """The names of the tasks registered here."""
        return self._async.names

    def get(self, name: str) -> Task[..., Any]:
        """Return the task registered here under that name. Raises UnknownTask."""
        return self._async.get(name)

    def list(self) -> List[TaskState]:
        """Return the tasks that live workers know, that are paused or disabled, or that have parked runs.

        Also those that failed under their breakers: `circuits` is their state.
        """
        return self._call(self._async.list)

    def pause(self, name: str) -> None:
        """Start nothing of the task, in any process. New runs are accepted and held."""
        self._call(lambda: self._async.pause(name))

    def resume(self, name: str) -> None:
        """Continue a paused task."""
        self._call(lambda: self._async.resume(name))

    def disable(self, name: str) -> None:
        """Refuse new runs of the task (`task_disabled`), in any process. Accepted runs are kept and go on."""
        self._call(lambda: self._async.disable(name))

    def enable(self, name: str) -> None:
        """Accept runs of a disabled task again, and close its breaker."""
        self._call(lambda: self._async.enable(name))

    def close_breaker(self, name: str, user: str | None = None) -> None:
        """Close the task's breaker, or that of one of its users: runs that wait for it start at once.

        The user "" means runs without one. A task that its breaker disabled stays disabled until it is enabled.
        """
        self._call(lambda: self._async.close_breaker(name, user))


class SyncWorkers(SyncPart[Workers]):
    """The live workers, as `app.sync.workers`."""

    def list(self) -> list[WorkerInfo]:
        """Return the live incarnations, and those that left and still hold leases; oldest first."""
        return self._call(self._async.list)
