"""A run's relatives, and what it has kept: read from the store for whoever looks at the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.core.common.instants import instant
from laneway.core.records.memos import MemoKind, derived_id
from laneway.core.records.states import RunState
from laneway.errors import UnknownRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.core.records.memos import Recall
    from laneway.core.records.run import Run
    from laneway.scheduler import Scheduler


class Relative(NamedTuple):
    """A run that is tied to another; `run` is None if it was pruned. `name` is that of the call, if it was called."""

    id: str
    run: Run | None
    name: str = ""

    def record(self) -> dict[str, Any]:
        """Return it as it is in JSON."""
        found = {"task": self.run.task, "state": self.run.state.value} if self.run else {"task": None, "state": None}
        return {"id": self.id, **({"name": self.name} if self.name else {}), **found}


class Relatives(NamedTuple):
    """Who left a run behind or called it, what it called and left behind itself, and what it has kept."""

    parent: Relative | None
    called: list[Relative]
    left: list[Relative]
    recall: Recall

    def kept(self, kind: MemoKind) -> list[str]:
        """Return the names of what was kept of that kind, in the order it was."""
        return [memo.name for memo in self.recall.memos if memo.kind is kind]

    def record(self, run: Run) -> dict[str, Any]:
        """Return all of it, and what the run asks, as it is in JSON: names and ids, without the values kept."""
        asked = run.wait.questions if run.wait is not None else ()
        return {
            "questions": [
                {
                    "name": question.name,
                    "question": question.question,
                    "until": None if question.until is None else instant(question.until),
                }
                for question in asked
            ],
            "parent": self.parent and self.parent.record(),
            "called": [one.record() for one in self.called],
            "left": [one.record() for one in self.left],
            "steps": self.kept(MemoKind.STEP),
            "answers": self.kept(MemoKind.ANSWER),
        }


async def read(scheduler: Scheduler, run: Run) -> Relatives:
    """Return a run's relatives and what it has kept."""
    recall = await (await scheduler.open()).recall(run.id)
    ties = run.ties
    parent = None
    if ties is not None and ties.parent is not None:
        parent = await _relative(scheduler, ties.parent, ties.call or "")
    calls = {memo.run_id: memo.name for memo in recall.memos if memo.run_id is not None}
    if recall.wait is not None:
        calls |= {call.run_id: call.name for call in recall.wait.calls} | dict.fromkeys(recall.wait.others, "")
    called = [await _relative(scheduler, run_id, name) for run_id, name in calls.items()]
    return Relatives(parent, called, await _left(scheduler, run), recall)


async def _left(scheduler: Scheduler, run: Run) -> list[Relative]:
    """Return what the run left behind when it ended. Nobody lists these, but their ids follow from its own."""
    if run.state is RunState.FAILED and run.ties is not None:
        return await _known(scheduler, run, "on_failure", range(1, len(run.ties.on_failure) + 1))
    if run.state is not RunState.SUCCEEDED:
        return []
    # How many were held back is written nowhere, and one in between may be pruned.
    held = await _known(scheduler, run, "submit", range(1, scheduler.settings.max_children + 1))
    return held + await _known(scheduler, run, "then", range(1, len(run.ties.then if run.ties else ()) + 1))


async def _known(scheduler: Scheduler, run: Run, how: str, places: Iterable[int]) -> list[Relative]:
    found = [await _relative(scheduler, derived_id(run.id, how, nth)) for nth in places]
    return [one for one in found if one.run is not None]


async def _relative(scheduler: Scheduler, run_id: str, name: str = "") -> Relative:
    try:
        return Relative(run_id, await scheduler.get(run_id), name)
    except UnknownRun:
        return Relative(run_id, None, name)
