"""Claim ahead: the next claim of an idle worker is made in the transaction that makes something startable.

A worker that was woken would claim in a transaction of its own what the one before has just written. The next step of
an idle worker that executes nothing is known (`WorkerStore.step`), so it is made for the worker, last in the
transaction, and committed with it. The wake-up carries the reply. # Crash here: the reply is lost. The worker makes the
same step when it looks, and gets the reply as any repeat does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from laneway.core.lifecycle.step import PushedReply, Step
from laneway.stores.tables.runtime.after_commit import AfterCommit, IdleWorker, WakeUp
from laneway.stores.tables.runtime.wakeups import wake_for_work, wake_idle
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.verbs.steps import take_step_ahead

_LONGEST = 7999  # bytes of a notification

_decode = msgspec.json.Decoder(PushedReply).decode


class ReplyAhead(NamedTuple):
    """The reply to a step that was made for an idle worker, and how it is woken."""

    wake_up: WakeUp
    reply: PushedReply

    @property
    def text(self) -> str:
        """The notification of another process: with the reply, unless that is too long."""
        text = f"{self.wake_up.incarnation}\n{msgspec.json.encode(self.reply).decode()}"
        return text if len(text.encode()) <= _LONGEST else self.wake_up.incarnation


def read(text: str) -> tuple[str, PushedReply | None]:
    """Return which worker a notification wakes, and the reply that it carries."""
    incarnation, _, reply = text.partition("\n")
    try:
        return incarnation, _decode(reply) if reply else None
    except msgspec.MsgspecError:
        return incarnation, None  # of another version: the worker makes the step


def chosen(done: Iterable[AfterCommit]) -> list[IdleWorker]:
    """Return the idle workers that pieces of work have chosen."""
    return list({each.claim_ahead.number: each.claim_ahead for each in done if each.claim_ahead is not None}.values())


def claim_ahead(
    db: Database,
    after_commit: AfterCommit,
    worker: IdleWorker,
    recent_lanes: Sequence[str],
    is_alive: Callable[[IdleWorker], bool],
) -> list[ReplyAhead]:
    """Make the step of this worker, and of those that are chosen for what is left then; return the replies.

    A worker that is not seen to be alive is woken instead. `recent_lanes` tell what to prefetch.
    """
    replies = list[ReplyAhead]()
    left: IdleWorker | None = worker
    while left is not None:
        worker, after_commit.claim_ahead, now = left, None, db.now()
        assert worker.room is not None
        step = Step(worker.id, worker.call + 1, room=worker.room, park=True)
        reply = take_step_ahead(db, after_commit, step, now, recent_lanes) if is_alive(worker) else None
        if reply is None:
            wake_idle(db, after_commit, [worker])
            wake_for_work(db, after_commit, now)
        else:
            replies.append(ReplyAhead(WakeUp(worker.id, worker.address), PushedReply(step.call, reply)))
        left = after_commit.claim_ahead
    return replies
