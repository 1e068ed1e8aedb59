"""Events: immutable, numbered facts about a run.

A *draft* is an event before the store has numbered and stamped it: its kind and its data as JSON text. Each run has one
counter from 1, without gaps across attempts and processes; `done` is its last event and the only terminal kind.

What a batch of drafts becomes is stored as one *chunk*, a JSON array of `[kind, attempt, at, data]`. The `result` event
holds no data of its own in a chunk: the value stands once, in the run record, and readers put it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from laneway.core.instants import instant

DATA_LIMIT = 8 * 1024  # of one event's data, in bytes of JSON
HEAD_LIMIT = 4_000  # what is kept of data that was cut: quoting it again can double it

STARTED = "started"
PROGRESS = "progress"
LOG = "log"
RETRYING = "retrying"
RELEASED = "released"
SNOOZED = "snoozed"
LAPSED = "lapsed"
CANCEL_REQUESTED = "cancel_requested"
CANCEL_DELIVERED = "cancel_delivered"  # the handler was told
STOPPED = "stopped"  # and has ended
PAUSE_REQUESTED = "pause_requested"
PAUSED = "paused"
RESUMED = "resumed"
MERGED = "merged"  # a message was appended before the run was started
STEERED = "steered"  # a message was put into the inbox of the active run
DROPPED = "dropped"  # it will never start, for a reason
OVERDUE = "overdue"  # the handler has taken longer than its timeout, and was told to stop
STUCK = "stuck"  # it was told to stop and has not
RESULT = "result"
ERROR = "error"
DONE = "done"
# The engine's own kinds; a handler's `ctx.emit` may use any other.
RESERVED = frozenset(
    {
        *(STARTED, RETRYING, RELEASED, SNOOZED, LAPSED, RESULT, ERROR, DONE),
        *(CANCEL_REQUESTED, CANCEL_DELIVERED, STOPPED, PAUSE_REQUESTED, PAUSED, RESUMED, OVERDUE, STUCK),
        *(MERGED, STEERED, DROPPED),
    }
)

Draft = tuple[str, str]  # kind, data as JSON text
Stamped = tuple[str, int, int, str]  # kind, attempt, at, data as JSON text


class Event(msgspec.Struct, frozen=True):
    """One fact about a run: its number, what happened, in which attempt, when."""

    run_id: str
    seq: int
    kind: str
    data: Any
    attempt: int
    at: datetime


def draft(kind: str, data: object) -> Draft:
    """Return the draft of an event; data over 8 KiB is cut and marked.

    >>> draft("log", {"text": "hello"})
    ('log', '{"text":"hello"}')
    >>> msgspec.json.decode(draft("log", {"text": "x" * 10_000})[1])["cut"]
    10011
    """
    return drafted(kind, msgspec.json.encode(data).decode())


def drafted(kind: str, text: str) -> Draft:
    """Return the draft of an event whose data is JSON text already; over 8 KiB it is cut and marked."""
    # Text of many-byte characters may be longer in bytes; the limit is what matters to the store.
    if len(text) > DATA_LIMIT // 4 and len(data := text.encode()) > DATA_LIMIT:
        head = data[:HEAD_LIMIT].decode(errors="ignore")
        text = msgspec.json.encode({"cut": len(data), "head": head}).decode()
    return kind, text


def chunk(stamped: Iterable[Stamped]) -> str:
    """Return stamped events as the JSON array a store keeps."""
    return "[" + ",".join([f"[{_quoted(kind)},{attempt},{at},{data}]" for kind, attempt, at, data in stamped]) + "]"


@lru_cache(maxsize=1024)
def _quoted(kind: str) -> str:
    return msgspec.json.encode(kind).decode()


def opened(text: str) -> list[list[Any]]:
    """Return the `[kind, attempt, at, data]` rows of a chunk."""
    rows: list[list[Any]] = msgspec.json.decode(text)
    return rows


def numbered(run_id: str, first: int, rows: Iterable[Sequence[Any]], result: Any) -> list[Event]:
    """Return the rows of a chunk as events numbered from `first`, with the result put into its event."""
    events = []
    for seq, (kind, attempt, at, data) in enumerate(rows, first):
        filled = {"value": result} if kind == RESULT else data
        events.append(Event(run_id, seq, kind, filled, attempt, instant(at)))
    return events
