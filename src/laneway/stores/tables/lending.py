"""Doing the steps that resting workers have lent: who makes something startable has it claimed in its own transaction.

A worker that was woken would make a transaction of its own to claim what the one before has just written. One that
executes nothing has said what it would ask (`WorkerStore.step`), so that is done here, last in the transaction, and
becomes true with it. The wake-up brings the answer. *Crash here*: it is lost; the worker makes that step when it looks,
and is answered as to any repeat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from laneway.core.lifecycle.step import LentReply, Step
from laneway.stores.tables.runtime.after_commit import Effects, Lender, Woken
from laneway.stores.tables.runtime.wakeups import wake_for_work, wake_lender
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.verbs.steps import take_lent_step

_reply = msgspec.json.Decoder(LentReply).decode


def lend(db: Database, effects: Effects, done: Sequence[Effects], lanes: Collection[str] = ()) -> None:
    """Do the steps of those who were chosen by what was `done`. Who is not seen to live is only woken.

    `lanes` are those that the last step knew of.
    """
    lender = next(_lenders(done), None)
    while lender is not None:
        effects.lender, now = None, db.now()
        step = Step(lender.incarnation, lender.call + 1, room=lender.room, park=True)
        reply = take_lent_step(db, effects, step, now, lanes) if effects.is_there(lender) else None
        if reply is None:
            wake_lender(db, effects, lender)
            wake_for_work(db, effects, now)
        else:
            effects.wake.append(Woken(lender.incarnation, lender.socket, LentReply(step.call, reply)))
        lender = effects.lender


def only_wake(db: Database, effects: Effects, done: Sequence[Effects]) -> None:
    """Wake those who were chosen: they make their steps by themselves."""
    for lender in _lenders(done):
        wake_lender(db, effects, lender)


def _lenders(done: Sequence[Effects]) -> Iterator[Lender]:
    return (each.lender for each in done if each.lender is not None)


def written(woken: Woken, limit: int) -> str:
    """Return a wake-up as it is sent to another process: with the answer, unless that makes it longer than `limit`."""
    if woken.answer is not None:
        text = f"{woken.incarnation}\n{msgspec.json.encode(woken.answer).decode()}"
        if len(text.encode()) <= limit:
            return text
    return woken.incarnation


def read(text: str) -> tuple[str, LentReply | None]:
    """Return whom a wake-up is for, and the answer that it brings."""
    incarnation, _, answer = text.partition("\n")
    try:
        return incarnation, _reply(answer) if answer else None
    except msgspec.MsgspecError:
        return incarnation, None  # of another laneway: the worker asks
