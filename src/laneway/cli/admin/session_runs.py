"""The runs of a session, by state: active, queued, or not due yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.cli.shell import formats
from laneway.cli.shell.view import Fact, several
from laneway.core.records.run import Request
from laneway.core.records.states import TERMINAL, RunState

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.core.records.run import Run
    from laneway.scheduler import Scheduler

PAGE = 1000  # runs per read
SHOWN = 20  # runs of each list on the page of a session


class SessionRuns(NamedTuple):
    """The runs of a session that have not ended; each list is in the order of acceptance."""

    active: list[Run]  # started
    queued: list[Run]  # due, never started
    later: list[Run]  # not due yet, or collecting messages until they are
    called: list[Run]  # by other runs, which wait for them: they name the session and are not counted in it

    @property
    def stoppable(self) -> list[Run]:
        """The active runs that are not requested to stop yet."""
        return [run for run in self.active if run.request is not Request.CANCEL]

    @property
    def droppable(self) -> list[Run]:
        """The runs that were never started."""
        return [*self.queued, *self.later]


async def read(scheduler: Scheduler, session: str) -> SessionRuns:
    """Read the runs of a session."""
    # By id: a run that changes its state during this loop would be read twice.
    found: dict[str, Run] = {}
    for state in RunState:
        before: int | None = None
        while state not in TERMINAL and (
            page := await scheduler.runs(state=state, session=session, limit=PAGE, before=before)
        ):
            found |= {run.id: run for run in page}
            before = page[-1].number
    places, now = SessionRuns([], [], [], []), formats.now()
    for run in sorted(found.values(), key=lambda run: run.number):
        _place(run, places, now).append(run)
    return places


def _place(run: Run, places: SessionRuns, now: datetime) -> list[Run]:
    if run.ties is not None and run.ties.call is not None:
        return places.called
    if run.fence:
        return places.active
    return places.queued if run.due_at <= now else places.later


def facts(places: SessionRuns, session: str) -> list[Fact]:
    """Return the first runs of each list as facts."""
    import shlex

    now, found = formats.now(), []
    for name, runs in places._asdict().items():
        lines = [f"{run.id}  {run.task}, {formats.standing_at(run, now)}" for run in runs[:SHOWN]]
        if len(runs) > SHOWN:
            more = f"laneway runs list --session {shlex.quote(session)}"
            lines.append(f"and {len(runs) - SHOWN} more: {more}")
        found += several(name, lines)
    return found
