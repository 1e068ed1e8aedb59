"""Plans for the handlers of `step_app`, drawn by a seed, and what must become of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from laneway import Submission
from laneway.core.records.states import RunState
from tests.system.load.mixed_load import USERS, policy_of
from tests.system.load.step_app import ATTEMPTS

SESSIONS = 6
NEVER = "never"  # begins the names of questions that nobody answers: the runs that wait for them are cancelled
TASKS = ("follow_on_loop", "follow_in_thread", "follow_in_process")


class Fate(NamedTuple):
    """What must have become of the run of this name."""

    name: str
    state: RunState
    parent: str | None
    called: bool


@dataclass
class Plan:
    """What one run does. `doomed`: it, or one that it calls, asks a question that nobody answers."""

    name: str
    task: str
    takes: float
    actions: list[dict[str, Any]] = field(default_factory=list)
    callees: list[Plan] = field(default_factory=list)
    left: list[Plan] = field(default_factory=list)
    then: list[Plan] = field(default_factory=list)
    on_failure: list[Plan] = field(default_factory=list)
    failures: int = 0
    doomed: bool = False

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of its run."""
        return {"name": self.name, "actions": self.actions, "takes": self.takes, "failures": self.failures}

    @property
    def state(self) -> RunState:
        """What its run ends in."""
        if self.doomed:
            return RunState.CANCELLED
        return RunState.FAILED if self.failures >= ATTEMPTS else RunState.SUCCEEDED

    def fates(self, parent: str | None = None, *, called: bool = False) -> Iterator[Fate]:
        """Yield what must become of it, of all runs that it calls, and of its follow-ups."""
        yield Fate(self.name, self.state, parent, called)
        for plan in self.callees:
            yield from plan.fates(self.name, called=True)
        after = {RunState.SUCCEEDED: [*self.left, *self.then], RunState.FAILED: self.on_failure}
        for plan in after.get(self.state, ()):
            yield from plan.fates(self.name)

    def submission(self, random: Random) -> Submission:
        """Return its submission: four of ten to a session."""
        session = f"plans-{random.randrange(SESSIONS)}" if random.random() < 0.4 else None
        return Submission(
            self.task,
            self.args,
            user=random.choice(USERS),
            session=session,
            session_policy=None if session is None else policy_of(session, while_waiting="queue"),
            then=[(plan.task, plan.args) for plan in self.then] or None,
            on_failure=[(plan.task, plan.args) for plan in self.on_failure] or None,
        )


class Drawing:
    """Draws plans; An action takes at most `longest` seconds."""

    def __init__(self, random: Random, *, longest: float = 0.03) -> None:
        self._random, self._longest = random, longest
        self._drawn = 0

    def plan(self) -> Plan:
        """Return one more plan."""
        self._drawn += 1
        plan = self._random_plan(f"{self._drawn}", depth=2)
        if self._random.random() < 0.1:
            self._doom(plan)
            return plan
        plan.failures = self._failures(plan)
        plan.then = self._small(plan, "then", 0.2)
        plan.on_failure = self._small(plan, "on_failure", 0.5)
        return plan

    def _random_plan(self, name: str, depth: int) -> Plan:
        random = self._random
        plan = Plan(name, random.choices(TASKS, (60, 36, 4))[0], random.random() * self._longest)
        for nth in range(random.randint(1, 4)):
            sort = random.choices(("step", "ask", "call", "submit", "at once"), (50, 14, 14 * (depth > 0), 12, 10))[0]
            if sort == "at once" and plan.task == "follow_on_loop":
                both = [self._action(plan, one, f"{nth}{one}", depth) for one in ("ask", "ask", "call")[: 1 + depth]]
                both = [action | {"name": f"{action['name']}{place}"} for place, action in enumerate(both)]
                plan.actions.append({"do": "at once", "all": both})
            elif sort != "at once":
                plan.actions.append(self._action(plan, sort, f"{nth}{sort}", depth))
        return plan

    def _action(self, plan: Plan, sort: str, name: str, depth: int) -> dict[str, Any]:
        action: dict[str, Any] = {"do": sort, "name": name}
        if sort == "step":
            action["on_loop"] = plan.task == "follow_on_loop" and self._random.random() < 0.5
        elif sort == "call":
            callee = self._random_plan(f"{plan.name}.{name}", depth - 1)
            callee.failures = self._failures(callee)
            plan.callees.append(callee)
            action |= {"task": callee.task, "args": callee.args}
        elif sort == "submit":
            left = self._random_plan(f"{plan.name}.{name}", 0)
            left.actions = [one for one in left.actions if one["do"] == "step"]
            left.left, left.failures = [], self._failures(left)
            plan.left.append(left)
            action |= {"task": left.task, "args": left.args}
        return action

    def _doom(self, plan: Plan) -> None:
        """Let the plan end with a call that never returns, perhaps of a run that calls another."""
        plan.doomed = True
        callee = self._random_plan(f"{plan.name}.doomed", 0)
        callee.doomed = True
        if self._random.random() < 0.5:
            last = self._random_plan(f"{callee.name}.last", 0)
            last.doomed = True
            last.actions.append({"do": "ask", "name": f"{NEVER} last"})
            self._call(callee, last)
        else:
            callee.actions.append({"do": "ask", "name": NEVER})
        self._call(plan, callee)

    @staticmethod
    def _call(plan: Plan, callee: Plan) -> None:
        plan.callees.append(callee)
        plan.actions.append({"do": "call", "name": "doomed", "task": callee.task, "args": callee.args})

    def _failures(self, plan: Plan) -> int:
        # The next attempt makes a failed call again; so a plan that calls a failing one must not fail itself.
        if any(callee.state is not RunState.SUCCEEDED for callee in plan.callees):
            return 0
        return self._random.choices((0, 1, ATTEMPTS), (75, 15, 10))[0]

    def _small(self, plan: Plan, how: str, chance: float) -> list[Plan]:
        if self._random.random() > chance:
            return []
        return [Plan(f"{plan.name}.{how}", "follow_on_loop", 0, [{"do": "step", "name": "only", "on_loop": True}])]
