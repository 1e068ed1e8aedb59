"""Stuck handlers: they were told to stop and have not. Each is reported once with its stack, and watched until it ends.

Python cannot stop a thread, nor a coroutine that swallows its cancellation. Such a run keeps its lease and its slots,
because its code may still do anything. They are freed when the code or the process ends, or by `cancel(run,
abandon=True)`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import copy_context

from laneway.core.records.status import StuckRun
from laneway.engine.attempts.running_attempt import RunningAttempt
from laneway.engine.common import stacks
from laneway.ports.clock import Clock

log = logging.getLogger("laneway.worker")


class StuckHandlers:
    """The stuck handlers of one worker. `on_stuck` is called once for each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[RunningAttempt, tuple[StuckRun, float]] = {}
        self.on_stuck: Callable[[StuckRun], None] | None = None
        # `on_stuck` may stop the worker and wait for that: outside of the handlers' context it does not wait for
        # itself.
        self._outside = copy_context()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._found)

    def add(self, attempt: RunningAttempt, seconds: float) -> StuckRun:
        """Report a handler that was told to stop so many seconds ago. On its loop's thread."""
        run, stack = attempt.run, _stack(attempt)
        found = StuckRun(run_id=run.id, task=run.task, seconds=seconds, stack=stack)
        attempt.stuck = True
        self._found[attempt] = found, self._clock.monotonic() - seconds
        why = attempt.stopped.value if attempt.stopped is not None else "stopped"
        log.error("run %s of %s is stuck: it was %s %g s ago and goes on at\n%s", run.id, run.task, why, seconds, stack)
        self._report(found)
        return found

    def ended(self, attempt: RunningAttempt) -> None:
        """Record that an attempt has ended; it may have been stuck."""
        if self._found.pop(attempt, None) is not None:
            log.warning("run %s of %s was stuck and has ended", attempt.run.id, attempt.run.task)

    def _report(self, found: StuckRun) -> None:
        if self.on_stuck is not None:
            try:
                self._outside.copy().run(self.on_stuck, found)
            except Exception:
                log.exception("the callback for the stuck run %s crashed", found.run_id)

    def runs(self) -> list[StuckRun]:
        """Return the stuck runs, each with the seconds since it was told to stop; any thread may call it."""
        now = self._clock.monotonic()
        return [
            StuckRun(run_id=found.run_id, task=found.task, seconds=now - since, stack=found.stack)
            for found, since in list(self._found.values())
        ]


def _stack(attempt: RunningAttempt) -> str:
    if attempt.child is not None:
        return "(in a child process)"
    if attempt.thread is not None:
        return stacks.of_thread(attempt.thread)
    return "" if attempt.handle is None else stacks.of_task(attempt.handle)
