"""The final figures of the demo, read from the store after all runs have ended."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from laneway.core.records.events import DONE, LAPSED, Event
from laneway.core.records.run import Run
from laneway.core.records.states import RunState
from laneway.scheduler import Scheduler

PAGE = 500


@dataclass(frozen=True)
class Ledger:
    """The numbers of what was submitted and what came of it."""

    submitted: int  # receipts that the demo has
    succeeded: int
    lost: int  # receipts whose run is missing or has not ended
    one_done: int  # runs with exactly one `done`, as their last event
    gaps: int  # missing event numbers
    inversions: int  # session messages that started before an earlier one had ended
    restarted: int  # runs that a second worker had to start again

    @property
    def balanced(self) -> bool:
        """Tell whether every submitted run succeeded, ended once, and kept its order."""
        return self.submitted == self.succeeded == self.one_done and not (self.lost or self.gaps or self.inversions)


async def audit(app: Scheduler, receipts: Sequence[str]) -> Ledger:
    """Read all runs and events, and count."""
    runs = {run.id: run for run in await all_runs(app)}
    store = await app.open()
    logs = [await store.events(run_id) for run_id in runs]
    found = [runs[run_id] for run_id in receipts if run_id in runs]
    return Ledger(
        submitted=len(receipts),
        succeeded=sum(run.state is RunState.SUCCEEDED for run in found),
        lost=len(receipts) - sum(run.ended for run in found),
        one_done=sum(_ends_once(log) for log in logs),
        gaps=sum(_gaps(log) for log in logs),
        inversions=sum(inversions(session) for session in sessions(runs.values())),
        restarted=sum(any(event.kind == LAPSED for event in log) for log in logs),
    )


async def all_runs(app: Scheduler) -> list[Run]:
    """Return all runs of the store."""
    found: list[Run] = []
    while page := await app.runs(limit=PAGE, before=found[-1].number if found else None):
        found += page
    return found


def sessions(runs: Iterable[Run]) -> list[list[Run]]:
    """Return the runs of each session in the order they were accepted."""
    ordered = sorted((run for run in runs if run.session), key=lambda run: (run.session, run.number))
    return [list(group) for _, group in itertools.groupby(ordered, key=lambda run: run.session)]


def inversions(session: Sequence[Run]) -> int:
    """Count the runs that started before the one accepted just before them had ended."""
    return sum(
        earlier.ended_at is None or later.started_at is None or later.started_at < earlier.ended_at
        for earlier, later in itertools.pairwise(session)
    )


def _ends_once(log: Sequence[Event]) -> bool:
    return bool(log) and log[-1].kind == DONE and sum(event.kind == DONE for event in log) == 1


def _gaps(log: Sequence[Event]) -> int:
    return sum(event.seq != expected for expected, event in enumerate(log, 1))
