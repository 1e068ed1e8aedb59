"""The blocking twins of `app.lanes`, `app.users`, `app.sessions`, `app.tasks` and `app.workers`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.policy import MAIN, Lane, SessionPolicy
from laneway.ports.gates import TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.users import UserState

List = builtins.list  # the classes here have a method of that name


class SyncDesk:
    """A part of the scheduler, and the way to call it from a thread without a loop."""

    def __init__(self, twin: Any, call: Callable[[Callable[[], Any]], Any]) -> None:
        self._twin, self._call = twin, call


class SyncWorkers(SyncDesk):
    """The workers that are up, as `app.sync.workers`."""

    def list(self) -> List[WorkerInfo]:
        """Return the incarnations that are alive, and those that left and still hold leases; oldest first."""
        found: List[WorkerInfo] = self._call(self._twin.list)
        return found


class SyncLanes(SyncDesk):
    """The lanes, as `app.sync.lanes`."""

    def get(self, name: str) -> LaneState:
        """Return a lane and how full it is."""
        found: LaneState = self._call(lambda: self._twin.get(name))
        return found

    def list(self) -> List[LaneState]:
        """Return all lanes, by name."""
        found: List[LaneState] = self._call(self._twin.list)
        return found

    def set(self, lane: Lane) -> None:
        """Create a lane or change one."""
        self._call(lambda: self._twin.set(lane))

    def unset(self, name: str) -> None:
        """Let what is declared of the lane hold again."""
        self._call(lambda: self._twin.unset(name))

    def pause(self, name: str) -> None:
        """Start nothing of the lane."""
        self._call(lambda: self._twin.pause(name))

    def resume(self, name: str) -> None:
        """Let a paused lane go on."""
        self._call(lambda: self._twin.resume(name))


class SyncUsers(SyncDesk):
    """The users, as `app.sync.users`."""

    def get(self, user: str) -> List[UserState]:
        """Return how a user stands in each lane where there is something to say."""
        found: List[UserState] = self._call(lambda: self._twin.get(user))
        return found

    def list(self, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> List[UserState]:
        """Return users in lanes, by (user, lane) behind `after`."""
        found: List[UserState] = self._call(lambda: self._twin.list(limit=limit, after=after))
        return found

    def set(self, user: str, *, cap: int | None, lane: str = MAIN) -> None:
        """Set how many runs of the user may be active in the lane."""
        self._call(lambda: self._twin.set(user, cap=cap, lane=lane))

    def pause(self, user: str) -> None:
        """Start nothing of the user, in any lane."""
        self._call(lambda: self._twin.pause(user))

    def resume(self, user: str) -> None:
        """Let a paused user go on."""
        self._call(lambda: self._twin.resume(user))


class SyncSessions(SyncDesk):
    """The sessions, as `app.sync.sessions`."""

    def get(self, name: str) -> SessionState:
        """Return a session."""
        found: SessionState = self._call(lambda: self._twin.get(name))
        return found

    def list(self, *, prefix: str = "", limit: int = 100, after: str = "") -> List[SessionState]:
        """Return sessions by name, behind `after`."""
        found: List[SessionState] = self._call(lambda: self._twin.list(prefix=prefix, limit=limit, after=after))
        return found

    def set(self, name: str, policy: SessionPolicy | None = None, *, load: Any = None) -> None:
        """Set what belongs to the session."""
        self._call(lambda: self._twin.set(name, policy, load=load))

    def pause(self, name: str) -> None:
        """Start nothing of the session."""
        self._call(lambda: self._twin.pause(name))

    def resume(self, name: str) -> None:
        """Let a paused session go on."""
        self._call(lambda: self._twin.resume(name))

    def stop(self, name: str) -> Stopped:
        """Cancel the session's oldest active run."""
        stopped: Stopped = self._call(lambda: self._twin.stop(name))
        return stopped

    def stop_all(self, name: str) -> Stopped:
        """Cancel all that is active and drop all that waits."""
        stopped: Stopped = self._call(lambda: self._twin.stop_all(name))
        return stopped

    def reset(self, name: str) -> Stopped:
        """Do as `stop_all`, and do not wait."""
        stopped: Stopped = self._call(lambda: self._twin.reset(name))
        return stopped


class SyncTasks(SyncDesk):
    """The tasks, as `app.sync.tasks`."""

    def __iter__(self) -> Iterator[Any]:
        """Return the tasks registered here, in that order."""
        return iter(self._twin)

    def get(self, name: str) -> Any:
        """Return the task registered here under that name."""
        return self._twin.get(name)

    def list(self) -> List[TaskState]:
        """Return the tasks that live workers know, that are paused or disabled, or that have runs set aside."""
        found: List[TaskState] = self._call(self._twin.list)
        return found

    def pause(self, name: str) -> None:
        """Start nothing of the task, in any process."""
        self._call(lambda: self._twin.pause(name))

    def resume(self, name: str) -> None:
        """Let a paused task go on."""
        self._call(lambda: self._twin.resume(name))

    def disable(self, name: str) -> None:
        """Refuse new runs of the task, in any process."""
        self._call(lambda: self._twin.disable(name))

    def enable(self, name: str) -> None:
        """Accept runs of a disabled task again, and close its breaker."""
        self._call(lambda: self._twin.enable(name))

    def close_breaker(self, name: str, user: str | None = None) -> None:
        """Close the task's breaker, or that of one of its users."""
        self._call(lambda: self._twin.close_breaker(name, user))
