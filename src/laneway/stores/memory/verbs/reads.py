"""The verbs that only read, each under the store's lock."""

from __future__ import annotations

from bisect import bisect_left

from laneway.core.records.events import Event, numbered
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.memos import Recall
from laneway.core.records.run import Message, Reason, Run, RunFilter
from laneway.errors import UnknownRun
from laneway.ports.clock import Clock
from laneway.ports.gates import Depths, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.users import UserState
from laneway.stores.memory.state.records import fits, page_of, run_of, value_of
from laneway.stores.memory.verbs.base import MemoryVerbs
from laneway.stores.memory.verbs.overviews import Overviews


class ReadVerbs(MemoryVerbs):
    """Reads the state, and changes nothing."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._overviews = Overviews(self._state, self._liveness.is_dead)

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return the messages that the run took; see `RunStore`."""
        with self._lock:
            return list(self._state.known(run_id).taken[after : after + limit])

    async def get(self, run_id: str) -> Run:
        """Return the run; see `RunStore`."""
        with self._lock:
            record = self._state.by_id.get(run_id)
            if record is not None:
                return run_of(record)
            fits = [record for id_, record in self._state.by_id.items() if run_id and id_.startswith(run_id)]
            if len(fits) != 1:
                raise UnknownRun(run_id, len(fits))
            return run_of(fits[0])

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return runs, newest first; see `RunStore`."""
        with self._lock:
            end = None if before is None else bisect_left(self._state.records, before, key=lambda record: record.number)
            found: list[Run] = []
            for record in reversed(self._state.records[:end]):
                if len(found) == limit:
                    break
                if fits(record, wanted):
                    found.append(run_of(record))
            return found

    async def recall(self, run_id: str) -> Recall:
        """Return the memos of the run; see `RunStore`."""
        with self._lock:
            run = self._state.known(run_id)
            return Recall(list(run.memos), run.wait)

    async def lanes(self) -> list[LaneState]:
        """Return the lanes; see `LaneStore`."""
        with self._lock:
            return self._overviews.lanes()

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        """Return users in lanes; see `UserStore`."""
        with self._lock:
            return self._overviews.users(user, limit, after)

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        """Return sessions by name; see `SessionStore`."""
        with self._lock:
            if named is None:
                return self._overviews.sessions(prefix, limit, after)
            found = self._overviews.session(named)
            return [] if found is None else [found]

    async def tasks(self) -> list[TaskState]:
        """Return the tasks; see `GateStore`."""
        with self._lock:
            return self._overviews.tasks()

    async def why(self, run_id: str) -> list[Reason]:
        """Return the gates that are closed for the run; see `GateStore`."""
        with self._lock:
            return self._overviews.why(self._state.known(run_id))

    async def depths(self) -> Depths:
        """Count what waits; see `GateStore`."""
        with self._lock:
            return self._overviews.depths()

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return a page of the run's log; see `EventStore`."""
        with self._lock:
            record = self._state.known(run_id)
            return numbered(record.id, page_of(record, after, limit), value_of(record))

    async def workers(self) -> list[WorkerInfo]:
        """Return the incarnations; see `WorkerStore`."""
        with self._lock:
            return self._liveness.infos()
