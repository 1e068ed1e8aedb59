"""The record of a system test whose store has come to rest: three views of the same work.

What was asked for (`Asked`, and the producers' entries in the journal), what processes did (the journal), and what the
store says of it (runs, events, memos, messages, jobs, counts). The rules beside this module compare them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from laneway import Event, Lane, Run
from laneway.core.records.events import LAPSED, STARTED
from laneway.core.records.memos import Memo, MemoKind
from laneway.core.records.run import Message, MessageKind
from laneway.ports.store import Store
from tests.support.invariants import all_runs, has_no_place
from tests.system.load.app import LANES
from tests.system.load.mixed_load import shape_of
from tests.system.load.session_shape import SessionShape
from tests.system.load.step_plans import Plan
from tests.system.oracle.fire_rules import JobFires, read_jobs
from tests.system.oracle.grouped import grouped
from tests.system.oracle.journal import (
    Attempt,
    Called,
    Frozen,
    InboxRead,
    Journal,
    LeaseChecked,
    MessageReceipt,
    QuestionAnswered,
    Received,
    Sent,
    StepExecuted,
    ValueReturned,
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a test asks of the store: the limits of its lanes and sessions, and the plans that its runs follow."""

    lanes: Sequence[Lane] = LANES
    shape_of: Callable[[str], SessionShape] = shape_of
    plans: Sequence[Plan] = ()


class Place(NamedTuple):
    """Where a message is in the store: the run that it is part of, and as what."""

    run: str
    kind: str  # "accepted", "merged", "steered"


