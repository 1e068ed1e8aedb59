"""What a context reaches of its attempt in the worker's own process."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

from laneway.core.records.memos import Memo
from laneway.core.records.run import NewRun
from laneway.engine.attempts.event_buffer import Talking
from laneway.engine.attempts.running_attempt import Execution
from laneway.engine.attempts.save_queue import Saves
from laneway.engine.client.submissions import Checking
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.replay import Trail
from laneway.errors import BadSetting


class Reach(NamedTuple):
    """What all attempts of a worker share."""

    saves: Saves
    checking: Checking
    pool: Executor
    result_limit: int
    talking: Talking


class Link:
    """One attempt's. What `before_start` gets has no trail: it is called once, and nobody starts it again."""

    __slots__ = ("_execution", "_reach", "_trail")

    def __init__(self, execution: Execution, reach: Reach, trail: Trail | None) -> None:
        self._execution, self._reach, self._trail = execution, reach, trail

    @property
    def cancelled(self) -> bool:
        """Whether the handler shall stop."""
        return self._execution.told

    @property
    def inbox(self) -> Inbox:
        """The messages that came for the run."""
        assert self._execution.inbox is not None  # made with the context
        return self._execution.inbox

    @property
    def trail(self) -> Trail:
        """The attempt's trail."""
        if self._trail is None:
            raise BadSetting("steps, questions, calls and follow-ups are the handler's; before_start has none")
        return self._trail

    @property
    def pool(self) -> Executor:
        """Where plain functions are called."""
        return self._reach.pool

    @property
    def result_limit(self) -> int:
        """How many bytes of JSON may be kept at once."""
        return self._reach.result_limit

    def save(self, state: str) -> Future[None]:
        """Save a checkpoint; the future ends when it is stored, and raises Unwound if the handler is not to go on."""
        return self._reach.saves.add(self._execution, state=state)

    def keep(self, memo: Memo) -> Future[None]:
        """Save a memo, likewise."""
        return self._reach.saves.add(self._execution, memo=memo)

    def child(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any]) -> NewRun:
        """Return a checked submission of another run."""
        return self._reach.checking.child(task, args, options)

    def say_reordered(self) -> None:
        """Tell that steps are not in the order they were."""
        for said in self.trail.reordered:
            self._reach.talking.say(self._execution, said)
        self.trail.reordered.clear()
