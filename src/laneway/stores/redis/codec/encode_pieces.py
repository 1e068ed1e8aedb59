"""Encoding the content of a store for a move: pieces in the form of `unpack_piece` in lua/admin/pieces.lua."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from laneway.core.queue.circuits import FOREVER
from laneway.core.records.run import Message, NewRun
from laneway.core.transfer.logs import chunks
from laneway.core.transfer.pieces import (
    Cap,
    CircuitIn,
    Counters,
    Disabled,
    JobIn,
    KeyIn,
    LaneIn,
    PausedIn,
    Piece,
    Place,
    RunIn,
    SeatIn,
    SessionIn,
    SessionRule,
    TurnIn,
)
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec import jobs as jobforms

_NEVER = -1  # FOREVER in scripts


def packed_piece(piece: Piece) -> list[Any]:
    """Return a piece for scripts: its kind and its values."""
    return _WRITERS[type(piece)](piece)


def _lane(piece: LaneIn) -> list[Any]:
    counts = [piece.paused, piece.active, piece.pending, piece.paces, list(piece.counts.items())]
    settings = [_or_false(piece.declared, encode.lane), _or_false(piece.ruled, encode.lane)]
    return ["lane", piece.lane.name, encode.lane(piece.lane), *settings, *counts]


def _circuit(piece: CircuitIn) -> list[Any]:
    until = _NEVER if piece.until == FOREVER else _or_false(piece.until)
    return ["circuit", piece.key, piece.failures, until]


def _session(piece: SessionIn) -> list[Any]:
    facts = msgspec.structs.asdict(piece)
    del facts["name"]
    facts["given"] = encode.rule(piece.given)
    facts["windows"] = [[one.task, _or_false(one.user), one.number, one.until] for one in piece.windows]
    return ["session", piece.name, facts]


def _job(piece: JobIn) -> list[Any]:
    job = piece.job
    records = [jobforms.written_record(record) for record in piece.fires]
    return ["job", job.id, jobforms.written(job), jobforms.spec_text(job.spec), records]


_OTHERWISE = {"error", "arrival", "ties", "wait", "log", "memos", "taken", "keys"}
_SAME = [name for name in RunIn.__struct_fields__ if name not in _OTHERWISE]


def _run(piece: RunIn) -> list[Any]:
    given = {name: value for name in _SAME if (value := getattr(piece, name))}
    facts: dict[str, Any] = dict.fromkeys(("priority", "fence", "crashes"), 0) | given
    facts["args"], facts["state"] = piece.args, piece.state.value
    if piece.result is not None:
        facts["result"] = piece.result
    if piece.error is not None:
        facts["error"] = msgspec.json.encode(piece.error).decode()
    if piece.wait is not None:
        facts["wait"] = _with_false(encode.wait(piece.wait))
    facts["log"] = [[text, last - first + 1] for first, last, text in chunks(piece.log)]
    facts["memos"] = [_with_false(encode.memo(memo)) for memo in piece.memos]
    facts["taken"] = [[_message(taken.message), taken.moved] for taken in piece.taken]
    facts["keys"] = [[_field(key.task, key.user, key.key), key.digest, key.at] for key in piece.keys]
    return ["run", facts | _ties(piece)]


def _ties(piece: RunIn) -> dict[str, Any]:
    """Return links and session policy of the run in the form of submissions."""
    new = NewRun(
        id=piece.id,
        task=piece.task,
        args=piece.args,
        lane=piece.lane,
        user=piece.user,
        session=piece.session,
        arrival=piece.arrival,
        ties=piece.ties,
    )
    return encode.rare_fields(new)


def _message(message: Message) -> list[Any]:
    field = _field(message.task, message.user, message.key) if message.key is not None else False
    who = [message.lane, _or_false(message.user), message.priority, field]
    return [message.id, message.kind.value, message.nth, message.task, message.args, *who]


def _field(task: str, user: str | None, key: str) -> str:
    return f"{task}\n{'' if user is None else f'={user}'}\n{key}"


def _key(piece: KeyIn) -> list[Any]:
    return ["key", _field(piece.task, piece.user, piece.key), piece.run_id, piece.number, piece.digest, piece.at]


def _with_false(value: Any) -> Any:
    """Return the value with False for each None: for a script, None at the end of a list would shorten the list."""
    if isinstance(value, dict):
        return {name: _with_false(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_false(item) for item in value]
    return False if value is None else value


def _or_false(value: Any, packed: Callable[[Any], Any] = lambda value: value) -> Any:
    return False if value is None else packed(value)


_WRITERS: dict[type, Callable[[Any], list[Any]]] = {
    Counters: lambda piece: ["counters", piece.accepted, piece.jobs_at],
    LaneIn: _lane,
    Cap: lambda piece: ["cap", piece.user, piece.lane, piece.cap],
    PausedIn: lambda piece: ["paused", piece.what, piece.name],
    Disabled: lambda piece: ["disabled", piece.task],
    SessionRule: lambda piece: ["sessionrule", piece.name, encode.rule(piece.rule)],
    CircuitIn: _circuit,
    TurnIn: lambda piece: [
        "turn",
        piece.lane,
        _or_false(piece.user),
        piece.priority,
        piece.last,
        piece.waiting,
    ],
    SeatIn: lambda piece: ["seat", piece.lane, piece.user, piece.active, piece.parked, piece.out],
    SessionIn: _session,
    JobIn: _job,
    KeyIn: _key,
    RunIn: _run,
    Place: lambda piece: ["place", piece.number, piece.shelf, piece.rank, piece.kind, _or_false(piece.gate)],
}
