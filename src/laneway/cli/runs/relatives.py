"""The runs that belong to a run (caller, called, left behind), and the memos that it has kept."""

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
    """A run that is linked to another; `run` is None if it was deleted. `name` is the name of the call, if any."""

    id: str
    run: Run | None
    name: str = ""

    def record(self) -> dict[str, Any]:
        """Return the JSON of this run."""
        found = {"task": self.run.task, "state": self.run.state.value} if self.run else {"task": None, "state": None}
        return {"id": self.id, **({"name": self.name} if self.name else {}), **found}


class Relatives(NamedTuple):
    """The run that called a run or left it behind, the runs that it called and left behind, and its memos."""

    parent: Relative | None
    called: list[Relative]
    left: list[Relative]
    recall: Recall

    def kept(self, kind: MemoKind) -> list[str]:
        """Return the names of the memos of that kind, in their order."""
        return [memo.name for memo in self.recall.memos if memo.kind is kind]

    def record(self, run: Run) -> dict[str, Any]:
        """Return the JSON of these and of the open questions: names and ids, without the values of memos."""
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
    """Read the runs that belong to a run, and its memos."""
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
    """Return the runs that it left behind when it ended. No index lists them, but their ids derive from its own."""
    if run.state is RunState.FAILED and run.ties is not None:
        return await _known(scheduler, run, "on_failure", range(1, len(run.ties.on_failure) + 1))
    if run.state is not RunState.SUCCEEDED:
        return []
    # The number of runs that were held back is not stored, and one of them may be deleted.
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
