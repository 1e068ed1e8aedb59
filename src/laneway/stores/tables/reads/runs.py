"""Runs, sessions, workers and events, as people read them: each call in one snapshot.

A snapshot begins with its call, so it contains everything that was acknowledged before. Readers and the writer do not
wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from laneway.core.common.instants import instant
from laneway.core.records import codec
from laneway.core.records.events import STARTED, Event, counted, numbered, opened
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.policy import NO_RULE
from laneway.core.records.run import Failure, Request, Run, RunFilter
from laneway.core.records.states import TERMINAL, RunState
from laneway.errors import UnknownRun
from laneway.ports.sessions import SessionState
from laneway.stores.tables.rows import waits
from laneway.stores.tables.rows.run_row import decode_ties
from laneway.stores.tables.rows.settings import ruled_names
from laneway.stores.tables.runtime.wakeups import decode_incarnation
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import RUN_FIELDS, as_json, sql_names
from laneway.stores.tables.state.session_counts import SessionCounts

_SQL = sql_names("runs")
_LAST = 2**62  # behind every acceptance number

_failure = msgspec.json.Decoder(Failure).decode


def get(db: Database, run_id: str) -> Run:
    """Return the run; see `RunStore.get`."""
    row = db.execute(_SQL["by_id"], (run_id,)).fetchone()
    if row is None:
        fits = db.execute(_SQL["by_prefix"], (run_id, run_id + chr(0x10FFFF))).fetchall() if run_id else []
        if len(fits) != 1:
            raise UnknownRun(run_id, len(fits))
        row = db.execute(_SQL["by_id"], fits[0]).fetchone()
    return _run(*row)


def runs(db: Database, wanted: RunFilter, limit: int, before: int | None) -> list[Run]:
    """Return runs, newest first; see `RunStore.runs`."""
    if limit <= 0:
        return []
    source = _SOURCES.get(wanted.state, "ended" if wanted.state in TERMINAL else "kept")
    asked = msgspec.structs.asdict(wanted) | {"limit": limit, "before": _LAST if before is None else before}
    asked["state"] = None if wanted.state is None else wanted.state.value
    numbers = as_json(number for (number,) in db.execute(_SQL[source], asked))
    return [_run(*row) for row in db.execute(_SQL["by_numbers"], (numbers,))]


# The statement that finds the runs of a state; other states are `ended` or (paused, waiting) `kept`.
_SOURCES = {
    None: "any",
    RunState.PENDING: "pending",
    RunState.RUNNING: "running",
    RunState.SUCCEEDED: "succeeded",
}


def count(db: Database) -> dict[str, int]:
    """Count the runs by state; see `GateStore.depths`."""
    return {state: runs for state, runs in db.execute(_SQL["count"]) if runs}


def session(db: Database, name: str) -> list[SessionState]:
    """Return the session of that name, if there is one; see `SessionStore.sessions`."""
    return _sessions(db, [name])


def sessions(db: Database, prefix: str, limit: int, after: str) -> list[SessionState]:
    """Return sessions by name; see `SessionStore.sessions`."""
    stored = db.execute(_SQL["session_names"], (after, prefix, prefix + chr(0x10FFFF), max(0, limit)))
    names = {name for (name,) in stored} | set(ruled_names(db, prefix, after, limit))
    return _sessions(db, sorted(names)[: max(0, limit)])


def _sessions(db: Database, names: list[str]) -> list[SessionState]:
    """Return these sessions, without those that are idle and have no operator setting."""
    books = SessionCounts(db)
    books.fetch(names)
    return [
        SessionState.of(name, book)
        for name, book in ((name, books[name]) for name in names)
        if not book.idle or book.paused or book.ruled != NO_RULE
    ]


def workers(db: Database) -> list[WorkerInfo]:
    """Return the incarnations; see `WorkerStore.workers`."""
    infos = []
    for text, renewed_at, running, *marks in db.execute(_SQL["workers"]):
        idle, left, short = map(bool, marks)
        infos.append(
            WorkerInfo(
                incarnation=decode_incarnation(text),
                renewed_at=renewed_at,
                running=running,
                idle=idle,
                left=left,
                short=short,
            )
        )
    return infos


def events(db: Database, run_id: str, after: int, limit: int) -> list[Event]:
    """Return a page of the run's log; see `EventStore.events`."""
    row = db.execute(_SQL["log"], (run_id,)).fetchone()
    if row is None:
        raise UnknownRun(run_id)
    number, result, *lease = row
    stored = islice(_stored(db, number, after), max(0, limit))
    found = numbered(run_id, stored, _value(result))
    if len(found) < limit:
        found += [event for event in _open_start(run_id, *lease) if event.seq > after]
    return found


def _stored(db: Database, number: int, after: int) -> Iterator[tuple[int, Sequence[Any]]]:
    for first, body in db.execute(_SQL["chunks"], (number, after + 1)):
        for seq, entry in counted(first, opened(body)):
            if seq > after:
                yield seq, entry


def _open_start(
    run_id: str, attempt: int | None, worker: str | None, started_at: int | None, written: int | None, noted: int | None
) -> list[Event]:
    # The `started` event of a lease without written events: the next chunk of the lease will begin with it.
    if attempt is None or started_at is None or written is None or noted:
        return []
    return [Event(run_id, written + 1, STARTED, {"worker": worker}, attempt, instant(started_at))]


def _run(*row: Any) -> Run:
    facts = dict(zip(RUN_FIELDS, row, strict=True))
    for name in ("accepted_at", "due_at", "started_at", "ended_at"):
        facts[name] = None if facts[name] is None else instant(facts[name])
    facts["state"] = RunState(facts["state"])
    facts["request"] = None if facts["request"] is None else Request(facts["request"])
    facts["args"], facts["result"] = codec.from_json(facts["args"]), _value(facts["result"])
    facts["ties"] = None if facts["ties"] is None else decode_ties(facts["ties"])
    facts["wait"] = None if facts["wait"] is None else waits.opened(facts["wait"])
    facts["error"] = None if facts["error"] is None else _failure(facts["error"])
    return Run(**facts)


def _value(text: str | None) -> Any:
    return None if text is None else codec.from_json(text)
