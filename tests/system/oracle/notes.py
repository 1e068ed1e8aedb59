"""The notes of the flow test: which messages were sent, what became of them, and who was called with them or read them.

Beside the journal, which says when a handler ran, these say what of: every message has a number of its own. A line is
one `write`, as in the journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import msgspec

from laneway import Context, Receipt
from tests.system.oracle.journal import PATH, PROCESS


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the receipt of a message said."""

    number: int
    outcome: str
    run: str
    reason: str | None = None


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """Messages that are about to be submitted."""

    process: str
    numbers: list[int]


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The receipts of messages."""

    answers: list[Answer]


class Called(msgspec.Struct, frozen=True, tag="called"):
    """The messages that a handler was called with."""

    run: str
    fence: int
    numbers: list[int]


class Read(msgspec.Struct, frozen=True, tag="read"):
    """The messages that a handler read from its inbox, by the time it ended."""

    run: str
    fence: int
    numbers: list[int]


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """What the stop of a session told: the runs it cancelled or requested to, and those it dropped."""

    session: str
    everything: bool
    cancelled: Sequence[str]
    dropped: Sequence[str]


Note = Sent | Answered | Called | Read | Stopped


class Notepad:
    """Writes the notes of one process."""

    def __init__(self, path: Path, process: str) -> None:
        self.process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @classmethod
    def of_environment(cls) -> Notepad:
        """Return the notepad of this process: its notes lie beside the journal."""
        return cls(beside(Path(os.environ[PATH])), os.environ[PROCESS])

    def sent(self, numbers: Sequence[int]) -> None:
        """Note that these messages are about to be submitted."""
        self.write(Sent(self.process, list(numbers)))

    def answered(self, numbers: Sequence[int], receipts: Sequence[Receipt]) -> None:
        """Note what became of messages."""
        pairs = zip(numbers, receipts, strict=True)
        self.write(Answered([Answer(number, one.outcome.value, one.run_id, one.reason) for number, one in pairs]))

    @contextmanager
    def attempt(self, ctx: Context, numbers: list[int]) -> Iterator[list[int]]:
        """Note what a handler was called with, and in the end what it put into the list of those it read."""
        read: list[int] = []
        self.write(Called(ctx.run_id, ctx.fence, numbers))
        try:
            yield read
        finally:
            self.write(Read(ctx.run_id, ctx.fence, read))

    def write(self, note: Note) -> None:
        """Write one note, now."""
        os.write(self._file, msgspec.json.encode(note) + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def beside(journal: Path) -> Path:
    """Return where the notes are."""
    return journal.with_name("notes")


class Notes:
    """All that was noted, in order of writing."""

    def __init__(self, notes: Sequence[Note]) -> None:
        self._notes = notes

    @classmethod
    def read_from(cls, path: Path) -> Notes:
        """Read them from their file."""
        decode = msgspec.json.Decoder(Note).decode
        whole = path.read_bytes() if path.exists() else b""
        return cls([decode(line) for line in whole[: whole.rfind(b"\n") + 1].splitlines()])

    @cached_property
    def sent(self) -> dict[int, str]:
        """Who sent each message last."""
        return {number: note.process for note in self._notes if isinstance(note, Sent) for number in note.numbers}

    @cached_property
    def sent_again(self) -> set[int]:
        """The messages that were sent more than once: their producer was killed before it had an answer."""
        seen: set[int] = set()
        again: set[int] = set()
        for note in self._notes:
            if isinstance(note, Sent):
                again.update(seen.intersection(note.numbers))
                seen.update(note.numbers)
        return again

    @cached_property
    def answers(self) -> dict[int, Answer]:
        """What the last receipt of each message said."""
        return {one.number: one for note in self._notes if isinstance(note, Answered) for one in note.answers}

    @cached_property
    def called(self) -> dict[tuple[str, int], list[int]]:
        """What each handler was called with, by run and fence, in order of starting."""
        return {(note.run, note.fence): note.numbers for note in self._notes if isinstance(note, Called)}

    @cached_property
    def read(self) -> dict[tuple[str, int], list[int]]:
        """What each handler read, by run and fence."""
        return {(note.run, note.fence): note.numbers for note in self._notes if isinstance(note, Read)}

    @cached_property
    def stops(self) -> list[Stopped]:
        """What stops of sessions told."""
        return [note for note in self._notes if isinstance(note, Stopped)]

    def unsure(self) -> list[int]:
        """Return the messages that were sent and got no answer."""
        return sorted(self.sent.keys() - self.answers.keys())
