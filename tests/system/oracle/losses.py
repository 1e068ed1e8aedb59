"""What must hold of a store that has lost the last moment before it failed, as one does that keeps by the second.

Nobody can give back what is gone. But what is left must agree with itself and come to its end; no lease may be executed
twice at once; and a result must be its run's own, though numbers and fences may have been given out twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from laneway import Run, Scheduler
from laneway.core.records.states import RunState
from tests.support.invariants import all_runs, check_invariants
from tests.system.harness.stage import Stage
from tests.system.oracle.journal import How, Line, What


async def check(stage: Stage, client: Scheduler) -> int:
    """Check a store at rest against the journal; return how many acknowledged runs are gone."""
    store = await client.open()
    await check_invariants(store)
    runs = {run.id: run for run in await all_runs(store)}
    lines = stage.journal.lines()
    wrong = [*_unended(runs.values()), *_executed_twice_at_once(lines), *_foreign_results(runs.values(), lines)]
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])
    return sum(line.run not in runs for line in lines if line.what is What.ACCEPTED)


def _unended(runs: Iterable[Run]) -> Iterator[str]:
    for run in runs:
        if not run.ended:
            yield f"run {run.id} is {run.state.value}: it never ended"


def _executed_twice_at_once(lines: Iterable[Line]) -> Iterator[str]:
    # Two processes may: one of them does not know yet that its lease is lost. One process may not.
    open_since: dict[tuple[str, str], int] = {}
    for line in sorted(lines, key=lambda line: line.at):
        key = line.process, line.run
        if line.what is What.START:
            if key in open_since:
                yield f"run {line.run} was started by {line.process}, which was executing it"
            open_since[key] = line.at
        elif line.what is What.END:
            open_since.pop(key, None)


def _foreign_results(runs: Iterable[Run], lines: Iterable[Line]) -> Iterator[str]:
    returned = defaultdict(set)
    for line in lines:
        if line.what is What.END and line.how is How.RETURNED:
            returned[line.run].add((line.fence, line.process))
    for run in runs:
        if run.state is RunState.SUCCEEDED and (run.result["fence"], run.result["process"]) not in returned[run.id]:
            yield f"run {run.id} has the result {run.result}, and no attempt of it returned that"
