"""Cancel runs by id or by filters, and wait until their handlers have stopped."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from laneway.cli.runs import stages
from laneway.cli.runs.stages import Stages
from laneway.cli.shell.batch_results import Refused, print_results, results_of
from laneway.cli.shell.errors import FAILED, FINE, TIMED_OUT, Problem, say
from laneway.cli.shell.formats import spoken
from laneway.cli.shell.output import is_terminal, print_json
from laneway.core.records.codec import to_dict
from laneway.core.records.run import Request
from laneway.core.records.states import TERMINAL, RunState

if TYPE_CHECKING:
    from laneway.core.records.run import Run
    from laneway.scheduler import Scheduler

PAGE = 1000  # runs per read
AGAIN = 2.0  # seconds between two cancels of a run: each one checks whether its worker was killed
Told = tuple["Run", Stages]


class Patience(NamedTuple):
    """Whether to wait until handlers have stopped, and for how long."""

    wait: bool = False
    timeout: float | None = None

    async def stopped(self, scheduler: Scheduler, run: Run) -> Run:
        """Wait for the end of a run and return it; return it as it is after the time-out, or at once without `wait`."""
        left = math.inf if self.timeout is None else self.timeout
        until = time.monotonic() + left
        while self.wait and not run.ended and left > 0:
            try:
                return await scheduler.wait(run, min(left, AGAIN))
            except TimeoutError:
                # Its worker may have been killed, and no other may be up to notice it. A cancel checks that.
                run = await scheduler.cancel(run)
            left = until - time.monotonic()
        return run

    def code(self, runs: Iterable[Run]) -> int:
        """Return the exit code; print which runs have not stopped in time."""
        late = [run for run in runs if not run.ended] if self.wait else []
        if not late:
            return FINE
        one = len(late) == 1
        what = f"run {late[0].id} has" if one else f"{len(late)} runs have"
        say(f"laneway: {what} not stopped after {spoken(self.timeout or 0)}; the cancel stands")
        say(f"  to end a run without its handler: laneway runs cancel {late[0].id} --abandon")
        return TIMED_OUT


async def cancel(scheduler: Scheduler, ids: Sequence[str], *, abandon: bool, patience: Patience, as_json: bool) -> int:
    """Cancel the runs of these ids, and print how far each cancel got."""
    async with scheduler:
        asked: list[Run | Refused] = await results_of(ids, lambda given: scheduler.cancel(given, abandon=abandon))
        answers = await asyncio.gather(*(_followed(scheduler, answer, patience) for answer in asked))
    code = print_results(answers, line=_line, record=_record, as_json=as_json)
    late = patience.code(answer[0] for answer in answers if not isinstance(answer, Refused))
    return code or late


async def _followed(scheduler: Scheduler, answer: Run | Refused, patience: Patience) -> Told | Refused:
    if isinstance(answer, Refused):
        return answer
    run = await patience.stopped(scheduler, answer)
    return run, await stages.read(scheduler, run)


def _line(answer: Told) -> str:
    run, reached = answer
    return f"{run.id}  {stages.told(run, reached)}"


def _record(answer: Told) -> dict[str, Any]:
    run, reached = answer
    return {**to_dict(run), "cancel": reached.record()}


class Many:
    """Cancels all runs that match the filters."""

    def __init__(
        self, wanted: Mapping[str, str], *, ask: bool, dry_run: bool, patience: Patience, as_json: bool
    ) -> None:
        self._wanted, self._dry_run, self._patience, self._as_json = wanted, dry_run, patience, as_json
        self._ask = ask and not dry_run and is_terminal(sys.stdin)
        state = RunState.named(wanted["state"]) if "state" in wanted else None
        if state in TERMINAL:
            raise Problem(f"{wanted['state']} runs have ended; there is nothing left to cancel")
        self._states = [one for one in RunState if one not in TERMINAL] if state is None else [state]

    async def cancel(self, scheduler: Scheduler) -> int:
        """Cancel the runs, or only count them; return the exit code."""
        async with scheduler:
            if self._dry_run:
                return self._tell(await self._count(scheduler))
            if self._ask and not self._is_wanted(await self._count(scheduler)):
                say("nothing was changed")
                return FAILED
            count = await scheduler.cancel_where(**self._wanted)
            running = [run async for run in self._fitting(scheduler, RunState.RUNNING) if _is_stopping(run)]
            ended = await asyncio.gather(*(self._patience.stopped(scheduler, run) for run in running))
            return self._tell(count, [run for run in ended if not run.ended])

    def _tell(self, count: int, stopping: Sequence[Run] = ()) -> int:
        if self._as_json:
            left = [run.id for run in stopping]
            print_json({"v": 1, "count": count, "dry_run": self._dry_run, "stopping": left})
        else:
            verb = "would be cancelled" if self._dry_run else "cancelled"
            more = f"; {len(stopping)} still running, told to stop" if stopping else ""
            click.echo(f"{_runs(count)} {verb}{more}")
        return self._patience.code(stopping)

    def _is_wanted(self, count: int) -> bool:
        chosen = ", ".join(f"{name} {value}" for name, value in self._wanted.items())
        return not count or click.confirm(f"cancel {_runs(count)} ({chosen})?", err=True)

    async def _count(self, scheduler: Scheduler) -> int:
        # By id: a run that changes its state during this loop would be counted twice.
        fit = {
            run.id for state in self._states async for run in self._fitting(scheduler, state) if not _is_stopping(run)
        }
        return len(fit)

    async def _fitting(self, scheduler: Scheduler, state: RunState) -> AsyncIterator[Run]:
        if state not in self._states:
            return
        wanted: dict[str, Any] = {**self._wanted, "state": state}
        before: int | None = None
        while page := await scheduler.runs(**wanted, limit=PAGE, before=before):
            for run in page:
                yield run
            before = page[-1].number


def _is_stopping(run: Run) -> bool:
    return run.request is Request.CANCEL


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"
