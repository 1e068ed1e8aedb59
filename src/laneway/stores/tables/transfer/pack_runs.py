"""Read runs as pieces, each with its rows of all tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from laneway.core.records.events import Stamped
from laneway.core.records.memos import Memo
from laneway.core.records.policy import SessionIntent
from laneway.core.records.run import Failure, Message, MessageKind
from laneway.core.records.states import RunState
from laneway.core.transfer.pieces import KeyIn, RunIn, Taken
from laneway.stores.tables.rows import waits
from laneway.stores.tables.rows.run_row import decode_ties
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import RUN_COLUMNS, sql_names

_SQL = sql_names("pack")
T = TypeVar("T")
_arrival = msgspec.json.Decoder(SessionIntent).decode
_failure = msgspec.json.Decoder(Failure).decode
_memo = msgspec.json.Decoder(Memo).decode
_rows = msgspec.json.Decoder(list[tuple[str, int, int, msgspec.Raw]]).decode

Texts = dict[int, list[Any]]


def runs(db: Database, key: list[Any], limit: int) -> tuple[list[RunIn], list[Any] | None]:
    """Return runs after a number, and the number of the last one if more may exist."""
    rows = db.execute(_SQL["runs"], (*(key or (0,)), limit)).fetchall()
    if not rows:
        return [], None
    span = rows[0][0], rows[-1][0]
    belongings = {
        "log": _grouped(db, "events", span, stamped, flat=True),
        "memos": _grouped(db, "memos", span, _memo),
        "keys": _grouped(db, "run_keys", span, _key),
    }
    messages: Texts = defaultdict(list)
    for number, *row in db.execute(_SQL["messages"], span):
        messages[number].append(row)
    pieces = [_run(row, belongings, messages[row[0]]) for row in rows]
    return pieces, [span[1]] if len(rows) >= limit else None


def _grouped(
    db: Database, name: str, span: tuple[int, int], opened: Callable[..., Any], *, flat: bool = False
) -> Texts:
    found: Texts = defaultdict(list)
    for number, *row in db.execute(_SQL[name], span):
        if flat:
            found[number] += opened(*row)
        else:
            found[number].append(opened(*row))
    return found


def _run(row: tuple[Any, ...], belongings: dict[str, Texts], messages: list[Any]) -> RunIn:
    facts = dict(zip(_COLUMNS, row, strict=True))  # the newer due time replaces that of the table `run`
    last, streamed = facts.pop("last_chunk"), facts.pop("transient")
    del facts["events"], facts["rank"]
    facts["state"] = RunState(facts["state"])
    facts["call"] = facts["call"] or ""
    for name, opened in _TEXTS.items():
        facts[name] = _opened(facts[name], opened)
    if facts["state"] is not RunState.WAITING:
        facts["request"] = None
    log = belongings["log"][facts["number"]] + ([] if last is None else stamped(last))
    return RunIn(
        **facts,
        log=tuple(log),
        streamed=streamed is not None,
        memos=tuple(belongings["memos"][facts["number"]]),
        keys=tuple(belongings["keys"][facts["number"]]),
        taken=tuple(_taken(*message) for message in messages),
        read=sum(bool(message[-1]) for message in messages),
    )


_COLUMNS = (
    *RUN_COLUMNS,
    *("due_at", "state", "attempt", "fence", "crashes", "started_at", "ended_at", "reason", "error", "result"),
    *("request", "wait", "call", "checkpoint", "prepared", "events", "last_chunk", "transient"),
)
_TEXTS: dict[str, Callable[[str], Any]] = {
    "error": _failure,
    "arrival": _arrival,
    "ties": decode_ties,
    "wait": waits.opened,
}


def _opened(text: str | None, opened: Callable[[str], T]) -> T | None:
    return None if text is None else opened(text)


def stamped(text: str) -> list[Stamped]:
    """Return the events of a chunk, with their data as JSON text."""
    return [(kind, attempt, at, bytes(data).decode()) for kind, attempt, at, data in _rows(text)]


def _key(task: str, user: str, key: str, digest: str, at: int) -> KeyIn:
    return KeyIn(task=task, user=user or None, key=key, digest=digest, at=at)


def _taken(
    id_: str,
    kind: str,
    nth: int,
    task: str,
    args: str,
    lane: str,
    user: str | None,
    priority: int,
    key: str | None,
    moved: int,
    _read: int,
) -> Taken:
    message = Message(
        id=id_,
        kind=MessageKind(kind),
        nth=nth,
        task=task,
        args=args,
        lane=lane,
        user=user,
        priority=priority,
        key=key,
    )
    return Taken(message=message, moved=bool(moved))
