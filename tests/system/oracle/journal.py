"""The journal of a system test: what really happened, written by the processes that did it.

A store says what it believes; the journal says which handler ran when, in which process, and what it did and read. An
entry is one line of JSON and one `write` to a file opened for appending, so processes never mix their entries, and an
entry is there whole once its writer goes on, kill -9 included. Times are CLOCK_MONOTONIC, which all processes of a
machine share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from laneway import Context, Receipt

JOURNAL, PROCESS = "SYSTEM_TEST_JOURNAL", "SYSTEM_TEST_PROCESS"  # environment: where to write, and as which process


class Ending(StrEnum):
    """How a handler ended."""

    RETURNED = "returned"
    RAISED = "raised"
    STOPPED = "stopped"  # the engine cancelled or unwound it


class Entry(msgspec.Struct, frozen=True, tag_field="what", omit_defaults=True):
    """What a process did, and when, in nanoseconds."""

    process: str
    at: int


# Processes


class Ready(Entry, frozen=True, tag="ready"):
    """A worker takes work from here on."""


class Killed(Entry, frozen=True, tag="killed"):
    """The process is about to be killed."""


class Frozen(Entry, frozen=True, tag="frozen"):
    """The process stands still since SIGSTOP: its attempts may be taken over from here on."""


class Accepted(Entry, frozen=True, tag="accepted"):
    """A submission was acknowledged to its producer."""

    run: str


class Unanswered(Entry, frozen=True, tag="unanswered"):
    """A submission got no answer."""


# Attempts


class LeaseChecked(Entry, frozen=True, tag="lease checked"):
    """A worker saw, at that time, that it may begin a run."""

    run: str
    fence: int


class Started(Entry, frozen=True, tag="started"):
    """A handler began."""

    run: str
    fence: int
    attempt: int = 1


class Ended(Entry, frozen=True, tag="ended"):
    """A handler ended."""

    run: str
    fence: int
    how: Ending = Ending.RETURNED


# Messages of sessions: every message has a number


class MessageReceipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the receipt of a message said."""

    number: int
    outcome: str
    run: str
    reason: str | None = None


class Sent(Entry, frozen=True, tag="sent"):
    """Messages are about to be submitted."""

    numbers: list[int]


class Received(Entry, frozen=True, tag="received"):
    """The receipts of messages came."""

    receipts: list[MessageReceipt]


class Called(Entry, frozen=True, tag="called"):
    """A handler was called with these messages."""

    run: str
    fence: int
    numbers: list[int]


class InboxRead(Entry, frozen=True, tag="inbox read"):
    """A handler had read these messages from its inbox when it ended."""

    run: str
    fence: int
    numbers: list[int]


class SessionStopped(Entry, frozen=True, tag="session stopped"):
    """The answer to the stop of a session: the runs that it cancelled or asked to stop, and those that it dropped."""

    session: str
    everything: bool
    cancelled: Sequence[str]
    dropped: Sequence[str]


# Durable calls


class StepExecuted(Entry, frozen=True, tag="step executed"):
    """The function of a step was executed. `mark` is unique, `token` is what the step offers against repetitions."""

    run: str
    fence: int
    step: str
    mark: str
    token: str


class ValueReturned(Entry, frozen=True, tag="value returned"):
    """`ctx.step`, `ctx.ask` or `ctx.call` returned this value to a handler."""

    run: str
    fence: int
    name: str
    value: Any


class QuestionAnswered(Entry, frozen=True, tag="question answered"):
    """Somebody answered a question, and was not refused."""

    run: str
    name: str
    value: Any


AnyEntry = (
    (Ready | Killed | Frozen | Accepted | Unanswered)
    | (LeaseChecked | Started | Ended)
    | (Sent | Received | Called | InboxRead | SessionStopped)
    | (StepExecuted | ValueReturned | QuestionAnswered)
)
E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a handler: from its start to its end, or to its process's death."""

    run: str
    fence: int
    process: str
    began: int
    ended: int | None  # None: it goes on
    how: Ending | None  # None: cut off


