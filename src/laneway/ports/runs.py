"""Runs: accept them, read them, and keep memos for their later attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laneway.core.records.memos import Recall
from laneway.core.records.run import Message, NewRun, Receipt, Run, RunFilter


class RunStore(Protocol):
    """Accepts runs, returns what is kept of them, and lets waiting runs go on.

    A run's memos are written by `step`, under the lease (`Saved.memo`, `Leaves`). A run that is settled as waiting
    frees the slots of its lane and user, and keeps its session's place. Its calls are submitted in the same step,
    unless the store has seen their ids. When a called run ends, the same atomic step writes its outcome into the memos
    of the run that called it and, if that run waits for it, makes that run pending (paused, if a pause was requested).
    If the called run had ended before, the run that would wait for it is pending instead. A run that ends cancels what
    it has called. A question that is not answered in time ends its run as cancelled (`unanswered`), in the first
    `submit` or `step` after that; `StepReply.due_in` says when that is.
    """

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept a batch of runs and return a receipt for each, in order.

        Atomic: all of them are stored when this returns. Acceptance numbers grow in the batch's order, and each
        submission sees the effects of those before it. It meets, in this order: an id that the store has seen changes
        nothing and gets its first receipt again (without a position); a key of the same task and user gets `existing`,
        or `refused` (`key_conflict`) with other arguments; a disabled task, `refused`; then the session's policy
        (`arrivals`) and the lane's bound (`Lane.max_pending`). Of a refused submission only a count is stored. After
        `lane_wait` the caller tries again; so it does after `session_wait`, while due runs still join their sessions,
        some with each call.
        A due run joins its session, if it has one, and is startable when the session admits it. A delayed run first
        waits for its due time. An unknown lane becomes `main`, and the receipt's reason says `lane_unknown`.
        Wakes as many idle workers as there are runs to start.
        """
        ...

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return up to `limit` messages of the run after the first `after`: merged ones first, each kind in order.

        Raises UnknownRun; `run_id` is the whole id.
        """
        ...

    async def get(self, run_id: str) -> Run:
        """Return the run with this id, or with the only id that begins with this text.

        Raises UnknownRun, also if several ids begin with it (`matches` is their number).
        """
        ...

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return up to `limit` runs that fit, newest accepted first, of numbers smaller than `before`.

        Pages by `before` return every run that fits all the time exactly once, whatever changes meanwhile.
        """
        ...

    async def recall(self, run_id: str) -> Recall:
        """Return the run's memos, by when they were written, and what it waits for, or waited for last.

        Raises UnknownRun; `run_id` is the whole id.
        """
        ...
