"""The journal: what really happened in the world, written by those who did it.

A store says what it believes; the journal says which handler ran when, in which process. One line is one `write` to a
file opened for appending, so processes never mix their lines and a line is there whole once its writer goes on, kill -9
included. Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from laneway import Context
from tests.system.oracle.tail import Tail

PATH, PROCESS = "SYSTEM_TEST_JOURNAL", "SYSTEM_TEST_PROCESS"  # environment: where to write, and as whom


class What(StrEnum):
    """The kinds of lines."""

    READY = "ready"  # a worker takes work from here on
    TAKEN = "taken"  # a worker saw, at that time, that it may begin a run
    START = "start"  # a handler began
    END = "end"  # a handler ended; `how` says in what
    ACCEPTED = "accepted"  # a submission was acknowledged to its producer
    UNSURE = "unsure"  # a submission got no answer
    DEATH = "death"  # the process is about to be killed
    FREEZE = "freeze"  # the process stands still since SIGSTOP: what it had open may be taken over from here on


class How(StrEnum):
    """What a handler ended in."""

    RETURNED = "returned"
    RAISED = "raised"
    STOPPED = "stopped"  # the engine cancelled or unwound it


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the journal."""

    what: What
    process: str
    at: int  # nanoseconds
    run: str = ""
    fence: int = 0
    attempt: int = 0
    how: How | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a handler: from its start to its end, or to its process's death."""

    run: str
    fence: int
    attempt: int
    process: str
    began: int
    ended: int | None  # None: it goes on
    how: How | None  # None: cut off


class Pen:
    """Writes lines in the name of one process."""

    def __init__(self, path: Path, process: str) -> None:
        self.process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @classmethod
    def of_environment(cls) -> Pen:
        """Return the pen of this process, as the harness that started it says."""
        return cls(Path(os.environ[PATH]), os.environ[PROCESS])

    def write(
        self,
        what: What,
        run: str = "",
        *,
        fence: int = 0,
        attempt: int = 0,
        how: How | None = None,
        at: int | None = None,
    ) -> None:
        """Write one line, of what is now, or was at that time."""
        line = Line(what, self.process, time.monotonic_ns() if at is None else at, run, fence, attempt, how)
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    @contextmanager
    def attempt(self, ctx: Context) -> Iterator[None]:
        """Write the start and the end of a handler around what it does."""
        self.write(What.START, ctx.run_id, fence=ctx.fence, attempt=ctx.attempt)
        how = How.STOPPED  # by a cancellation, which is no Exception
        try:
            yield
            how = How.RETURNED
        except Exception:
            how = How.RAISED
            raise
        finally:
            self.write(What.END, ctx.run_id, fence=ctx.fence, attempt=ctx.attempt, how=how)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Journal:
    """Reads the lines of all processes; reading again costs only what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tail: Tail[Line] = Tail(path, Line)

    def lines(self) -> list[Line]:
        """Return all lines so far, in the order they were written."""
        return self._tail.lines()

    def of(self, what: What, run: str | None = None) -> list[Line]:
        """Return the lines of one kind, of all runs or of one."""
        return [line for line in self.lines() if line.what is what and run in (None, line.run)]

    def attempts(self) -> list[Attempt]:
        """Return what was executed, in order of starting."""
        return attempts(self.lines())


def attempts(lines: Iterable[Line]) -> list[Attempt]:
    """Return the executions the lines tell of, in order of starting."""
    starts: dict[tuple[str, int], Line] = {}
    ends: dict[tuple[str, int], tuple[int, How | None]] = {}
    deaths: dict[str, int] = {}
    for line in sorted(lines, key=lambda line: line.at):
        key = line.run, line.fence
        if line.what is What.START:
            assert key not in starts, f"run {line.run} was started twice under fence {line.fence}"
            starts[key] = line
        elif line.what is What.END:
            ends.setdefault(key, (line.at, line.how))
        elif line.what is What.DEATH:
            deaths[line.process] = line.at
    for key, start in starts.items():
        if key not in ends and start.process in deaths:
            # The killed writes on for an instant after the killer has written of it.
            ends[key] = max(start.at, deaths[start.process]), None
    return [
        Attempt(line.run, line.fence, line.attempt, line.process, line.at, *ends.get(key, (None, None)))
        for key, line in starts.items()
    ]
