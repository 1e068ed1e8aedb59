"""Events: immutable, numbered facts about a run.

A *draft* is an event that the store has not numbered and stamped yet: its kind, and its data as JSON text. Each run has
one counter from 1, without gaps across attempts and processes. `done` is its last event and the only terminal kind.

A batch of drafts is stored as one *chunk*, a JSON array of `[kind, attempt, at, data]`. In a chunk the `result` event
has no data: the value is stored once, in the run record, and readers put it in.

*Deltas*, the pieces of streamed text, are transient. They are joined before they are stored (`condensed`), and trimmed
some time after the run has ended (`lifecycle.trim`): a mark covers their numbers, under the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from laneway.core.common.instants import instant

DATA_LIMIT = 8 * 1024  # of one event's data, in bytes of JSON
HEAD_LIMIT = 4_000  # kept of data that was cut: quoting it again can double it
TEXT_LIMIT = 2_000  # characters kept of a long text when its event is cut
DELTA_LIMIT = 4 * 1024  # of one piece of streamed text, in bytes of JSON

STARTED = "started"
PROGRESS = "progress"
LOG = "log"
DELTA = "delta"  # a piece of streamed text; transient
TOOL_START = "tool_start"
TOOL_END = "tool_end"
TRIMMED = "trimmed"  # the mark that replaces a stretch of deltas
RETRYING = "retrying"
RELEASED = "released"
SNOOZED = "snoozed"
LAPSED = "lapsed"
CANCEL_REQUESTED = "cancel_requested"
CANCEL_DELIVERED = "cancel_delivered"  # the handler was told to stop
STOPPED = "stopped"  # the handler has stopped
PAUSE_REQUESTED = "pause_requested"
PAUSED = "paused"
RESUMED = "resumed"
MERGED = "merged"  # a message was appended before the run was started
STEERED = "steered"  # a message was put into the inbox of the active run
DROPPED = "dropped"  # the run will never start, for a reason
OVERDUE = "overdue"  # the handler took longer than its timeout, and was told to stop
STUCK = "stuck"  # the handler was told to stop and has not
QUESTION = "question"  # the run waits for an answer
ANSWERED = "answered"
UNANSWERED = "unanswered"  # there was no answer in time
SUPERSEDED = "superseded"  # a message came to the run's session instead of an answer
CALLED = "called"  # the run waits for another one
RETURNED = "returned"  # the called run has ended
STEPS_CHANGED = "steps_changed"  # steps come in another order than in an earlier attempt
RESULT = "result"
ERROR = "error"
DONE = "done"
# Kinds of the engine. A handler's `ctx.emit` may use any other.
RESERVED = frozenset(
    {
        *(STARTED, RETRYING, RELEASED, SNOOZED, LAPSED, RESULT, ERROR, DONE),
        *(CANCEL_REQUESTED, CANCEL_DELIVERED, STOPPED, PAUSE_REQUESTED, PAUSED, RESUMED, OVERDUE, STUCK),
        *(MERGED, STEERED, DROPPED, QUESTION, ANSWERED, UNANSWERED, SUPERSEDED, CALLED, RETURNED, STEPS_CHANGED),
        *(DELTA, TOOL_START, TOOL_END, TRIMMED),
    }
)
# Kinds whose data has a known form, which is kept when they are cut.
SHAPED = RESERVED | {PROGRESS, LOG}
# A question must be understood, and a result must be whole. A delta is split before it is too long.
NEVER_CUT = frozenset({RESULT, QUESTION, DELTA})

Draft = tuple[str, str]  # kind, data as JSON text
Stamped = tuple[str, int, int, str]  # kind, attempt, at, data as JSON text


class Event(msgspec.Struct, frozen=True):
    """One fact about a run: its number, kind and data, in which attempt, and when."""

    run_id: str
    seq: int
    kind: str
    data: Any
    attempt: int
    at: datetime


def whole(kind: str, data: object) -> Draft:
    """Return the draft of an event that is never cut: its data is bounded already."""
    return kind, msgspec.json.encode(data).decode()


def draft(kind: str, data: object) -> Draft:
    """Return the draft of an event; data over 8 KiB is cut and marked.

    >>> draft("log", {"text": "hello"})
    ('log', '{"text":"hello"}')
    >>> msgspec.json.decode(draft("log", {"text": "x" * 10_000})[1])["cut"]
    10011
    """
    return drafted(kind, msgspec.json.encode(data).decode())


def drafted(kind: str, text: str) -> Draft:
    """Return the draft of an event whose data is JSON text; data over 8 KiB is cut and marked."""
    # The limit is in bytes, and a character takes at most four.
    if len(text) > DATA_LIMIT // 4 and kind not in NEVER_CUT and len(data := text.encode()) > DATA_LIMIT:
        return kind, _cut(kind, data)
    return kind, text


def _cut(kind: str, data: bytes) -> str:
    """Return JSON data that fits: with its long texts cut if that is enough, else the head of its own text."""
    if kind in SHAPED:
        whole = msgspec.json.decode(data)
        if isinstance(whole, dict):
            shorter = msgspec.json.encode({**_shortened(whole), "cut": len(data)})
            if len(shorter) <= DATA_LIMIT:
                return shorter.decode()
    head = data[:HEAD_LIMIT].decode(errors="ignore")
    return msgspec.json.encode({"cut": len(data), "head": head}).decode()


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value[:TEXT_LIMIT]
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    return [_shortened(item) for item in value] if isinstance(value, list) else value


_BEFORE, _AFTER = '{"text":', "}"  # the JSON around the text of a delta


def deltas(text: str) -> list[Draft]:
    """Return the drafts of a piece of streamed text: several if it is long, none if it is empty.

    >>> deltas("hello")
    [('delta', '{"text":"hello"}')]
    >>> len(deltas("x" * 10_000)), deltas("")
    (4, [])
    """
    if not text:
        return []
    quoted = msgspec.json.encode(text)
    if len(quoted) <= DELTA_LIMIT or len(text) == 1:
        return [(DELTA, _BEFORE + quoted.decode() + _AFTER)]
    middle = len(text) // 2
    return deltas(text[:middle]) + deltas(text[middle:])


def condensed(drafts: Sequence[Draft]) -> tuple[Draft, ...]:
    """Return drafts as they are stored: neighbouring deltas joined; of neighbouring progress, the newest.

    >>> condensed([*deltas("a"), *deltas("b"), ("log", "{}"), *deltas("c")])
    (('delta', '{"text":"ab"}'), ('log', '{}'), ('delta', '{"text":"c"}'))
    >>> condensed([("progress", "1"), ("progress", "2"), ("log", "{}"), ("progress", "3")])
    (('progress', '2'), ('log', '{}'), ('progress', '3'))
    """
    if len(drafts) < 2:
        return tuple(drafts)
    kept: list[Draft] = []
    pieces = _Pieces()
    for one in drafts:
        if one[0] == DELTA:
            kept += pieces.add(one[1])
            continue
        kept += pieces.joined()
        if one[0] == PROGRESS and kept and kept[-1][0] == PROGRESS:
            kept[-1] = one
        else:
            kept.append(one)
    return (*kept, *pieces.joined())


def streams(drafts: Iterable[Draft]) -> bool:
    """Tell whether there are deltas among the drafts: then the run's log can be trimmed later."""
    return any(kind == DELTA for kind, _ in drafts)


