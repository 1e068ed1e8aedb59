"""Control: what people and programs ask of runs from outside."""

from __future__ import annotations

from typing import Protocol

import msgspec

from laneway.core.records.run import Run, RunFilter


class Swept(msgspec.Struct, frozen=True):
    """The answer to one part of a bulk change: how many runs were changed, and behind which number to go on, if any."""

    changed: int
    last: int | None = None


class ControlStore(Protocol):
    """Cancels, pauses and resumes runs, whether a worker is up or not.

    Every verb carries an id of the call, made by the caller: the newest one that changed a run is kept with it, and the
    same call again changes nothing and returns the run. Asking for what is so already changes nothing either. All raise
    UnknownRun, and WrongState if the run's state does not allow it.
    """

    async def cancel(self, call: str, run_id: str, *, abandon: bool = False) -> Run:
        """Cancel the run: one that is not running ends at once, with its events; one that is running is requested to.

        A stored cancel wins over whatever the attempt comes to. A run whose lease has lapsed, or that is to be
        abandoned, ends at once too: its slots are free, and what its worker still writes is refused; that worker hears
        of it at its next renewal. The holder of a run that is requested to is woken.
        """
        ...

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit, of numbers greater than `after` and up to `until`, at most `limit` of them.

        `changed` counts those that this call cancelled or requested to; runs that have ended, or were requested to
        before, are not counted. Repeatable: the same call again returns the same count.
        """
        ...

    async def pause(self, call: str, run_id: str) -> Run:
        """Pause the run: a pending one at once, a running one when its handler reaches a checkpoint.

        A run that has joined its session keeps its place there, and whoever is behind it waits. Whatever would make a
        run pending again makes it paused instead once this is stored.
        """
        ...

    async def resume(self, call: str, run_id: str) -> Run:
        """Make a paused run pending again, due when it was; take back a pause that was requested of a running one.

        One that was paused before it was due, and is by now, joins its session's tail.
        """
        ...
