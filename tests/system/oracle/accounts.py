"""The accounts of the flow test: what became of every message, by four books that were kept apart.

The producers' (what was sent, and the receipts), the handlers' (what they were called with, what they read, when), the
store's (runs, events, messages), and its counts. `account_rules` compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from laneway import Run
from laneway.core.records.run import Message, MessageKind
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from tests.system.oracle.journal import Journal, What
from tests.system.oracle.ledger import Books
from tests.system.oracle.notes import Notes

STEERED, MERGED = MessageKind.STEERED, MessageKind.MERGED


class Place(NamedTuple):
    """Where a message is in the store: the run it is part of, and as what."""

    run: str
    kind: str  # "accepted", "merged", "steered"


@dataclass(frozen=True)
class Accounts:
    """All books. `taken` are the messages of each run that took any, `counts` those of all lanes together."""

    books: Books
    taken: Mapping[str, Sequence[Message]]
    counts: Mapping[str, int]
    notes: Notes

    @classmethod
    async def read_from(cls, store: Store, journal: Journal, notes: Notes) -> Accounts:
        """Read all that the store has."""
        books = await Books.read_from(store, journal)
        taken = {run.id: await _messages(store, run.id) for run in books.runs.values() if run.messages}
        counts: Counter[str] = Counter()
        for lane in await store.lanes():
            counts.update(lane.counts)
        return cls(books, taken, counts, notes)

    @property
    def runs(self) -> Mapping[str, Run]:
        """The store's runs."""
        return self.books.runs

    def steered(self, run: str) -> list[Message]:
        """Return the messages that came for a run while it was active."""
        return [message for message in self.taken.get(run, ()) if message.kind is STEERED]

    def merged(self, run: str) -> list[Message]:
        """Return the messages that were appended to a run before it was started."""
        return [message for message in self.taken.get(run, ()) if message.kind is MERGED]

    @cached_property
    def moved(self) -> set[str]:
        """The ids of steered messages that were left unread and became a run, or part of one."""
        steered = {message.id for run in self.taken for message in self.steered(run)}
        appended = {message.id for run in self.taken for message in self.merged(run)}
        return steered & (self.runs.keys() | appended)

    @cached_property
    def places(self) -> dict[int, list[Place]]:
        """Where each message is, and was, in the order of the runs."""
        found: dict[int, list[Place]] = {}
        for run in self.runs.values():
            for number in run.args["numbers"]:
                found.setdefault(number, []).append(Place(run.id, "accepted"))
            for message in self.taken.get(run.id, ()):
                for number in numbers_of(message):
                    found.setdefault(number, []).append(Place(run.id, message.kind.value))
        return found

    @cached_property
    def finals(self) -> dict[int, list[Place]]:
        """Where each message came to rest: without the inboxes that it left again."""
        gone: dict[Place, set[int]] = {}
        for run in self.taken:
            for message in self.steered(run):
                if message.id in self.moved:
                    gone.setdefault(Place(run, "steered"), set()).update(numbers_of(message))
        return {
            number: [place for place in places if number not in gone.get(place, ())]
            for number, places in self.places.items()
        }

    def last_read(self, run: Run) -> list[int]:
        """Return what the attempt that ended the run has read."""
        return self.notes.read.get((run.id, run.fence), [])

    def ever_read(self, run: Run) -> set[int]:
        """Return what any attempt of the run has read."""
        return {number for fence in range(run.fence + 1) for number in self.notes.read.get((run.id, fence), ())}

    def killed(self) -> set[str]:
        """Return the names of the processes that were killed."""
        return {line.process for line in self.books.journal.of(What.DEATH)}

    def fates(self) -> Counter[str]:
        """Return how many messages became what."""
        return Counter(self._fate(number) for number in self.notes.sent)

    def _fate(self, number: int) -> str:
        places, answer = self.finals.get(number), self.notes.answers.get(number)
        if not places:
            return "never stored" if answer is None else f"{answer.outcome} {answer.reason}"
        run, kind = self.runs[places[-1].run], places[-1].kind
        if kind == "steered" and run.state is not RunState.SUCCEEDED and number not in self.ever_read(run):
            return "dropped unread"
        came = "left unread, then " if len(self.places[number]) > len(places) else ""
        became = {"accepted": "a run", "merged": "merged", "steered": "steered and read"}[kind]
        return f"{came}{became}: {run.state.value} {run.reason or ''}".rstrip()


async def _messages(store: Store, run: str) -> list[Message]:
    found: list[Message] = []
    while page := await store.messages(run, after=len(found)):
        found += page
    return found


def numbers_of(message: Message) -> list[int]:
    """Return the numbers in a message's arguments."""
    numbers: list[int] = msgspec.json.decode(message.args)["numbers"]
    return numbers
