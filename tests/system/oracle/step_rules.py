"""What must hold of durable calls: steps, questions, calls and follow-ups.

- a step that is kept is never executed again, and every execution of a step has the same token;
- what an attempt received is stored, and every later attempt receives the same;
- a question is answered once, with the answer that was not refused;
- a call returns the result of the run that it made, and its parent is told once;
- every run that the plans bring about is there once, in the state that they say, and there is no other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from laneway.core.records.memos import Memo, MemoKind
from laneway.core.records.states import RunState
from tests.support.invariants import is_called
from tests.system.load.step_plans import Fate
from tests.system.oracle.record import Record

QUESTION_EVENTS = ("question", "answered")

# Steps


def repeated_though_kept(record: Record) -> Iterator[str]:
    """Yield steps that were executed again although they were kept, or succeeded and were not kept."""
    kept = record.kept(MemoKind.STEP)
    for (run, step), executions in record.steps.items():
        if (run, step) not in kept:
            if run in record.runs and record.runs[run].state is RunState.SUCCEEDED:
                yield f"run {run} succeeded, and step {step} was executed and not kept"
            continue
        value = _value(kept[run, step])
        if [one.fence for one in executions if one.mark == value["mark"]] != [value["fence"]]:
            yield f"run {run}, step {step}: what is kept is of no execution: {value}, {executions}"
        if later := [one for one in executions if one.fence > value["fence"]]:
            yield f"run {run}, step {step} was kept under fence {value['fence']} and executed again: {later}"


def executed_twice_in_one_attempt(record: Record) -> Iterator[str]:
    """Yield steps that one attempt executed twice, and tokens that are not those of one step."""
    for (run, step), executions in record.steps.items():
        fences = [one.fence for one in executions]
        if len(set(fences)) < len(fences):
            yield f"run {run}, step {step} was executed twice under one fence: {fences}"
        if len({one.token for one in executions}) > 1:
            yield f"run {run}, step {step} had several tokens"
    tokens = Counter(token for executions in record.steps.values() for token in {one.token for one in executions})
    for token, times in tokens.items():
        if times > 1:
            yield f"{times} steps had the token {token}"


def returned_differently(record: Record) -> Iterator[str]:
    """Yield durable calls that returned different values to attempts of a run, or another one than the store has."""
    kept = {kind: record.kept(kind) for kind in MemoKind}
    for (run, name), returns in record.returned.items():
        values = {msgspec.json.encode(one.value, order="sorted") for one in returns}
        if len(values) > 1:
            yield f"run {run} received for {name}: {sorted(values)}"
        for memos in kept.values():
            if (run, name) in memos and _value(memos[run, name]) != returns[-1].value:
                yield f"run {run} received for {name} {returns[-1].value}, and kept is {memos[run, name]}"


# Questions


def answered_wrongly(record: Record) -> Iterator[str]:
    """Yield questions whose answer is not the one that was given, and logs that do not have it once."""
    kept = record.kept(MemoKind.ANSWER)
    for (run, name), given in record.answers.items():
        if len(given) != 1 or (run, name) not in kept or _value(kept[run, name]) != given[0]:
            yield f"run {run}: {name} was answered with {given}, and kept is {kept.get((run, name))}"
    for run, name in kept.keys() - record.answers.keys():
        yield f"run {run}: nobody answered {name}, and kept is {kept[run, name]}"
    for run in record.memos:
        log = record.logs[run]
        asked, answered = (
            Counter(event.data["name"] for event in log if event.kind == kind) for kind in QUESTION_EVENTS
        )
        for name in asked | answered:
            if asked[name] != 1 or answered[name] != ((run, name) in kept):
                yield f"run {run} asked {name} {asked[name]} times, and was answered {answered[name]} times"


# Calls


def call_returned_wrongly(record: Record) -> Iterator[str]:
    """Yield calls that returned something else than their run's result, and runs whose end their parent missed."""
    for (run, name), memo in record.kept(MemoKind.CALL).items():
        child = record.runs.get(memo.run_id or "")
        if child is None or child.parent != run:
            yield f"run {run}: what {name} returned is of {memo.run_id}, which it has not called"
        elif _value(memo) != (child.result if memo.ending is None else {"ended": child.reason}):
            yield f"run {run}: {name} returned {_value(memo)}, and its run ended with {child.result}"
    for child in filter(is_called, record.runs.values()):
        parent = record.runs[child.parent or ""]
        told = [one.data["run_id"] for one in record.logs[parent.id] if one.kind == "returned"].count(child.id)
        # A child that was ended together with its parent has nobody to tell.
        if told != (child.reason != "parent_ended"):
            yield f"run {parent.id} was told {told} times that {child.id} has ended"
        if child.session != parent.session or child.user != parent.user:
            yield f"run {child.id} is of {child.user} in {child.session}, and its parent is not"


# Ends


def not_as_planned(record: Record) -> Iterator[str]:
    """Yield runs that the plans bring about and that are not there once, in their state; and all other runs."""
    if not record.asked.plans:
        return
    names = {run.id: run.args["name"] for run in record.runs.values()}
    planned = Counter(fate for plan in record.asked.plans for fate in plan.fates())
    found = Counter(
        Fate(run.args["name"], run.state, names.get(run.parent or ""), is_called(run)) for run in record.runs.values()
    )
    for fate in planned - found:
        yield f"missing: {fate}"
    for one in found - planned:
        yield f"not planned: {one}"
    for run in filter(is_called, record.runs.values()):
        if run.state is RunState.CANCELLED and run.reason != "parent_ended":
            yield f"run {run.id} was called, and is cancelled for {run.reason}"


def _value(memo: Memo) -> Any:
    """Return what a handler gets of a memo."""
    return {"ended": memo.ending.reason} if memo.ending is not None else json.loads(memo.value or "null")


RULES: Sequence[Callable[[Record], Iterator[str]]] = (
    repeated_though_kept,
    executed_twice_in_one_attempt,
    returned_differently,
    answered_wrongly,
    call_returned_wrongly,
    not_as_planned,
)
