"""A worker as the model test knows it, and what its handlers end in."""

from __future__ import annotations

from laneway.core.lifecycle.outcome import (
    Cancelled,
    Failed,
    Lapsed,
    Outcome,
    Paused,
    Released,
    Snoozed,
    Succeeded,
    Waits,
    settle,
)
from laneway.core.lifecycle.step import Result, Step
from laneway.core.records.breakers import Breaker
from laneway.core.records.liveness import Incarnation, ProcessMark
from laneway.core.records.memos import Wait
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Claimed, Failure, NewRun, Request, RunLinks
from laneway.testing.hand import new_run
from laneway.testing.waits import question, waits
from tests.support.child_runs import child_of, follow_up

POLICIES = {
    "work": TaskPolicy(breaker=Breaker(2, open_for=5, per="user")),
    "mail": TaskPolicy(breaker=Breaker(1, open_for=2)),
    "scan": TaskPolicy(breaker=Breaker(1, open_for=5, disable=True)),
}
DEEPEST = 3  # a run with so many parents above it neither calls nor leaves anything


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

    def outcome(self, run: Claimed, name: str, last: Wait | None = None) -> Outcome | None:
        """Return the outcome that a command calls `name`; None if the handler goes on.

        `last` is what the run waited for last, for a handler that waits for it again.
        """
        if name == "keep":
            return None
        if run.lapsed:
            return Lapsed()
        match name:
            case "ask" | "call" | "ask and call" | "again":
                return _waits(run, name, last)
            case "leave":
                return Succeeded("2", _left(run))
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


def _waits(run: Claimed, name: str, last: Wait | None) -> Outcome:
    if name == "again" and last is not None and (last.questions or last.calls):
        return Waits(Wait(questions=last.questions, calls=last.calls))
    deep = run.ties is not None and run.ties.depth >= DEEPEST
    quick, slow = question("quick", timeout=5), question("slow", timeout=60, about=str(run.fence))
    if name == "ask" or deep:
        return waits(*((slow,), (quick,), (slow, quick))[run.fence % 3])
    # The same call in two starts of a run, and another one in the next two.
    tries = run.fence // 2
    first, second = child_of(run, "first", tries=tries), child_of(run, "second", tries=tries, task="mail", delay=2)
    calls = ((first,), (first, second), (second,))[run.number % 3]
    return waits(*calls, slow) if name == "ask and call" else waits(*calls)


def _left(run: Claimed) -> tuple[NewRun, ...]:
    if run.ties is not None and run.ties.depth >= DEEPEST:
        return ()
    plain, later = follow_up(run, 1), follow_up(run, 2, task="mail", lane="team", delay=2, session="s2")
    alone = follow_up(run, 3, key="k1", ties=RunLinks(session="", then=(new_run("then"),)))
    return ((plain,), (plain, later), (alone, plain))[run.number % 3]


def result_of(run: Claimed, outcome: Outcome, read: int = 0, throttled: bool | None = None) -> Result:
    """Return the result that a worker's step contains for a run with this outcome and this many messages read."""
    return Result(run.number, run.fence, settle(run, outcome, POLICIES[run.task]), read, throttled)
