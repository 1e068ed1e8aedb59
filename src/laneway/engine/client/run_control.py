"""Control of runs from outside: cancel, pause, resume, answer and retry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from laneway.core.records import codec
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.run import NewRun, Receipt, Run, RunFilter, RunLinks
from laneway.core.records.states import RunState
from laneway.engine.client.client import Client
from laneway.engine.common.ids import new_run_id
from laneway.engine.common.processes import is_gone
from laneway.errors import WrongState
from laneway.ports.control import Answer, Cancel, Pause, Resume, RunChange, Swept
from laneway.ports.store import Store


class RunControl:
    """The control calls to an open store. Each has an id of its own, so that it can be repeated."""

    def __init__(self, store: Store, client: Client) -> None:
        self._store, self._client = store, client

    async def cancel(self, run_id: str, *, abandon: bool) -> Run:
        """Cancel a run; return it as it is then."""
        run = await self._found(run_id)
        if run.state is RunState.RUNNING:
            await self.leave_for_dead_workers()
        return await self._change(run.id, Cancel(abandon))

    async def pause(self, run_id: str) -> Run:
        """Pause a run; return it as it is then."""
        return await self._change((await self._found(run_id)).id, Pause())

    async def resume(self, run_id: str) -> Run:
        """Resume a run; return it as it is then."""
        return await self._change((await self._found(run_id)).id, Resume())

    async def answer(self, run_id: str, answer: str, name: str | None) -> Run:
        """Answer a run's question with JSON text; return the run as it is then."""
        run = await self._found(run_id)
        return await self._change(run.id, Answer(answer, name))

    async def cancel_where(self, wanted: RunFilter) -> int:
        """Cancel all matching runs that had been accepted when this began; return how many it cancelled."""
        await self.leave_for_dead_workers()
        newest = await self._client.repeated(lambda: self._store.runs(RunFilter(), limit=1))
        changed, after = 0, 0
        while newest:
            swept = await self._part(wanted, after, newest[0].number)
            changed += swept.changed
            if swept.last is None:
                break
            after = swept.last
        return changed

    async def retry(self, run_id: str) -> Receipt:
        """Submit a run that has ended once more, as a new run linked to it. It displaces and joins no other run."""
        old = await self._found(run_id)
        if not old.ended:
            raise WrongState(old.state.value, "retry")
        args = codec.to_json(old.args, "the arguments", codec.RESULT_LIMIT)
        again = NewRun(
            id=new_run_id(),
            task=old.task,
            args=args,
            lane=old.lane,
            user=old.user,
            session=old.session,
            priority=old.priority,
            retry_of=old.id,
            inside=True,
            ties=None if old.ties is None else _untied(old.ties),
        )
        return await self._client.submit(again)

    async def _part(self, wanted: RunFilter, after: int, until: int) -> Swept:
        call = new_run_id()
        return await self._client.repeated(lambda: self._store.cancel_where(call, wanted, after=after, until=until))

    async def leave_for_dead_workers(self) -> None:
        """Make workers whose process is gone leave, so that a cancel ends what they executed.

        A live worker would notice them. While none is up, nobody else does.
        """
        for worker in await self._client.repeated(self._store.workers):
            if not worker.left and is_gone(worker.incarnation.process):
                await self._client.repeated(partial(self._store.leave, worker.incarnation.id))

    async def _found(self, run_id: str) -> Run:
        # The id may be the beginning of one; the other calls need the whole id.
        return await self._client.repeated(lambda: self._store.get(run_id))

    async def _change(self, run_id: str, change: RunChange) -> Run:
        call = new_run_id()
        return await self._client.repeated(lambda: self._store.change_run(call, run_id, change))


class Workers:
    """The live workers, as `app.workers`."""

    def __init__(self, opened: Callable[[], Awaitable[Store]], client: Client) -> None:
        self._opened, self._client = opened, client

    async def list(self) -> list[WorkerInfo]:
        """Return the live incarnations, and those that left and still hold leases; oldest first."""
        store = await self._opened()
        return await self._client.repeated(store.workers)


def _untied(ties: RunLinks) -> RunLinks:
    """Return a run's links for a retry of it: nobody waits for the retry, and it is no live fire of a job."""
    job = None if ties.job is None else msgspec.structs.replace(ties.job, overlap=None, by_hand=True)
    return msgspec.structs.replace(ties, call=None, tries=0, session=None, job=job)