class JournalWriter:
    """Writes entries in the name of one process."""

    def __init__(self, path: Path, process: str) -> None:
        self.process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @classmethod
    def from_environment(cls) -> JournalWriter:
        """Return the writer of this process, as the stage that started it says."""
        return cls(Path(os.environ[JOURNAL]), os.environ[PROCESS])

    def write(self, kind: type[Entry], *, at: int | None = None, **facts: Any) -> None:
        """Write one entry, of now or of that time."""
        entry = kind(self.process, time.monotonic_ns() if at is None else at, **facts)
        os.write(self._file, msgspec.json.encode(entry) + b"\n")

    @contextmanager
    def attempt(self, ctx: Context) -> Iterator[None]:
        """Write the start and the end of a handler around what it does."""
        self.write(Started, run=ctx.run_id, fence=ctx.fence, attempt=ctx.attempt)
        how = Ending.STOPPED  # by a cancellation, which is no Exception
        try:
            yield
            how = Ending.RETURNED
        except Exception:
            how = Ending.RAISED
            raise
        finally:
            self.write(Ended, run=ctx.run_id, fence=ctx.fence, how=how)

    @contextmanager
    def message_attempt(self, ctx: Context, numbers: list[int]) -> Iterator[list[int]]:
        """Write start, end and messages of a handler, which appends what it reads to the list that it gets."""
        read: list[int] = []
        with self.attempt(ctx):
            self.write(Called, run=ctx.run_id, fence=ctx.fence, numbers=numbers)
            try:
                yield read
            finally:
                self.write(InboxRead, run=ctx.run_id, fence=ctx.fence, numbers=read)

    def received(self, numbers: Sequence[int], receipts: Sequence[Receipt]) -> None:
        """Write the receipts of these messages."""
        pairs = zip(numbers, receipts, strict=True)
        found = [MessageReceipt(number, one.outcome.value, one.run_id, one.reason) for number, one in pairs]
        self.write(Received, receipts=found)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Journal:
    """Reads the entries of all processes; reading again costs only what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[Entry] = []
        self._read = 0  # bytes
        self._decode = msgspec.json.Decoder[AnyEntry](AnyEntry).decode

    def entries(self) -> list[Entry]:
        """Return all entries that are there whole, in the order they were written."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            self._entries += map(self._decode, whole.splitlines())
        return self._entries

    def of(self, kind: type[E], run: str | None = None) -> list[E]:
        """Return the entries of one kind, of all runs or of one."""
        found = [entry for entry in self.entries() if isinstance(entry, kind)]
        return found if run is None else [entry for entry in found if getattr(entry, "run", None) == run]

    def attempts(self) -> list[Attempt]:
        """Return the executions of handlers, in order of starting."""
        return attempts(self.entries())


def attempts(entries: Iterable[Entry]) -> list[Attempt]:
    """Return the executions of handlers that these entries report, in order of starting."""
    starts: dict[tuple[str, int], Started] = {}
    ends: dict[tuple[str, int], tuple[int, Ending | None]] = {}
    deaths: dict[str, int] = {}
    for entry in sorted(entries, key=lambda entry: entry.at):
        match entry:
            case Started():
                key = entry.run, entry.fence
                assert key not in starts, f"run {entry.run} was started twice under fence {entry.fence}"
                starts[key] = entry
            case Ended():
                ends.setdefault((entry.run, entry.fence), (entry.at, entry.how))
            case Killed():
                deaths[entry.process] = entry.at
    for key, start in starts.items():
        if key not in ends and start.process in deaths:
            # A killed process goes on for an instant after its death was written.
            ends[key] = max(start.at, deaths[start.process]), None
    return [
        Attempt(one.run, one.fence, one.process, one.at, *ends.get(key, (None, None))) for key, one in starts.items()
    ]
