"""What must hold of every run, whatever was asked for; each rule yields what is wrong.

- nothing is lost: every acknowledged run is in the store, and every run has ended;
- one end: events are numbered without gaps, one is `done`, the last; every start but the last is given back once;
- one holder: no lease is executed twice, and no two attempts of a run overlap while both processes live;
- the result is that of the last lease, so no late worker's result was ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from laneway.core.records.events import CALLED, DONE, LAPSED, QUESTION, RELEASED, RETRYING, STARTED
from laneway.core.records.states import RunState
from tests.system.load.app import MARKS, plod, stroll
from tests.system.oracle.grouped import grouped
from tests.system.oracle.journal import Ending
from tests.system.oracle.record import Record

GIVEN_BACK = (LAPSED, RELEASED, RETRYING)
WAITING = (QUESTION, CALLED)


# Nothing lost


def lost(record: Record) -> Iterator[str]:
    """Yield runs that a process knows and the store does not, and runs that never ended."""
    for entry in record.journal.entries():
        run = getattr(entry, "run", None)
        if run is not None and run not in record.runs:
            yield f"run {run} is not there: {entry}"
    for each in record.runs.values():
        if not each.ended:
            yield f"run {each.id} is {each.state.value}: it never ended"


# One end


def badly_logged(record: Record) -> Iterator[str]:
    """Yield logs with gaps, without one `done` at their end, or with other starts than the run's fences."""
    for run in record.runs.values():
        kinds = record.kinds(run.id)
        if [event.seq for event in record.logs[run.id]] != list(range(1, len(kinds) + 1)):
            yield f"run {run.id}: its events have a gap"
        if kinds.count(DONE) != 1 or kinds[-1] != DONE:
            yield f"run {run.id}: {kinds.count(DONE)} done events, and the last event is {kinds[-1:]}"
        if kinds.count(STARTED) != run.fence:
            yield f"run {run.id}: {kinds.count(STARTED)} starts under {run.fence} fences"


def badly_given_back(record: Record) -> Iterator[str]:
    """Yield runs whose starts and returns do not take turns: then two workers gave one run back."""
    for run in record.runs:
        # An attempt that timed out before its worker died returns once, and its log has both events.
        kinds = [kind for last, kind in pairwise(["", *record.kinds(run)]) if (last, kind) != (LAPSED, RETRYING)]
        if not take_turns(kinds):
            yield f"run {run} was given back wrongly: {record.kinds(run)}"


def take_turns(kinds: Iterable[str]) -> bool:
    """Tell whether starts and returns take turns, a start first.

    A run that waits logs all that it waits for, and nothing more when it goes on and waits for the rest of it.
    """
    held, has_waited, last = False, False, ""
    for kind in kinds:
        if kind == STARTED:
            if held and not has_waited:
                return False
            held = True
        elif kind in GIVEN_BACK or kind in WAITING:
            if not held and not (kind in WAITING and last in WAITING):
                return False
            held, has_waited = False, has_waited or kind in WAITING
        last = kind
    return True


def badly_marked(record: Record) -> Iterator[str]:
    """Yield runs whose handlers' own events are missing, doubled or out of order."""
    for run in record.runs.values():
        marks = [event.data for event in record.logs[run.id] if event.kind == "mark"]
        for fence, of_fence in grouped(marks, lambda data: int(data["fence"])).items():
            numbers = [data["mark"] for data in of_fence]
            if numbers != list(range(len(numbers))):
                yield f"run {run.id}, fence {fence}: its own events are {numbers}"
        of_last = [data for data in marks if data["fence"] == run.fence]
        if run.state is RunState.SUCCEEDED and run.task in (stroll.name, plod.name) and len(of_last) != MARKS:
            yield f"run {run.id} succeeded without all its own events"


# One holder


def held_twice(record: Record) -> Iterator[str]:
    """Yield attempts that went on when the next one of their run began."""
    for run, attempts in grouped(record.attempts, lambda attempt: attempt.run).items():
        for first, second in pairwise(sorted(attempts, key=lambda attempt: attempt.fence)):
            if first.ended is None or first.ended > second.began:
                yield f"run {run}: {first} went on when {second} began"


def wrong_result(record: Record) -> Iterator[str]:
    """Yield runs whose result is not the one that their last lease returned."""
    returned = {(one.run, one.fence): one.process for one in record.attempts if one.how is Ending.RETURNED}
    for run in record.runs.values():
        expected = {"fence": run.fence, "process": returned.get((run.id, run.fence))}
        if run.state is RunState.SUCCEEDED and run.result != expected:
            yield f"run {run.id} has the result {run.result}, and not {expected}"


RULES: Sequence[Callable[[Record], Iterator[str]]] = (
    lost,
    badly_logged,
    badly_given_back,
    badly_marked,
    held_twice,
    wrong_result,
)