class _Pieces:
    """Neighbouring deltas that become one. Their texts are joined in JSON form."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._size = 0

    def add(self, data: str) -> list[Draft]:
        """Add one more; return the earlier ones as a draft if the new one does not fit in."""
        text = data[len(_BEFORE) + 1 : -len(_AFTER) - 1]
        size = len(text.encode())
        before = self.joined() if self._size + size > DATA_LIMIT - len(_BEFORE) - len(_AFTER) - 2 else []
        self._texts.append(text)
        self._size += size
        return before

    def joined(self) -> list[Draft]:
        """Return the collected deltas as one draft, or nothing, and start anew."""
        if not self._texts:
            return []
        text = "".join(self._texts)
        self._texts, self._size = [], 0
        return [(DELTA, f'{_BEFORE}"{text}"{_AFTER}')]


def chunk(stamped: Iterable[Stamped]) -> str:
    """Return stamped events as the JSON array that a store keeps."""
    return "[" + ",".join([f"[{_quoted(kind)},{attempt},{at},{data}]" for kind, attempt, at, data in stamped]) + "]"


@lru_cache(maxsize=1024)
def _quoted(kind: str) -> str:
    return msgspec.json.encode(kind).decode()


def opened(text: str) -> list[list[Any]]:
    """Return the `[kind, attempt, at, data]` rows of a chunk."""
    rows: list[list[Any]] = msgspec.json.decode(text)
    return rows


def counted(first: int, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, Sequence[Any]]]:
    """Number the rows of a chunk, beginning with `first`; a mark gets the number of the last delta that it covers."""
    seq = first - 1
    for row in rows:
        seq = row[3]["last"] if row[0] == TRIMMED else seq + 1
        yield seq, row


def numbered(run_id: str, rows: Iterable[tuple[int, Sequence[Any]]], result: Any) -> list[Event]:
    """Return numbered rows as events, with the result put into its event."""
    events = []
    for seq, (kind, attempt, at, data) in rows:
        filled = {"value": result} if kind == RESULT else data
        events.append(Event(run_id, seq, kind, filled, attempt, instant(at)))
    return events
