"""The verbs of `ports.Store` over tables.

Every verb runs on one of two threads (`runtime`): on the writer's inside a transaction, or on the reader's in a
snapshot. Nothing is kept in memory between two verbs, so any number of processes can share the tables.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Generic

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
from laneway.errors import LeaseLost, UsageError
from laneway.ports.control import RunChange, Swept
from laneway.ports.gates import Depths, TaskState
from laneway.ports.jobs import DueJobs, JobChange, JobFilter
from laneway.ports.lanes import LaneState
from laneway.ports.moves import Moved, Transition
from laneway.ports.sessions import Extent, SessionState
from laneway.ports.settings import Setting
from laneway.ports.upkeep import Old, OldDeltas, OldRuns
from laneway.ports.users import UserState
from laneway.stores.tables.reads import jobs as job_reads
from laneway.stores.tables.reads import overview, runs, why
from laneway.stores.tables.rows import memos, messages
from laneway.stores.tables.runtime.access import R, StoreAccess
from laneway.stores.tables.runtime.commit_options import CommitOptions, Durability
from laneway.stores.tables.runtime.move_state import standing
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.transfer import pack, phases, unpack
from laneway.stores.tables.upkeep import check, prune, trim
from laneway.stores.tables.verbs import control, fires, jobs, settings, steps, submissions, workers


class TableStore(ABC, Generic[R]):
    """A store over tables; `access` leads to its threads and connections."""

    def __init__(self, access: StoreAccess[R]) -> None:
        self.access = access

    async def open(self) -> None:
        """Create or migrate the tables; see `Store`."""
        await self.access.open()

    async def close(self) -> None:
        """Close connections and end threads; see `Store`."""
        await self.access.close()

    # Runs

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept the batch; see `RunStore`."""
        return await self.access.write(
            lambda db, after_commit: submissions.submit(db, after_commit, batch, db.now()),
            CommitOptions(Durability.BEFORE_ANSWER, prefetch=submissions.prefetch(batch)),
            gated=False,
        )

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return the messages that the run took; see `RunStore`."""
        return await self.access.read(lambda db: messages.messages(db, run_id, after, limit))

    async def get(self, run_id: str) -> Run:
        """Return the run; see `RunStore`."""
        return await self.access.read(lambda db: runs.get(db, run_id))

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return runs, newest first; see `RunStore`."""
        return await self.access.read(lambda db: runs.runs(db, wanted, limit, before))

    # Control

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        """Cancel, pause, resume or answer the run; see `ControlStore`."""
        found = await self.access.write(
            lambda db, after_commit: control.change(db, after_commit, call, run_id, change, db.now())
        )
        return _or_raise(found)

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that match; see `ControlStore`."""
        return await self.access.write(
            lambda db, after_commit: control.cancel_where(db, after_commit, call, wanted, after, until, limit, db.now())
        )

    async def recall(self, run_id: str) -> Recall:
        """Return the memos of the run; see `RunStore`."""
        return await self.access.read(lambda db: memos.recall(db, run_id))

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        """Cancel runs of the session; see `SessionStore`."""
        return await self.access.write(
            lambda db, after_commit: control.stop(db, after_commit, call, name, extent, db.now())
        )

    # Lanes, users, gates

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Write the lanes that code declares; see `LaneStore`."""
        await self.access.write(lambda db, after_commit: settings.declare_lanes(db, after_commit, lanes, db.now()))

    async def set(self, setting: Setting) -> None:
        """Write an operator setting; see `SettingStore`."""
        await self.access.write(lambda db, after_commit: settings.put(db, after_commit, setting, db.now()))

    async def lanes(self) -> list[LaneState]:
        """Return the lanes; see `LaneStore`."""
        return await self.access.read(overview.lanes)

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        """Return users in lanes; see `UserStore`."""
        return await self.access.read(lambda db: overview.users(db, user, limit, after))

    async def tasks(self) -> list[TaskState]:
        """Return the tasks; see `GateStore`."""
        return await self.access.read(lambda db: overview.tasks(db, db.now()))

    async def why(self, run_id: str) -> list[Reason]:
        """Return the gates that are closed for the run; see `GateStore`."""
        return await self.access.read(lambda db: why.why(db, run_id, db.now()))

    async def depths(self) -> Depths:
        """Count the waiting runs; see `GateStore`."""
        return await self.access.read(overview.depths)

    # Sessions, events

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        """Return sessions by name; see `SessionStore`."""
        if named is not None:
            return await self.access.read(lambda db: runs.session(db, named))
        return await self.access.read(lambda db: runs.sessions(db, prefix, limit, after))

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return a page of the run's log; see `EventStore`."""
        return await self.access.read(lambda db: runs.events(db, run_id, after, limit))

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after events were written; see `EventStore`."""
        return self.access.runtime.watch(changed)

    # Workers

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Register the incarnation; see `WorkerStore`."""
        runtime = self.access.runtime
        address = runtime.add_worker(incarnation.id, wake)
        await runtime.wait_until_listening()
        await self.access.write(lambda db, _: workers.register(db, incarnation, address, db.now()), gated=False)

    async def step(self, step: Step) -> StepReply:
        """Settle results and claim runs; see `WorkerStore`."""
        writer = self.access.runtime.writer
        # A step that only claims need not wait for the disk: if the machine crashes, so does the worker.
        lasts = step.results or step.emitted or step.saved or step.overdue
        try:
            reply = await self.access.write(
                lambda db, after_commit: steps.take_step(db, after_commit, step, db.now()),
                CommitOptions(
                    Durability.AT_COMMIT if lasts else Durability.LATER,
                    prefetch=steps.prefetch(step, writer.recent_lanes),
                ),
                gated=False,
            )
            writer.note_lanes(reply)
            return reply
        except LeaseLost:
            # It may be alive, and the store has lost its last steps: others must take over its leases.
            await self.leave(step.incarnation)
            raise

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; see `WorkerStore`."""
        return self.access.runtime.writer.submit(
            lambda db, _: workers.renew(db, incarnation, db.now()), CommitOptions(Durability.LATER)
        ).result()

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Take over from dead incarnations; see `WorkerStore`."""
        return await self.access.write(
            lambda db, after_commit: workers.reclaim(db, after_commit, incarnation, gone, limit, db.now()), gated=False
        )

    async def leave(self, incarnation: str) -> None:
        """Mark the incarnation as left; see `WorkerStore`."""
        await self.access.write(
            lambda db, after_commit: workers.leave(db, after_commit, incarnation, db.now()), gated=False
        )
        self.access.runtime.remove_worker(incarnation)

    async def workers(self) -> list[WorkerInfo]:
        """Return the incarnations; see `WorkerStore`."""
        return await self.access.read(runs.workers)

    def look(self) -> bool:
        """Return whether another process has committed since the last call; see `WorkerStore`."""
        runtime = self.access.runtime
        return runtime.opened and runtime.writer.look()

    # Jobs

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Add, edit or remove a job; see `JobStore`."""
        return await self.access.write(lambda db, after_commit: jobs.change(db, after_commit, change, db.now()))

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return jobs by name; see `JobStore`."""
        return await self.access.read(lambda db: job_reads.listed(db, wanted, limit, after))

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return the jobs that are due; see `JobStore`."""
        return await self.access.read(lambda db: job_reads.due(db, limit, after, db.now()))

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write firings; see `JobStore`."""
        return await self.access.write(
            lambda db, after_commit: fires.fire(db, after_commit, firings, db.now()), gated=False
        )

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return a job's records, newest first; see `JobStore`."""
        return await self.access.read(lambda db: job_reads.fires(db, job_id, limit, before))

    async def restart_time(self) -> None:
        """Accept a clock that was set back; see `JobStore`."""
        await self.access.write(lambda db, _: jobs.restart_time(db, db.now()))

    # Upkeep

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        """Delete old runs, or trim old logs; see `UpkeepStore`."""
        # Not durable: what a crash of the machine restores is pruned again.
        return await self.access.write(
            lambda db, _: _prune(db, old, limit, db.now()), CommitOptions(Durability.LATER), gated=False
        )

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Find mistakes in the tables, and repair them; see `UpkeepStore`."""
        if not repair:
            return await self.access.read(check.look)
        return await self.access.write(lambda db, after_commit: check.repair(db, after_commit, db.now()))

    # Moves

    async def moving(self) -> Moving | None:
        """Return the state of a move; see `MovingStore`."""
        return await self.access.read(standing)

    async def move(self, transition: Transition) -> Moved:
        """Make a transition of a move; see `MovingStore`."""
        return await self.access.write(
            lambda db, after_commit: phases.move(db, after_commit, transition, db.now()), gated=False
        )

    async def holds(self) -> list[str]:
        """Return what the store has, in words; see `MovingStore`."""
        return await self.access.read(phases.holds)

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces; see `MovingStore`."""
        return await self.access.read(lambda db: pack.page(db, after, limit))

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Write pieces; see `MovingStore`."""
        await self.access.write(lambda db, _: unpack.unpack(db, move, pieces, mark), gated=False)


def _prune(db: Database, old: Old, limit: int, now: int) -> int:
    match old:
        case OldRuns(keep):
            return prune.prune(db, keep, limit, now)
        case OldDeltas(age):
            return trim.trim(db, age, limit, now)


def _or_raise(found: Run | UsageError) -> Run:
    """Return the run, or raise the error: what was written before it is committed."""
    if isinstance(found, UsageError):
        raise found
    return found
