"""Decoding replies of scripts: receipts, runs, claimed runs, and the store's part in a move.

Scripts send False for a value that is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import msgspec

from laneway.core.common.instants import instant
from laneway.core.lifecycle.step import Requested
from laneway.core.records import codec
from laneway.core.records.memos import Called, Ending, Memo, MemoKind, Question, Wait
from laneway.core.records.run import (
    Claimed,
    Failure,
    Message,
    MessageKind,
    Receipt,
    ReceiptOutcome,
    Request,
    Run,
    RunLinks,
)
from laneway.core.records.states import RunState
from laneway.core.transfer.move_state import MovePhase, Moving
from laneway.core.transfer.pieces import Mark
from laneway.stores.redis.codec.decode_counts import some

_ties = msgspec.json.Decoder(RunLinks).decode
_failure = msgspec.json.Decoder(Failure).decode
_mark = msgspec.json.Decoder(Mark).decode

_ACCEPTED = ReceiptOutcome.ACCEPTED
# What stands among a record's rare fields in the same form as in a run.
_COPIED = frozenset(Run.__struct_fields__) - {"request", "ties", "wait"}
OUTCOMES = {outcome.value: outcome for outcome in ReceiptOutcome}


def receipt(packed: list[Any]) -> Receipt:
    """Return a receipt; of one that stands for several submissions, the first."""
    outcome, run_id, reason, position, state, _ = packed
    if not (reason or position or state):
        return Receipt(OUTCOMES[outcome], run_id)
    return Receipt(OUTCOMES[outcome], run_id, reason or None, position or None, RunState(state) if state else None)


def receipts(ids: Sequence[str], reply: list[list[Any]]) -> list[Receipt]:
    """Return the receipts of submissions with these ids; one with a `count` stands for consecutive positions."""
    found: list[Receipt] = []
    for packed in reply:
        found.append(receipt(packed))
        ahead, count = packed[3] or 0, packed[5]
        if count > 1:
            others = ids[len(found) : len(found) + count - 1]
            found += map(Receipt, repeat(_ACCEPTED), others, repeat(None), range(ahead + 1, ahead + count))
    return found


def run_of(shown: list[Any]) -> Run:
    """Return a run from number, record, arguments, ties, result and failure (`runs.shown` in lua/state/runs.lua)."""
    number, record, long_args, ties_text, long_result, failure = shown
    _, _, state, _, _, fence, attempt, crashes, started_at, ended_at, worker, _, _, _, rare, *given = record
    task, lane, user, session, priority, id_, accepted_at, due_at, args, result = given
    more = rare or {}
    ties = _ties(ties_text) if ties_text else None
    return Run(
        id=id_,
        number=number,
        task=task,
        args=codec.from_json(args or long_args),
        lane=lane,
        user=user or None,
        session=session or (ties.session if ties is not None else None) or None,
        priority=priority,
        state=RunState(state),
        attempt=attempt,
        fence=fence,
        crashes=crashes,
        accepted_at=instant(accepted_at),
        due_at=instant(due_at),
        started_at=instant(started_at) if started_at else None,
        ended_at=instant(ended_at) if ended_at else None,
        result=codec.from_json(result or long_result) if result or long_result else None,
        error=_failure(failure) if failure else None,
        worker=worker or None,
        request=Request(more["request"]) if "request" in more else None,
        ties=ties,
        wait=wait_of(more["wait"]) if state == RunState.WAITING else None,
        **{name: value for name, value in more.items() if name in _COPIED},
    )


def standing_of(found: Sequence[Any]) -> Moving | None:
    """Return the store's part in a move, if it has one; see `MovingStore.moving`."""
    return part_of(found) if found[0] else None


def part_of(found: Sequence[Any]) -> Moving:
    """Return the store's part in a move."""
    phase, move, place, mark, _ = found
    return Moving(phase=MovePhase(phase), move=move, place=place, mark=_mark(mark) if mark else None)


def wait_of(packed: dict[str, Any]) -> Wait:
    """Return the questions and calls that a run waits for."""
    return Wait(
        questions=tuple(
            Question(name=name, question=codec.from_json(question), timeout=timeout, about=about, until=until or None)
            for name, question, timeout, about, until in packed["questions"]
        ),
        calls=tuple(
            Called(name=name, run_id=run_id, about=about, tries=tries) for name, run_id, about, tries in packed["calls"]
        ),
        others=tuple(packed["others"]),
    )


def claimed(number: int, packed: list[Any]) -> Claimed:
    """Return a run in the form for a worker (`runs.handed` in lua/state/runs.lua)."""
    task, lane, user, session, priority, id_, _, _, args, _, fence, attempt, crashes, worker, *more = packed
    run = Claimed(
        number, id_, task, args, fence, attempt, crashes, lane, user or None, session or None, priority, worker
    )
    if more:
        run.lapsed, state, run.timed_out, run.messages, prepared, ties, run.memos = more
        run.state, run.prepared = state or None, prepared or None
        run.ties = _ties(ties) if ties else None
    return run


def requests(packed: list[list[Any]]) -> list[Requested]:
    """Return the open requests for a worker's runs."""
    return [Requested(number, fence, Request(request), messages) for number, fence, request, messages in packed]


def key_of(field: str) -> tuple[str, str | None, str]:
    r"""Return the task, the user and the key of a field of hash `keys`.

    >>> key_of("work\n=ann\nk"), key_of("work\n\nk")
    (('work', 'ann', 'k'), ('work', None, 'k'))
    """
    task, user, key = field.split("\n", 2)
    return task, user[1:] if user else None, key


def message_of(
    run_id: str, kind: str, nth: int, task: str, args: str, lane: str, user: Any, priority: int, field: Any
) -> Message:
    """Return a message (lua/rules/inboxes.lua)."""
    return Message(
        id=run_id,
        kind=MessageKind(kind),
        nth=nth,
        task=task,
        args=args,
        lane=lane,
        user=some(user),
        priority=priority,
        key=field.split("\n", 2)[2] if field else None,
    )


def memo_of(
    _order: int,
    kind: str,
    name: str,
    value: Any,
    about: str,
    nth: int,
    attempt: int,
    run_id: Any,
    tries: int,
    ending: Any,
) -> Memo:
    """Return a memo (lua/state/memos.lua)."""
    return Memo(
        kind=MemoKind(kind),
        name=name,
        value=some(value),
        about=about,
        nth=nth,
        attempt=attempt,
        run_id=some(run_id),
        tries=tries,
        ending=Ending(RunState(ending[0]), some(ending[1]), some(ending[2])) if ending else None,
    )