@dataclass(frozen=True)
class Record:
    """All that is known when a store has come to rest. `messages` are those that each run took in after its first."""

    journal: Journal
    runs: Mapping[str, Run]
    logs: Mapping[str, Sequence[Event]]
    messages: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    memos: Mapping[str, Sequence[Memo]] = field(default_factory=dict)
    jobs: Sequence[JobFires] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  # of all lanes together
    asked: Asked = field(default_factory=Asked)

    @classmethod
    async def read_from(cls, store: Store, journal: Journal, asked: Asked | None = None) -> Record:
        """Read all that the store has."""
        runs = {run.id: run for run in await all_runs(store)}
        counts: Counter[str] = Counter()
        for lane in await store.lanes():
            counts.update(lane.counts)
        record = cls(
            journal,
            runs,
            logs={run: await store.events(run, limit=100_000) for run in runs},
            messages={run.id: await _messages(store, run.id) for run in runs.values() if run.messages},
            jobs=await read_jobs(store),
            counts=counts,
            asked=asked or Asked(),
        )
        return replace(record, memos={run: (await store.recall(run)).memos for run in runs if record.is_durable})

    # Runs

    def kinds(self, run: str) -> list[str]:
        """Return the kinds of a run's events."""
        return [event.kind for event in self.logs[run]]

    def session_of(self, run: Run) -> str | None:
        """Return the session in which the run takes a place: a called one, or a job's beside others, takes none."""
        return None if has_no_place(run) else run.session

    def sessions(self) -> dict[str, list[Run]]:
        """Return the runs that take a place in a session, by session."""
        return grouped((run for run in self.runs.values() if self.session_of(run)), lambda run: run.session or "")

    # Attempts

    @cached_property
    def attempts(self) -> list[Attempt]:
        """The executions of handlers, in order of starting, as long as their process had a right to them.

        An execution of a run that the store does not have is left to the rule that no run is lost.
        """
        known = [one for one in self.journal.attempts() if one.run in self.runs]
        return [one for one in map(self._rightful, known) if one is not None]

    def _rightful(self, attempt: Attempt) -> Attempt | None:
        # A frozen worker loses its leases. When it goes on, so do its handlers, and those begin that it was about to
        # start: it had looked at its clock, and was frozen before it called the handler. Nobody can prevent that. They
        # must come to nothing: see the rule about results. It must not begin anything else that it had claimed, or
        # that was claimed ahead for it while it was frozen: that is not excused.
        if attempt.fence not in self.lapsed_fences(attempt.run):
            return attempt
        frozen = [entry.at for entry in self._freezes if entry.process == attempt.process]
        checked = self._checked.get((attempt.run, attempt.fence), attempt.began)
        if any(checked < at <= attempt.began for at in frozen):
            return None
        went_on = [at for at in frozen if at > attempt.began and (attempt.ended is None or at < attempt.ended)]
        return replace(attempt, ended=went_on[0], how=None) if went_on else attempt

    @cached_property
    def _freezes(self) -> list[Frozen]:
        return self.journal.of(Frozen)

    @cached_property
    def _checked(self) -> dict[tuple[str, int], int]:
        """When the worker of a lease last looked whether it may begin."""
        return {(entry.run, entry.fence): entry.at for entry in self.journal.of(LeaseChecked)}

    def lapsed_fences(self, run: str) -> set[int]:
        """Return the fences under which the run was taken over from a worker."""
        kinds = self.kinds(run)
        return {kinds[:index].count(STARTED) for index, kind in enumerate(kinds) if kind == LAPSED}

    # Messages, by their numbers

    @cached_property
    def sent(self) -> dict[int, str]:
        """The process that sent each message last."""
        return {number: entry.process for entry in self.journal.of(Sent) for number in entry.numbers}

    @cached_property
    def sent_again(self) -> set[int]:
        """The messages that were sent more than once: their producer was killed before it had an answer."""
        times = Counter(number for entry in self.journal.of(Sent) for number in entry.numbers)
        return {number for number, count in times.items() if count > 1}

    @cached_property
    def receipts(self) -> dict[int, MessageReceipt]:
        """The last receipt of each message."""
        return {one.number: one for entry in self.journal.of(Received) for one in entry.receipts}

    @cached_property
    def called(self) -> dict[tuple[str, int], list[int]]:
        """The messages that each handler was called with, by run and fence, in order of starting."""
        return {(entry.run, entry.fence): entry.numbers for entry in self.journal.of(Called)}

    @cached_property
    def read(self) -> dict[tuple[str, int], list[int]]:
        """The messages that each handler read from its inbox, by run and fence."""
        return {(entry.run, entry.fence): entry.numbers for entry in self.journal.of(InboxRead)}

    def unanswered(self) -> list[int]:
        """Return the messages that were sent and got no receipt."""
        return sorted(self.sent.keys() - self.receipts.keys())

    def message_runs(self) -> list[Run]:
        """Return the runs of messages."""
        return [run for run in self.runs.values() if "numbers" in run.args]

    def steered(self, run: str) -> list[Message]:
        """Return the messages that came for a run while it was active."""
        return [message for message in self.messages.get(run, ()) if message.kind is MessageKind.STEERED]

    def merged(self, run: str) -> list[Message]:
        """Return the messages that were appended to a run before it was started."""
        return [message for message in self.messages.get(run, ()) if message.kind is MessageKind.MERGED]

    @cached_property
    def moved(self) -> set[str]:
        """The ids of steered messages that were left unread and became a run, or part of one."""
        steered = {message.id for run in self.messages for message in self.steered(run)}
        appended = {message.id for run in self.messages for message in self.merged(run)}
        return steered & (self.runs.keys() | appended)

    @cached_property
    def places(self) -> dict[int, list[Place]]:
        """Where each message is, and was, in the order of the runs."""
        found: dict[int, list[Place]] = {}
        for run in self.message_runs():
            for number in run.args["numbers"]:
                found.setdefault(number, []).append(Place(run.id, "accepted"))
            for message in self.messages.get(run.id, ()):
                for number in numbers_of(message):
                    found.setdefault(number, []).append(Place(run.id, message.kind.value))
        return found

    @cached_property
    def final_places(self) -> dict[int, list[Place]]:
        """Where each message came to rest: without the inboxes that it left again."""
        gone: dict[Place, set[int]] = {}
        for run in self.messages:
            for message in self.steered(run):
                if message.id in self.moved:
                    gone.setdefault(Place(run, "steered"), set()).update(numbers_of(message))
        return {
            number: [place for place in places if number not in gone.get(place, ())]
            for number, places in self.places.items()
        }

    def last_read(self, run: Run) -> list[int]:
        """Return what the attempt that ended the run has read."""
        return self.read.get((run.id, run.fence), [])

    def ever_read(self, run: Run) -> set[int]:
        """Return what any attempt of the run has read."""
        return {number for fence in range(run.fence + 1) for number in self.read.get((run.id, fence), ())}

    # Durable calls

    @property
    def is_durable(self) -> bool:
        """Tell whether handlers made durable calls: then memos are read."""
        return bool(self.asked.plans or self.steps or self.returned)

    @cached_property
    def steps(self) -> dict[tuple[str, str], list[StepExecuted]]:
        """The executions of each step, by run and step."""
        return grouped(self.journal.of(StepExecuted), lambda entry: (entry.run, entry.step))

    @cached_property
    def returned(self) -> dict[tuple[str, str], list[ValueReturned]]:
        """The values that attempts received, by run and name."""
        return grouped(self.journal.of(ValueReturned), lambda entry: (entry.run, entry.name))

    @cached_property
    def answers(self) -> dict[tuple[str, str], list[Any]]:
        """The answers that were given and not refused, by run and question."""
        given = grouped(self.journal.of(QuestionAnswered), lambda entry: (entry.run, entry.name))
        return {key: [entry.value for entry in entries] for key, entries in given.items()}

    def kept(self, kind: MemoKind) -> dict[tuple[str, str], Memo]:
        """Return the memos of a kind, by run and name."""
        return {(run, memo.name): memo for run, memos in self.memos.items() for memo in memos if memo.kind is kind}


async def _messages(store: Store, run: str) -> list[Message]:
    found: list[Message] = []
    while page := await store.messages(run, after=len(found)):
        found += page
    return found


def numbers_of(message: Message) -> list[int]:
    """Return the numbers in a message's arguments."""
    numbers: list[int] = msgspec.json.decode(message.args)["numbers"]
    return numbers
