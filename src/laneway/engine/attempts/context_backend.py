"""What a context uses of its attempt, in the worker's own process."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

from laneway.core.records.memos import Memo
from laneway.core.records.run import NewRun
from laneway.engine.attempts.event_buffer import EventBuffer
from laneway.engine.attempts.running_attempt import RunningAttempt
from laneway.engine.attempts.save_queue import SaveQueue
from laneway.engine.client.submissions import SubmissionChecker
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.replay import ReplayLog
from laneway.errors import BadSetting


class Shared(NamedTuple):
    """What all attempts of a worker share."""

    saves: SaveQueue
    checker: SubmissionChecker
    pool: Executor
    result_limit: int
    event_buffer: EventBuffer


class AttemptBackend:
    """The backend of one attempt's context. `before_start` gets one without a replay log: the hook runs only once."""

    __slots__ = ("_attempt", "_replay", "_shared")

    def __init__(self, attempt: RunningAttempt, shared: Shared, replay: ReplayLog | None) -> None:
        self._attempt, self._shared, self._replay = attempt, shared, replay

    @property
    def cancelled(self) -> bool:
        """Whether the handler shall stop."""
        return self._attempt.told_to_stop

    @property
    def inbox(self) -> Inbox:
        """The messages that came for the run."""
        assert self._attempt.inbox is not None  # it is made with the context
        return self._attempt.inbox

    @property
    def replay(self) -> ReplayLog:
        """The attempt's replay log."""
        if self._replay is None:
            raise BadSetting("steps, questions, calls and follow-ups are the handler's; before_start has none")
        return self._replay

    @property
    def pool(self) -> Executor:
        """The threads for plain functions."""
        return self._shared.pool

    @property
    def result_limit(self) -> int:
        """How many bytes of JSON one saved value may have."""
        return self._shared.result_limit

    def save(self, state: str) -> Future[None]:
        """Save a checkpoint; the future ends when it is stored, and raises Unwound if the handler must not go on."""
        return self._shared.saves.add(self._attempt, state=state)

    def keep(self, memo: Memo) -> Future[None]:
        """Save a memo, in the same way."""
        return self._shared.saves.add(self._attempt, memo=memo)

    def child(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any]) -> NewRun:
        """Return a checked submission of another run."""
        return self._shared.checker.child(task, args, options)

    def report_reordered(self) -> None:
        """Report that steps come in another order than before."""
        for said in self.replay.reordered:
            self._shared.event_buffer.add(self._attempt, said)
        self.replay.reordered.clear()
