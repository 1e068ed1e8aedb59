"""The inbox: messages that came for a run while it was active."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from laneway.core.records import codec


class Inbox:
    """`ctx.inbox`: the arguments of each message, in order, each once.

    `for message in ctx.inbox` and `ctx.inbox.read()` take the messages so far; `len(ctx.inbox)` is how many wait. Each
    attempt reads from the start. Messages that the last attempt leaves unread become a run of their own. Any thread may
    read.
    """

    __slots__ = ("_notice", "_read", "_texts")

    def __init__(self, notice: Callable[[int], None] | None = None) -> None:
        self._texts: list[str] = []
        self._read = 0
        self._notice = notice  # is called with the number of messages read

    def __len__(self) -> int:
        """Return how many messages wait to be read."""
        return len(self._texts) - self._read

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Take the messages one by one, also those that arrive meanwhile, until none waits."""
        while len(self):
            self._read += 1
            self._report_read()
            yield codec.from_json(self._texts[self._read - 1])

    def read(self) -> list[dict[str, Any]]:
        """Take all messages that wait."""
        first, self._read = self._read, len(self._texts)
        if self._read > first:
            self._report_read()
        return [codec.from_json(text) for text in self._texts[first : self._read]]

    # The engine's side

    @property
    def received(self) -> int:
        """How many messages have come."""
        return len(self._texts)

    @property
    def taken(self) -> int:
        """How many messages were read."""
        return self._read

    def put(self, texts: Sequence[str]) -> None:
        """Put messages into it, JSON text each."""
        self._texts += texts

    def note(self, read: int) -> None:
        """Record that so many were read in another process."""
        self._read = read

    def since(self, received: int) -> list[str]:
        """Return the messages after the first so many, read or not."""
        return self._texts[received:]

    def _report_read(self) -> None:
        if self._notice is not None:
            self._notice(self._read)
