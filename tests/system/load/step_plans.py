"""Plans for errands, drawn by a seed; and what must have become of a plan when everything is at rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from laneway import SessionPolicy, Submission
from laneway.core.records.states import RunState
from tests.system.load.mixed_load import USERS, max_concurrent
from tests.system.load.step_app import ATTEMPTS

SESSIONS = 6
NEVER = "never"  # begins the names of questions that nobody answers: whoever waits above is cancelled instead
TASKS = ("run_errand", "walk_errand", "send_errand")


class Fate(NamedTuple):
    """What must have become of the run of this name."""

    name: str
    state: RunState
    parent: str | None
    called: bool


@dataclass
class Plan:
    """One errand. `doomed`: it, or one that it calls, asks what nobody answers."""

    name: str
    task: str
    takes: float
    deeds: list[dict[str, Any]] = field(default_factory=list)
    callees: list[Plan] = field(default_factory=list)
    left: list[Plan] = field(default_factory=list)
    then: list[Plan] = field(default_factory=list)
    on_failure: list[Plan] = field(default_factory=list)
    failures: int = 0
    doomed: bool = False

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of its run."""
        return {"name": self.name, "deeds": self.deeds, "takes": self.takes, "failures": self.failures}

    @property
    def state(self) -> RunState:
        """What its run ends in."""
        if self.doomed:
            return RunState.CANCELLED
        return RunState.FAILED if self.failures >= ATTEMPTS else RunState.SUCCEEDED

    def fates(self, parent: str | None = None, *, called: bool = False) -> Iterator[Fate]:
        """Yield what must have become of it and all that it calls and leaves behind."""
        yield Fate(self.name, self.state, parent, called)
        for plan in self.callees:
            yield from plan.fates(self.name, called=True)
        after = {RunState.SUCCEEDED: [*self.left, *self.then], RunState.FAILED: self.on_failure}
        for plan in after.get(self.state, ()):
            yield from plan.fates(self.name)

    def submission(self, random: Random) -> Submission:
        """Return it as somebody submits it: four of ten to a session."""
        session = f"errands-{random.randrange(SESSIONS)}" if random.random() < 0.4 else None
        policy = None
        if session is not None:
            policy = SessionPolicy(max_concurrent=max_concurrent(session), cap=100_000, while_waiting="queue")
        return Submission(
            self.task,
            self.args,
            user=random.choice(USERS),
            session=session,
            session_policy=policy,
            then=[(plan.task, plan.args) for plan in self.then] or None,
            on_failure=[(plan.task, plan.args) for plan in self.on_failure] or None,
        )


class Drawing:
    """Draws plans; `longest` is what a deed takes at most, in seconds."""

    def __init__(self, random: Random, *, longest: float = 0.03) -> None:
        self._random, self._longest = random, longest
        self._drawn = 0

    def plan(self) -> Plan:
        """Return one more plan."""
        self._drawn += 1
        plan = self._errand(f"{self._drawn}", depth=2)
        if self._random.random() < 0.1:
            self._doom(plan)
            return plan
        plan.failures = self._failures(plan)
        plan.then = self._small(plan, "then", 0.2)
        plan.on_failure = self._small(plan, "on_failure", 0.5)
        return plan

    def _errand(self, name: str, depth: int) -> Plan:
        random = self._random
        plan = Plan(name, random.choices(TASKS, (60, 36, 4))[0], random.random() * self._longest)
        for nth in range(random.randint(1, 4)):
            sort = random.choices(("step", "ask", "call", "leave", "at once"), (50, 14, 14 * (depth > 0), 12, 10))[0]
            if sort == "at once" and plan.task == "run_errand":
                both = [self._deed(plan, one, f"{nth}{one}", depth) for one in ("ask", "ask", "call")[: 1 + depth]]
                both = [deed | {"name": f"{deed['name']}{place}"} for place, deed in enumerate(both)]
                plan.deeds.append({"do": "at once", "all": both})
            elif sort != "at once":
                plan.deeds.append(self._deed(plan, sort, f"{nth}{sort}", depth))
        return plan

    def _deed(self, plan: Plan, sort: str, name: str, depth: int) -> dict[str, Any]:
        deed: dict[str, Any] = {"do": sort, "name": name}
        if sort == "step":
            deed["on_loop"] = plan.task == "run_errand" and self._random.random() < 0.5
        elif sort == "call":
            callee = self._errand(f"{plan.name}.{name}", depth - 1)
            callee.failures = self._failures(callee)
            plan.callees.append(callee)
            deed |= {"task": callee.task, "args": callee.args}
        elif sort == "leave":
            left = self._errand(f"{plan.name}.{name}", 0)
            left.deeds = [one for one in left.deeds if one["do"] == "step"]
            left.left, left.failures = [], self._failures(left)
            plan.left.append(left)
            deed |= {"task": left.task, "args": left.args}
        return deed

    def _doom(self, plan: Plan) -> None:
        """Let the plan end with a call that never returns, of one that has called another, perhaps."""
        plan.doomed = True
        callee = self._errand(f"{plan.name}.doomed", 0)
        callee.doomed = True
        if self._random.random() < 0.5:
            last = self._errand(f"{callee.name}.last", 0)
            last.doomed = True
            last.deeds.append({"do": "ask", "name": f"{NEVER} last"})
            self._call(callee, last)
        else:
            callee.deeds.append({"do": "ask", "name": NEVER})
        self._call(plan, callee)

    @staticmethod
    def _call(plan: Plan, callee: Plan) -> None:
        plan.callees.append(callee)
        plan.deeds.append({"do": "call", "name": "doomed", "task": callee.task, "args": callee.args})

    def _failures(self, plan: Plan) -> int:
        # A call that failed is made again by the next attempt; so who calls one that fails must not fail itself.
        if any(callee.state is not RunState.SUCCEEDED for callee in plan.callees):
            return 0
        return self._random.choices((0, 1, ATTEMPTS), (75, 15, 10))[0]

    def _small(self, plan: Plan, how: str, chance: float) -> list[Plan]:
        if self._random.random() > chance:
            return []
        return [Plan(f"{plan.name}.{how}", "run_errand", 0, [{"do": "step", "name": "only", "on_loop": True}])]
