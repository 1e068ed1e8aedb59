"""What must hold of errands once everything is at rest: the store's books beside the diary of effects and the plans."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from laneway import Run
from laneway.core.records.memos import Memo, MemoKind
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from tests.support.invariants import is_called
from tests.system.load.app import LANES
from tests.system.load.mixed_load import max_concurrent
from tests.system.load.step_plans import Fate, Plan
from tests.system.oracle import ledger
from tests.system.oracle.diary import Diary, Did, Got
from tests.system.oracle.journal import Journal
from tests.system.oracle.ledger import Books, grouped


@dataclass(frozen=True)
class Errands:
    """All books. `answers` are those that were given and not refused, by run and question."""

    books: Books
    memos: Mapping[str, Sequence[Memo]]
    diary: Diary
    plans: Sequence[Plan]
    answers: Mapping[tuple[str, str], Sequence[Any]]

    @classmethod
    async def read_from(
        cls,
        store: Store,
        journal: Journal,
        plans: Sequence[Plan],
        answers: Mapping[tuple[str, str], Sequence[Any]],
    ) -> Errands:
        """Read all that the store has."""
        books = await Books.read_from(store, journal)
        memos = {run: (await store.recall(run)).memos for run in books.runs}
        return cls(books, memos, Diary.beside(journal.path), plans, answers)

    @property
    def runs(self) -> Mapping[str, Run]:
        """The store's runs."""
        return self.books.runs

    @cached_property
    def in_sessions(self) -> Books:
        """The books of those runs that take a place in their sessions: not of called ones."""
        runs = {run.id: run for run in self.runs.values() if not is_called(run)}
        return Books(runs, self.books.logs, self.books.journal)

    @cached_property
    def did(self) -> dict[tuple[str, str], list[Did]]:
        """The executions of each step, by run and step."""
        return grouped(self.diary.did(), lambda did: (did.run, did.step))

    @cached_property
    def got(self) -> dict[tuple[str, str], list[Got]]:
        """What attempts got to hear, by run and name."""
        return grouped(self.diary.got(), lambda got: (got.run, got.name))

    def kept(self, kind: MemoKind) -> dict[tuple[str, str], Memo]:
        """Return the memos of a kind, by run and name."""
        return {(run, memo.name): memo for run, memos in self.memos.items() for memo in memos if memo.kind is kind}

    def value(self, memo: Memo) -> Any:
        """Return what a handler gets of a memo."""
        return {"ended": memo.ending.reason} if memo.ending is not None else json.loads(memo.value or "null")


def wrong(errands: Errands) -> list[str]:
    """Return all that is wrong."""
    return [line for rule in RULES for line in rule(errands)]


# Steps


def _repeated_though_kept(errands: Errands) -> Iterator[str]:
    kept = errands.kept(MemoKind.STEP)
    for (run, step), executions in errands.did.items():
        if (run, step) not in kept:
            if errands.runs[run].state is RunState.SUCCEEDED:
                yield f"run {run} succeeded, and step {step} was executed and not kept"
            continue
        value = errands.value(kept[run, step])
        if [one.fence for one in executions if one.mark == value["mark"]] != [value["fence"]]:
            yield f"run {run}, step {step}: what is kept is of no execution: {value}, {executions}"
        if later := [one for one in executions if one.fence > value["fence"]]:
            yield f"run {run}, step {step} was kept under fence {value['fence']} and executed again: {later}"


def _executed_twice_in_one_attempt(errands: Errands) -> Iterator[str]:
    for (run, step), executions in errands.did.items():
        fences = [one.fence for one in executions]
        if len(set(fences)) < len(fences):
            yield f"run {run}, step {step} was executed twice under one fence: {fences}"
        if len({one.token for one in executions}) > 1:
            yield f"run {run}, step {step} had several tokens"
    tokens = Counter(token for executions in errands.did.values() for token in {one.token for one in executions})
    for token, times in tokens.items():
        if times > 1:
            yield f"{times} steps had the token {token}"


