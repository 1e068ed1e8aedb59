"""A worker as the model test knows it, and what its handlers end in."""

from __future__ import annotations

from laneway.core.liveness import Incarnation, ProcessMark
from laneway.core.outcome import Cancelled, Failed, Lapsed, Outcome, Paused, Released, Snoozed, Succeeded, settle
from laneway.core.policy import TaskPolicy
from laneway.core.run import Claimed, Failure, Request
from laneway.core.step import Result, Step

POLICY = TaskPolicy()


class Incarnate:
    """A worker as the test knows it: what it believes to hold, what it once held, what it asked."""

    def __init__(self, name: str, tasks: frozenset[str]) -> None:
        mark = ProcessMark("boot", "pid", 1, 1)
        self.incarnation = Incarnation(id=name, host="host", process=mark, tasks=tasks)
        self.name = name
        self.held: list[Claimed] = []
        self.past: list[Claimed] = []
        self.steps = [Step(name, 0)]
        self.told: dict[tuple[int, int], Request] = {}  # what was requested of what it executes

    def outcome(self, run: Claimed, name: str) -> Outcome | None:
        """Return the outcome that a command calls `name`; None if the handler goes on."""
        if name == "keep":
            return None
        if run.lapsed:
            return Lapsed()
        match name:
            case "succeed":
                return Succeeded(f'{{"fence":{run.fence}}}')
            case "release":
                return Released()
            case "snooze":
                return Snoozed(2_000_000)
            case "heed":
                asked = self.told.get((run.number, run.fence))
                return Cancelled() if asked is Request.CANCEL else Paused() if asked else Succeeded("1")
            case _:
                return Failed(Failure("error" if name == "fail" else "bad_result", "ValueError", "no"))


def result_of(run: Claimed, outcome: Outcome, read: int = 0, throttled: bool | None = None) -> Result:
    """Return what a worker's step says of a run that ended so, with so many messages of its inbox read."""
    return Result(run.number, run.fence, settle(run, outcome, POLICY), read, throttled)
