"""The protocol between a worker and its child processes: JSON messages, each after its length in four bytes.

```
worker             child
Execute    ->
              <-   Begun         before anything of the user's is imported
              <-   Drafted       ctx.emit, progress and log, as they come
              <-   Checkpoint    or
              <-   Keep          a memo; both wait for their
Answer     ->
Inbound    ->                    messages that came for the run
              <-   Taken         so many of them were read
Cancel     ->                    ctx.cancelled is true from here on
Terminate  ->                    the SIGTERM that comes with it is meant
              <-   Ended         the last word about this attempt
Leave      ->                    between attempts only
```
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from laneway.core.lifecycle.outcome import Outcome
from laneway.core.records.memos import Memo, Recall
from laneway.core.records.run import Claimed
from laneway.engine.handlers.import_path import ImportPath
from laneway.engine.handlers.replay import Bounds

FRAME_LIMIT = 1 << 30  # a longer message does not come from laneway
LENGTH = 4


class Execute(msgspec.Struct, frozen=True, tag=True):
    """Execute an attempt of this run; `carried` are context texts, `recall` is what the run has kept.

    `transient` names the classes of errors that get another try: classes do not travel between processes, names do.
    """

    run: Claimed
    place: ImportPath
    result_limit: int
    bounds: Bounds
    recall: Recall = Recall()
    carried: dict[str, str] = {}
    transient: frozenset[str] = frozenset()


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Tell the handler to stop."""


class Terminate(msgspec.Struct, frozen=True, tag=True):
    """Unwind the handler, wherever it is."""


class Answer(msgspec.Struct, frozen=True, tag=True):
    """It is saved, and the handler goes on or unwinds; or it is not saved, and `problem` says why."""

    go_on: bool = True
    problem: str | None = None


class Inbound(msgspec.Struct, frozen=True, tag=True):
    """Messages that have come for the run."""

    texts: list[str]


class Leave(msgspec.Struct, frozen=True, tag=True):
    """No more orders will come."""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The child has begun the attempt: if it dies from here on, the attempt has failed."""


class Drafted(msgspec.Struct, frozen=True, tag=True):
    """The handler emitted an event."""

    kind: str
    data: str


class Checkpoint(msgspec.Struct, frozen=True, tag=True):
    """The handler saves a checkpoint."""

    state: str


class Keep(msgspec.Struct, frozen=True, tag=True):
    """The handler saves a memo."""

    memo: Memo


class Taken(msgspec.Struct, frozen=True, tag=True):
    """The handler has read so many messages."""

    read: int


class Passing(msgspec.Struct, frozen=True):
    """The handler raised one of its task's transient errors, which may say how many seconds to wait."""

    retry_after: float | None = None


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The handler's outcome; None if it unwound as it was told to. `passing` if another try may help."""

    kind: str | None
    outcome: msgspec.Raw
    passing: Passing | None = None


ToChild = Execute | Cancel | Terminate | Answer | Inbound | Leave
FromChild = Begun | Drafted | Checkpoint | Keep | Taken | Ended

decode_for_child: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)
decode_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
# Outcomes have no tag of their own, because settling them needs none.
_OUTCOMES: dict[str, Any] = {kind.__name__: kind for kind in get_args(Outcome)}


def ended(outcome: Outcome | None, passing: Passing | None = None) -> Ended:
    """Return the message for the end of an attempt."""
    kind = None if outcome is None else type(outcome).__name__
    return Ended(kind, msgspec.Raw(msgspec.json.encode(outcome)), passing)


def names_of(kinds: Iterable[type[BaseException]]) -> frozenset[str]:
    """Return the names of error classes, which mean the same in both processes."""
    return frozenset(f"{kind.__module__}:{kind.__qualname__}" for kind in kinds)


def outcome_in(message: Ended) -> Outcome | None:
    """Return the outcome in a message."""
    if message.kind is None:
        return None
    outcome: Outcome = msgspec.json.decode(message.outcome, type=_OUTCOMES[message.kind])
    return outcome


def packed(message: ToChild | FromChild) -> bytes:
    """Return a message as bytes to send."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(LENGTH, "big") + body


async def read(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next message's bytes; None if the other side is gone, perhaps in the middle of a message."""
    try:
        size = int.from_bytes(await reader.readexactly(LENGTH), "big")
        return await reader.readexactly(size) if size <= FRAME_LIMIT else None
    except (asyncio.IncompleteReadError, OSError):
        return None


def receive(link: socket.socket) -> bytes | None:
    """Return the next message's bytes, blocking; None if the other side is gone."""
    size = _exactly(link, LENGTH)
    return None if size is None else _exactly(link, int.from_bytes(size, "big"))


def _exactly(link: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = link.recv(min(size - len(parts), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)
