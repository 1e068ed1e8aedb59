"""Why a job does not fire, with the command that changes that."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from laneway.cli.shell import formats

if TYPE_CHECKING:
    from laneway.core.jobs.job import Job
    from laneway.ports.gates import CircuitState, TaskState
    from laneway.scheduler import Scheduler

OVERDUE = timedelta(seconds=10)  # a worker waits for a condition for up to 5 s
OVER = {
    "done": "it has no fire left; its last run succeeded",
    "failed": "it has no fire left, and its last run failed",
    "missed": "it has no fire left, and missed its last one",
    "cancelled": "it has no fire left, and its last run was cancelled or dropped",
    "skipped": "it has no fire left, and its last one was skipped",
}


class Prerequisites(NamedTuple):
    """What the fires of a job depend on beside the job: the workers that are up, and the state of its task."""

    workers: int  # that are up
    task: TaskState | None

    @classmethod
    async def read(cls, scheduler: Scheduler, job: Job) -> Prerequisites:
        """Read them from the store."""
        task = next((one for one in await scheduler.tasks.list() if one.name == job.task), None)
        return cls(await workers_up(scheduler), task)

    def reasons(self, job: Job, now: datetime) -> list[str]:
        """Return everything that keeps the job from firing, or its runs from starting."""
        said = [_of_job(job), _of_hold(job, now), self._of_task(job)]
        if job.orphaned:
            said.append("it is declared in code, and no worker that is up declares it: nobody fires it")
        elif not self.workers:
            said.append("no worker is up: nobody fires it")
        else:
            said.append(_of_nobody(job, now))
        return [reason for reason in said if reason]

    def _of_task(self, job: Job) -> str:
        task, name = self.task, shlex.quote(job.task)
        if task is not None and task.disabled:
            return f"task {job.task} is disabled, which refuses its fires; accept them: laneway tasks enable {name}"
        if task is not None and task.paused:
            return f"task {job.task} is paused: its runs wait; let them go on: laneway tasks resume {name}"
        if task is not None and (circuit := _open(task, job)) is not None:
            whose = "" if circuit.user is None else f" --user {shlex.quote(circuit.user)}"
            return f"the breaker of task {job.task} is open: its runs wait; close it: laneway tasks close {name}{whose}"
        if self.workers and (task is None or not task.workers):
            return f"no worker that is up knows task {job.task}: its runs wait for one"
        return ""


async def workers_up(scheduler: Scheduler) -> int:
    """Count the workers that are up."""
    from laneway.core.common.instants import micros

    now = micros(formats.now())
    return sum(one.is_up(now) for one in await scheduler.workers.list())


def of_declared(job: Job, done: str) -> str:
    """Return the warning that code or a file declares a job that was changed or removed by hand."""
    if job.source.value == "call":
        return ""
    where = job.spec.origin or job.source.value
    if done == "removed":
        return f"{job.name} is declared in {where} and comes back when that is read again; remove it there, too"
    return f"{job.name} is declared in {where}: this change holds until the declaration changes"


def _open(task: TaskState, job: Job) -> CircuitState | None:
    """Return the circuit that keeps the job's runs from starting."""
    whose = (None, job.spec.user or job.owner or "")
    return next((one for one in task.circuits if one.user in whose and one.phase.value != "closed"), None)


def _of_job(job: Job) -> str:
    enable = f"laneway jobs enable {shlex.quote(job.name)}"
    reason, condition = job.reason or "", job.spec.enabled_when
    if reason == "disabled":
        return f"it is disabled; let it fire: {enable}"
    if reason == "breaker":
        times = "once" if job.failures == 1 else f"{job.failures} times in a row"
        return f"its breaker disabled it, after it had failed {times}; let it fire: {enable}"
    if reason == "gated":
        return f"its condition {condition} was false at the last fire"
    if reason == "gating_error":
        return f"its condition {condition} raised an error at the last fire, which counts as false; see a worker's log"
    return OVER.get(reason, "")


def _of_nobody(job: Job, now: datetime) -> str:
    """Return that a due job is not fired; the store does not know which conditions a worker has registered."""
    condition, late = job.spec.enabled_when, None if job.next_fire_at is None else now - job.next_fire_at
    if condition is None or late is None or late < OVERDUE:
        return ""
    known = f"only one that has registered its condition {condition} does"
    return f"it has been due for {formats.spoken(late)}, and no worker fires it: {known}"


def _of_hold(job: Job, now: datetime) -> str:
    if job.held_until is None or job.held_until <= now:
        return ""
    times = "once" if job.failures == 1 else f"{job.failures} times in a row"
    by = "its breaker is open" if job.held_by == "breaker_open" else "it is held back"
    return f"{by}, because it failed {times}, for another {formats.spoken(job.held_until - now)}"