def _heard_otherwise(errands: Errands) -> Iterator[str]:
    """Whatever an attempt was told has been stored before: every later one is told the same, and the store has it."""
    kept = {kind: errands.kept(kind) for kind in MemoKind}
    for (run, name), heard in errands.got.items():
        values = {msgspec.json.encode(got.value, order="sorted") for got in heard}
        if len(values) > 1:
            yield f"run {run} was told of {name}: {sorted(values)}"
        for memos in kept.values():
            if (run, name) in memos and errands.value(memos[run, name]) != heard[-1].value:
                yield f"run {run} was told of {name} {heard[-1].value}, and kept is {memos[run, name]}"


# Questions


def _answered_wrongly(errands: Errands) -> Iterator[str]:
    kept = errands.kept(MemoKind.ANSWER)
    for (run, name), given in errands.answers.items():
        if len(given) != 1 or (run, name) not in kept or errands.value(kept[run, name]) != given[0]:
            yield f"run {run}: {name} was answered with {given}, and kept is {kept.get((run, name))}"
    for run, name in kept.keys() - errands.answers.keys():
        yield f"run {run}: nobody answered {name}, and kept is {kept[run, name]}"
    for run in errands.runs:
        log = errands.books.logs[run]
        asked, answered = (Counter(event.data["name"] for event in log if event.kind == kind) for kind in TOLD)
        for name in asked | answered:
            if asked[name] != 1 or answered[name] != ((run, name) in kept):
                yield f"run {run} asked {name} {asked[name]} times, and was answered {answered[name]} times"


TOLD = ("question", "answered")

# Calls


def _returned_wrongly(errands: Errands) -> Iterator[str]:
    for (run, name), memo in errands.kept(MemoKind.CALL).items():
        child = errands.runs.get(memo.run_id or "")
        if child is None or child.parent != run:
            yield f"run {run}: what {name} returned is of {memo.run_id}, which it has not called"
        elif errands.value(memo) != (child.result if memo.ending is None else {"ended": child.reason}):
            yield f"run {run}: {name} returned {errands.value(memo)}, and its run ended with {child.result}"
    for child in filter(is_called, errands.runs.values()):
        parent = errands.runs[child.parent or ""]
        told = [one.data["run_id"] for one in errands.books.logs[parent.id] if one.kind == "returned"].count(child.id)
        # Who was ended with the one who called it has nobody to tell.
        if told != (child.reason != "parent_ended"):
            yield f"run {parent.id} was told {told} times that {child.id} has ended"
        if child.session != parent.session or child.user != parent.user:
            yield f"run {child.id} is of {child.user} in {child.session}, and its parent is not"


# Ends


def _not_as_planned(errands: Errands) -> Iterator[str]:
    """Every run that the plans bring about is there once, as what it must be; and no other is there."""
    names = {run.id: run.args["name"] for run in errands.runs.values()}
    planned = Counter(fate for plan in errands.plans for fate in plan.fates())
    found = Counter(
        Fate(run.args["name"], run.state, names.get(run.parent or ""), is_called(run)) for run in errands.runs.values()
    )
    for fate in planned - found:
        yield f"missing: {fate}"
    for one in found - planned:
        yield f"not planned: {one}"
    for run in filter(is_called, errands.runs.values()):
        if run.state is RunState.CANCELLED and run.reason != "parent_ended":
            yield f"run {run.id} was called, and is cancelled for {run.reason}"


# Order and limits


def _out_of_order(errands: Errands) -> Iterator[str]:
    for rule in ledger.IN_ORDER:
        yield from rule(errands.in_sessions)
    yield from ledger.over_a_limit(errands.in_sessions, (), max_concurrent)
    yield from ledger.over_a_limit(errands.books, LANES, lambda _: len(errands.runs))


def _badly_kept(errands: Errands) -> Iterator[str]:
    for rule in ledger.ALWAYS:
        yield from rule(errands.books)


RULES: Sequence[Callable[[Errands], Iterator[str]]] = (
    _badly_kept,
    _not_as_planned,
    _repeated_though_kept,
    _executed_twice_in_one_attempt,
    _heard_otherwise,
    _answered_wrongly,
    _returned_wrongly,
    _out_of_order,
)
