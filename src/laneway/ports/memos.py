"""Memos: what runs keep for their later attempts, and the answers that people give them."""

from __future__ import annotations

from typing import Protocol

from laneway.core.records.memos import Recall


class MemoStore(Protocol):
    """Keeps memos with their run, and lets waiting runs go on.

    Steps and calls are written by `step` (`Saved.memo`, `Leaves`), under the lease. A run that is settled as waiting
    frees the slots of its lane and user and keeps its session's place. Its calls are submitted in the same step, unless
    the store has seen their ids; whoever ends a called run writes its outcome into the memos of the run that called it
    and, if that waits for it, makes it pending (paused, if that was requested of it). If a called run had ended first,
    the run that would wait for it is pending instead. A run that ends cancels what it has called.
    A question that nobody has answered when its time is over ends its run as cancelled (`unanswered`), in the first
    `submit` or `step` after that; `StepReply.due_in` tells of it.
    """

    async def recall(self, run_id: str) -> Recall:
        """Return the run's memos, by when they were written, and what it waits for, or waited for last.

        Raises UnknownRun; `run_id` is the whole id.
        """
        ...
