"""What must hold of a store that lost its last moments when its server failed.

Nobody can give back what is gone. But the rest must agree with itself and come to its end; one process may not execute
a run twice at once; and a result must be its run's own, though numbers and fences may have been given out twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from laneway.core.records.states import RunState
from tests.system.oracle.journal import Ended, Ending, Started
from tests.system.oracle.record import Record


def unended(record: Record) -> Iterator[str]:
    """Yield runs that never ended."""
    for run in record.runs.values():
        if not run.ended:
            yield f"run {run.id} is {run.state.value}: it never ended"


def executed_twice_at_once(record: Record) -> Iterator[str]:
    """Yield runs that a process began while it was executing them.

    Two processes may: one of them does not know yet that its lease is lost.
    """
    executing: set[tuple[str, str]] = set()
    for entry in sorted(record.journal.entries(), key=lambda entry: entry.at):
        match entry:
            case Started():
                if (entry.process, entry.run) in executing:
                    yield f"run {entry.run} was started by {entry.process}, which was executing it"
                executing.add((entry.process, entry.run))
            case Ended():
                executing.discard((entry.process, entry.run))


def foreign_results(record: Record) -> Iterator[str]:
    """Yield runs with a result that no attempt of them returned."""
    returned = defaultdict(set)
    for entry in record.journal.of(Ended):
        if entry.how is Ending.RETURNED:
            returned[entry.run].add((entry.fence, entry.process))
    for run in record.runs.values():
        if run.state is RunState.SUCCEEDED and (run.result["fence"], run.result["process"]) not in returned[run.id]:
            yield f"run {run.id} has the result {run.result}, and no attempt of it returned that"


RULES: Sequence[Callable[[Record], Iterator[str]]] = (unended, executed_twice_at_once, foreign_results)
