"""The methods of a scheduler about existing runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from laneway.core.common.checks import checked_count
from laneway.core.common.instants import SECOND, duration
from laneway.core.records import codec
from laneway.core.records.events import Event
from laneway.core.records.run import Reason, Receipt, Run, RunFilter
from laneway.core.records.states import RunState
from laneway.engine.attempts.subscribers import Subscribers
from laneway.engine.client.client import Client
from laneway.engine.client.run_control import RunControl
from laneway.engine.handlers.durable import HeldBack
from laneway.errors import BadSetting
from laneway.ports.gates import Depths
from laneway.ports.store import Store
from laneway.settings import Settings


class RunsApi(ABC):
    """The methods of a scheduler about existing runs."""

    settings: Settings
    _client: Client
    _control: RunControl
    _subscribers: Subscribers

    @abstractmethod
    async def open(self) -> Store:
        """Open the store."""

    @abstractmethod
    def _refuse_if_shut(self) -> None:
        """Raise if the scheduler accepts no new runs."""

    # Reading

    async def get(self, run: Receipt | Run | str) -> Run:
        """Return the run as it is now; an id may be given by its beginning. Raises UnknownRun."""
        store = await self.open()
        return await self._client.repeated(lambda: store.get(run_id(run)))

    async def runs(
        self,
        *,
        state: RunState | str | None = None,
        task: str | None = None,
        lane: str | None = None,
        user: str | None = None,
        session: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[Run]:
        """Return up to `limit` matching runs, newest first; `before` is the number to go on from."""
        checked_count(limit, "limit")
        wanted = RunFilter.of(state=state, task=task, lane=lane, user=user, session=session)
        store = await self.open()
        return await self._client.repeated(lambda: store.runs(wanted, limit=limit, before=before))

    async def why(self, run: Receipt | Run | str) -> list[Reason]:
        """Return what a run waits for: every gate that is closed for it, what holds it, and when it opens, if known."""
        store = await self.open()
        found = await self._client.repeated(lambda: store.get(run_id(run)))
        return await self._client.repeated(lambda: store.why(found.id))

    async def depths(self) -> Depths:
        """Return how many runs there are, by state and by where they wait."""
        store = await self.open()
        return await self._client.repeated(store.depths)

    async def result(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Any:
        """Wait for the run to end and return its result.

        Raises RunFailed, RunCancelled or RunDropped if it ended without success, TimeoutError if it has not ended in
        time.
        """
        seconds = _seconds(timeout)
        await self.open()
        return await self._client.result(run_id(run), seconds)

    async def wait(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Run:
        """Wait for the run to end, in whatever state, and return it. Raises TimeoutError."""
        seconds = _seconds(timeout)
        await self.open()
        return await self._client.ended(run_id(run), seconds)

    async def events(self, run: Receipt | Run | str, after: int = 0) -> AsyncIterator[Event]:
        """Yield the run's events with numbers greater than `after`: stored ones, then live ones, up to `done`."""
        if not isinstance(after, int) or after < 0:
            raise BadSetting(f"after is {after!r}; it is the number of the last event you have, 0 for none")
        await self.open()
        async with aclosing(self._client.events(run_id(run), after)) as events:
            async for event in events:
                yield event

    def subscribe(
        self,
        call: Callable[[Event], Any],
        *,
        run: Receipt | Run | str | None = None,
        kinds: Iterable[str] | None = None,
    ) -> Callable[[], None]:
        """Call `call` with the events of runs that this process executes; return a function that ends that.

        It may be async or plain; for one run (given by its whole id), or for some kinds only. A handler's events come
        at once, the engine's when they are stored, in order for each run; they have no number yet (`seq` 0). A
        subscriber that is slow or fails disturbs nothing: errors are logged, and one that is 10,000 events behind loses
        the oldest.
        """
        return self._subscribers.add(call, None if run is None else run_id(run), kinds)

    # Control

    async def cancel(self, run: Receipt | Run | str, *, abandon: bool = False) -> Run:
        """Cancel the run, in whatever state it is, even while no worker is up; return it as it is then.

        A running one is told to stop, and ends when it has. `abandon=True` ends it at once, frees its slots, and
        refuses later writes of its handler. Raises WrongState if it has ended otherwise.
        """
        await self.open()
        return await self._control.cancel(run_id(run), abandon=abandon)

    async def cancel_where(
        self,
        *,
        state: RunState | str | None = None,
        task: str | None = None,
        lane: str | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> int:
        """Cancel all matching runs that have not ended; return how many. At least one filter must be given."""
        if (state, task, lane, user, session) == (None,) * 5:
            raise BadSetting("cancel_where without a filter would cancel everything; give state, task, lane, ...")
        wanted = RunFilter.of(state=state, task=task, lane=lane, user=user, session=session)
        await self.open()
        return await self._control.cancel_where(wanted)

    async def pause(self, run: Receipt | Run | str) -> Run:
        """Pause the run: at once if it is pending, at its next checkpoint or step if it is running."""
        await self.open()
        return await self._control.pause(run_id(run))

    async def answer(self, run: Receipt | Run | str, answer: object, *, name: str | None = None) -> Run:
        """Answer a question of the run (`ctx.ask`) with any JSON; `name` says which, if there are several.

        Raises NotWaiting if the run does not wait for that answer (any more).
        """
        text = codec.to_json(answer, "the answer", self.settings.result_limit, plural=False)
        await self.open()
        return await self._control.answer(run_id(run), text, name)

    async def resume(self, run: Receipt | Run | str) -> Run:
        """Continue a paused run; its handler finds its last checkpoint in `ctx.state`."""
        await self.open()
        return await self._control.resume(run_id(run))

    async def retry(self, run: Receipt | Run | str) -> Receipt:
        """Submit a run that has ended once more, as a new run that names the old one."""
        self._refuse_if_shut()
        await self.open()
        return await self._control.retry(run_id(run))


def run_id(run: Receipt | Run | HeldBack | str) -> str:
    """Return the id of what stands for a run. Raises BadSetting if there is none."""
    if isinstance(run, Receipt):
        if not run.accepted:
            raise BadSetting(f"the submission was {run.outcome.value} ({run.reason}): there is no run")
        return run.run_id
    if isinstance(run, Run):
        return run.id
    if isinstance(run, HeldBack):
        raise run.refusal()
    if not isinstance(run, str):
        raise BadSetting(f"{run!r} is no run; give a receipt, a run or an id")
    return run


def _seconds(timeout: timedelta | float | None) -> float | None:
    return None if timeout is None else duration(timeout, "timeout") / SECOND
