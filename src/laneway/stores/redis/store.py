"""The Redis store: every verb that changes something is one script, which the server runs as a whole.

The rules of the core are restated in Lua (`lua/`), because only the server can decide and write in one atomic step; the
contract and the model test compare both. Verbs that only read are decided in Python, on a snapshot from one script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.lifecycle.step import ReclaimReply, RenewReply, Step, StepReply
from laneway.core.queue.audit import Finding
from laneway.core.records.events import Event
from laneway.core.records.liveness import Incarnation, WorkerInfo
from laneway.core.records.memos import Recall
from laneway.core.records.policy import Lane
from laneway.core.records.run import Message, NewRun, Reason, Receipt, Run, RunFilter
from laneway.core.transfer.move_state import Moving
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece
from laneway.ports.clock import Clock
from laneway.ports.control import RunChange, Swept
from laneway.ports.gates import Depths, TaskState
from laneway.ports.jobs import DueJobs, JobChange, JobFilter
from laneway.ports.lanes import LaneState
from laneway.ports.moves import Moved, Transition
from laneway.ports.sessions import Extent, SessionState
from laneway.ports.settings import Setting
from laneway.ports.upkeep import Examination, Old
from laneway.ports.users import UserState
from laneway.stores.redis.codec.keys import LAYOUT, refuse_layout
from laneway.stores.redis.verbs.control import ControlVerbs
from laneway.stores.redis.verbs.examination import Examiner
from laneway.stores.redis.verbs.jobs import JobVerbs
from laneway.stores.redis.verbs.moves import MoveVerbs, default_lanes
from laneway.stores.redis.verbs.overviews import OverviewVerbs
from laneway.stores.redis.verbs.packer import Packer
from laneway.stores.redis.verbs.runs import RunVerbs
from laneway.stores.redis.verbs.script_caller import ScriptCaller
from laneway.stores.redis.verbs.settings import SettingVerbs
from laneway.stores.redis.verbs.upkeep import UpkeepVerbs
from laneway.stores.redis.verbs.workers import WorkerVerbs


class RedisStore:
    """A store on a Redis or Valkey server. `clock` is given by tests; without one, the server's time applies."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._scripts = scripts = ScriptCaller(url, clock)
        self._runs, self._control, self._settings = RunVerbs(scripts), ControlVerbs(scripts), SettingVerbs(scripts)
        self._workers, self._jobs, self._upkeep = WorkerVerbs(scripts), JobVerbs(scripts), UpkeepVerbs(scripts)
        self._overviews = OverviewVerbs(scripts)
        self._examiner = Examiner(scripts, self._overviews)
        self._moves = MoveVerbs(scripts, Packer(scripts, self._jobs))

    async def open(self) -> None:
        """Connect, and make the namespace a store if it is none; see `Store`."""
        await self._scripts.client.open()
        layout = await self._scripts.call("upkeep/open", LAYOUT, default_lanes())
        refuse_layout(layout, self._scripts.address.shown)
        if layout < LAYOUT:
            await self._scripts.call("upkeep/migrate")
        await self._scripts.load_functions()

    async def close(self) -> None:
        """Close the connections; see `Store`."""
        await self._scripts.client.close()

    # Runs

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept the batch; see `RunStore`."""
        return await self._runs.submit(batch)

    async def get(self, run_id: str) -> Run:
        """Return the run; see `RunStore`."""
        return await self._runs.get(run_id)

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return runs, newest first; see `RunStore`."""
        return await self._runs.runs(wanted, limit=limit, before=before)

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return the messages that the run took; see `RunStore`."""
        return await self._runs.messages(run_id, after=after, limit=limit)

    async def recall(self, run_id: str) -> Recall:
        """Return the run's memos; see `RunStore`."""
        return await self._runs.recall(run_id)

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return a page of the run's log; see `EventStore`."""
        return await self._runs.events(run_id, after=after, limit=limit)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` soon after every write; see `EventStore`."""
        return self._runs.watch(changed)

    # Control and settings

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        """Cancel, pause, resume or answer the run; see `ControlStore`."""
        return await self._control.change_run(call, run_id, change)

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit; see `ControlStore`."""
        return await self._control.cancel_where(call, wanted, after=after, until=until, limit=limit)

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        """Stop what goes on in the session; see `SessionStore`."""
        return await self._control.stop(call, name, extent)

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Set what code declares about lanes; see `LaneStore`."""
        await self._settings.declare_lanes(lanes)

    async def set(self, setting: Setting) -> None:
        """Set what an operator sets; see `SettingStore`."""
        await self._settings.set(setting)

    # Overviews

    async def lanes(self) -> list[LaneState]:
        """Return the lanes; see `LaneStore`."""
        return await self._overviews.lanes()

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        """Return users in lanes; see `UserStore`."""
        return await self._overviews.users(user=user, limit=limit, after=after)

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        """Return sessions; see `SessionStore`."""
        return await self._overviews.sessions(named=named, prefix=prefix, limit=limit, after=after)

    async def tasks(self) -> list[TaskState]:
        """Return the tasks; see `GateStore`."""
        return await self._overviews.tasks()

    async def why(self, run_id: str) -> list[Reason]:
        """Return the gates that are closed for the run; see `GateStore`."""
        return await self._overviews.why(run_id)

    async def depths(self) -> Depths:
        """Return how many runs there are; see `GateStore`."""
        return await self._overviews.depths()

    async def workers(self) -> list[WorkerInfo]:
        """Return the incarnations; see `WorkerStore`."""
        return await self._overviews.workers()

    # Workers

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Register the incarnation; see `WorkerStore`."""
        await self._workers.register(incarnation, wake)

    async def step(self, step: Step) -> StepReply:
        """Settle, claim, become idle; see `WorkerStore`."""
        return await self._workers.step(step)

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; see `WorkerStore`."""
        return self._workers.renew(incarnation)

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Take over the leases of dead incarnations; see `WorkerStore`."""
        return await self._workers.reclaim(incarnation, gone, limit=limit)

    async def leave(self, incarnation: str) -> None:
        """Note that the incarnation has left; see `WorkerStore`."""
        await self._workers.leave(incarnation)

    def look(self) -> bool:
        """Tell whether wake-ups may have been missed; see `WorkerStore`."""
        return self._workers.look()

    # Jobs

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Add, edit or remove a job; see `JobStore`."""
        return await self._jobs.change_job(change)

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return jobs; see `JobStore`."""
        return await self._jobs.jobs(wanted, limit=limit, after=after)

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return the jobs that are due; see `JobStore`."""
        return await self._jobs.due_jobs(limit=limit, after=after)

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write firings; see `JobStore`."""
        return await self._jobs.fire(firings)

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return the records of a job's fires; see `JobStore`."""
        return await self._jobs.fires(job_id, limit=limit, before=before)

    async def restart_time(self) -> None:
        """Accept the present time; see `JobStore`."""
        await self._jobs.restart_time()

    # Upkeep

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        """Delete what is old; see `UpkeepStore`."""
        return await self._upkeep.prune(old, limit=limit)

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what does not agree; see `UpkeepStore`."""
        return await self._upkeep.check(repair=repair)

    async def examine(self, *, deep: bool = True) -> Examination:
        """Return how the store fares; see `UpkeepStore`."""
        return await self._examiner.examine(deep=deep)

    # Moves

    async def moving(self) -> Moving | None:
        """Return the store's part in a move; see `MovingStore`."""
        return await self._moves.moving()

    async def move(self, transition: Transition) -> Moved:
        """Go on with a move; see `MovingStore`."""
        return await self._moves.move(transition)

    async def holds(self) -> list[str]:
        """Return what the store has; see `MovingStore`."""
        return await self._moves.holds()

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces; see `MovingStore`."""
        return await self._moves.pack(after, limit=limit)

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Write pieces of another store; see `MovingStore`."""
        await self._moves.unpack(move, pieces, mark)
