"""The verbs of `ports.Store` over tables.

Every verb is work for one of two threads (`runtime`): the writer's, inside a transaction, or the reader's, in a
snapshot. Nothing is kept in memory between two verbs, so any number of processes can share the tables.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.lifecycle.step import ReclaimReply, RenewReply, Step, StepReply
from laneway.core.queue.audit import Finding
from laneway.core.records.events import Event
from laneway.core.records.liveness import Incarnation, WorkerInfo
from laneway.core.records.memos import Recall
from laneway.core.records.policy import Lane
from laneway.core.records.run import Message, NewRun, Reason, Receipt, Run, RunFilter
from laneway.errors import LeaseLost, UsageError
from laneway.ports.control import RunChange, Swept
from laneway.ports.gates import Depths, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import Extent, SessionState
from laneway.ports.settings import Setting
from laneway.ports.upkeep import Old, OldDeltas, OldRuns
from laneway.ports.users import UserState
from laneway.stores.tables.move_store import Movekeeping
from laneway.stores.tables.reads import overview, runs, why
from laneway.stores.tables.rows import memos, messages
from laneway.stores.tables.runtime.access import R
from laneway.stores.tables.runtime.commit_options import CommitOptions, Durability
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.upkeep import check, prune, trim
from laneway.stores.tables.verbs import control, settings, steps, submissions, workers


class TableStore(Movekeeping[R], ABC):
    """A store over tables."""

    # Runs

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept the batch; see `RunStore`."""
        return await self._write(
            lambda db, after_commit: submissions.submit(db, after_commit, batch, db.now()),
            CommitOptions(Durability.BEFORE_ANSWER, prefetch=submissions.prefetch(batch)),
            gated=False,
        )

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return the messages that the run took; see `RunStore`."""
        return await self._read(lambda db: messages.messages(db, run_id, after, limit))

    async def get(self, run_id: str) -> Run:
        """Return the run; see `RunStore`."""
        return await self._read(lambda db: runs.get(db, run_id))

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return runs, newest first; see `RunStore`."""
        return await self._read(lambda db: runs.runs(db, wanted, limit, before))

    # Control

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        """Cancel, pause, resume or answer the run; see `ControlStore`."""
        found = await self._write(
            lambda db, after_commit: control.change(db, after_commit, call, run_id, change, db.now())
        )
        return _or_raise(found)

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit; see `ControlStore`."""
        return await self._write(
            lambda db, after_commit: control.cancel_where(db, after_commit, call, wanted, after, until, limit, db.now())
        )

    async def recall(self, run_id: str) -> Recall:
        """Return what the run has kept; see `RunStore`."""
        return await self._read(lambda db: memos.recall(db, run_id))

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        """Stop what goes on in the session; see `SessionStore`."""
        return await self._write(lambda db, after_commit: control.stop(db, after_commit, call, name, extent, db.now()))

    # Lanes, users, gates

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Take note of what is declared of lanes; see `LaneStore`."""
        await self._write(lambda db, after_commit: settings.declare_lanes(db, after_commit, lanes, db.now()))

    async def set(self, setting: Setting) -> None:
        """Set what an operator sets; see `SettingStore`."""
        await self._write(lambda db, after_commit: settings.put(db, after_commit, setting, db.now()))

    async def lanes(self) -> list[LaneState]:
        """Return the lanes; see `LaneStore`."""
        return await self._read(overview.lanes)

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        """Return users in lanes; see `UserStore`."""
        return await self._read(lambda db: overview.users(db, user, limit, after))

    async def tasks(self) -> list[TaskState]:
        """Return the tasks; see `GateStore`."""
        return await self._read(lambda db: overview.tasks(db, db.now()))

    async def why(self, run_id: str) -> list[Reason]:
        """Return the gates that are closed for the run; see `GateStore`."""
        return await self._read(lambda db: why.why(db, run_id, db.now()))

    async def depths(self) -> Depths:
        """Count what waits; see `GateStore`."""
        return await self._read(overview.depths)

    # Sessions, events

    async def sessions(
        self, *, named: str | None = None, prefix: str = "", limit: int = 100, after: str = ""
    ) -> list[SessionState]:
        """Return sessions by name; see `SessionStore`."""
        if named is not None:
            return await self._read(lambda db: runs.session(db, named))
        return await self._read(lambda db: runs.sessions(db, prefix, limit, after))

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return a page of the run's log; see `EventStore`."""
        return await self._read(lambda db: runs.events(db, run_id, after, limit))

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after events were written; see `EventStore`."""
        return self._runtime.watch(changed)

    # Workers

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Make the incarnation known; see `WorkerStore`."""
        runtime = self._runtime
        address = runtime.add_worker(incarnation.id, wake)
        await runtime.wait_until_listening()
        await self._write(lambda db, _: workers.register(db, incarnation, address, db.now()), gated=False)

    async def step(self, step: Step) -> StepReply:
        """Settle, claim, rest; see `WorkerStore`."""
        writer = self._runtime.writer
        # A claim alone need not wait for the disk: if the machine crashes, so does whoever was given the run.
        lasts = step.results or step.emitted or step.saved or step.overdue
        try:
            reply = await self._write(
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
            # It may be alive, and only its last steps are gone: what it holds is to be taken over.
            await self.leave(step.incarnation)
            raise

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; see `WorkerStore`."""
        return self._runtime.writer.submit(
            lambda db, _: workers.renew(db, incarnation, db.now()), CommitOptions(Durability.LATER)
        ).result()

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Take over from the dead; see `WorkerStore`."""
        return await self._write(
            lambda db, after_commit: workers.reclaim(db, after_commit, incarnation, gone, limit, db.now()), gated=False
        )

    async def leave(self, incarnation: str) -> None:
        """Say good-bye; see `WorkerStore`."""
        await self._write(lambda db, after_commit: workers.leave(db, after_commit, incarnation, db.now()), gated=False)
        self._runtime.remove_worker(incarnation)

    async def workers(self) -> list[WorkerInfo]:
        """Return the incarnations; see `WorkerStore`."""
        return await self._read(runs.workers)

    def look(self) -> bool:
        """Tell whether another process has committed since; see `WorkerStore`."""
        runtime = self._runtime
        return runtime.opened and runtime.writer.look()

    # Upkeep

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        """Delete what is old; see `UpkeepStore`."""
        # Not durable: what a crash of the machine brings back is pruned again.
        return await self._write(
            lambda db, _: _prune(db, old, limit, db.now()), CommitOptions(Durability.LATER), gated=False
        )

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Find what does not agree, and set it right; see `UpkeepStore`."""
        if not repair:
            return await self._read(check.look)
        return await self._write(lambda db, after_commit: check.repair(db, after_commit, db.now()))


def _prune(db: Database, old: Old, limit: int, now: int) -> int:
    match old:
        case OldRuns(keep):
            return prune.prune(db, keep, limit, now)
        case OldDeltas(age):
            return trim.trim(db, age, limit, now)


def _or_raise(found: Run | UsageError) -> Run:
    """Return the run, or raise what is wrong: what was done on the way there is committed."""
    if isinstance(found, UsageError):
        raise found
    return found
