"""Write runs that were pieces, each with its rows of all tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from laneway.core.records.run import MessageKind
from laneway.core.records.states import RunState
from laneway.core.transfer.logs import chunks
from laneway.core.transfer.pieces import KeyIn, RunIn
from laneway.stores.tables.rows import memos
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import RUN_COLUMNS, Row, sql_names

_SQL = sql_names("unpack")


def put_runs(db: Database, runs: Sequence[RunIn]) -> None:
    """Write these runs; those that exist already are left out."""
    if not runs:
        return
    span = min(run.number for run in runs), max(run.number for run in runs)
    known = {number for (number,) in db.execute(_SQL["known"], span)}
    new = [run for run in runs if run.number not in known]
    logs = [(run, list(chunks(run.log))) for run in new]
    db.insert(_SQL["put_run"], [_run(run) for run in new])
    db.insert(_SQL["put_outcome"], [row for run, log in logs if (row := _outcome(run, log)) is not None])
    db.insert(_SQL["put_event"], [(run.number, first, text) for run, log in logs for first, _, text in log])
    memos.put(db, [(run.number, memo) for run in new for memo in run.memos])
    for name, rows in (
        ("put_checkpoint", [(run.number, run.checkpoint) for run in new if run.checkpoint is not None]),
        ("put_prepared", [(run.number, run.prepared) for run in new if run.prepared is not None]),
        ("put_control", [(run.number, run.call) for run in new if run.call]),
        ("put_message", [row for run in new for row in _messages(run)]),
        ("put_wait", [_wait(run) for run in new if run.wait is not None]),
        ("put_transient", [(run.number,) for run in new if run.streamed]),
        ("put_key", [key_row(key, run.id, run.number) for run in new for key in run.keys]),
    ):
        db.insert(_SQL[name], rows)


def key_row(key: KeyIn, run_id: str, number: int, *, gone: bool = False) -> Row:
    """Return a key as it is inserted."""
    return key.task, key.user or "", key.key, run_id, number, key.digest, key.at, gone


def _run(run: RunIn) -> Row:
    return tuple(_column(run, name) for name in RUN_COLUMNS)


def _column(run: RunIn, name: str) -> Any:
    value = getattr(run, name, 0)  # a piece has no rank: its place says where the run is
    return _text(value) if isinstance(value, msgspec.Struct) else value


def _outcome(run: RunIn, log: Sequence[tuple[int, int, str]]) -> Row | None:
    """Return the row of its outcome; None for a run that was never started and has no events."""
    if run.state is RunState.PENDING and not (run.fence or log):
        return None
    events = log[-1][1] if log else 0
    how = (run.number, run.state.value, run.attempt, run.crashes, run.fence, events, run.started_at, run.ended_at)
    return *how, run.reason, _text(run.error), run.result


def _messages(run: RunIn) -> Iterator[Row]:
    open_ = run.ended_at is None
    for taken in run.taken:
        message = taken.message
        is_read = message.kind is MessageKind.STEERED and message.nth <= run.read
        who = (message.id, message.task, message.lane, message.user, message.priority, message.key)
        yield run.number, message.kind.value, message.nth, *who, taken.moved, open_, is_read, message.args


def _wait(run: RunIn) -> Row:
    until = run.wait.until if run.wait is not None and run.state is RunState.WAITING else None
    return run.number, until, run.request, _text(run.wait)


def _text(value: msgspec.Struct | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
