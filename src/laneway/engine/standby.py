"""The step that a resting worker leaves behind, so that whoever would wake it can do it at once.

Without it a wake-up goes from the store's thread to the worker's loop, and the step it leads to back to the store: two
hand-overs between threads, each as slow as the machine is busy, before a run is even claimed. A resting worker knows
its next step as long as nothing happens: no results, so much room. It leaves it here. A store that can do a step where
it would ring takes it, does it, and hands over the answer; one that cannot just rings.

*Race*: the worker may want to step for another reason meanwhile. Whoever comes first has the step; a worker that comes
second waits for the answer. If there is none, it sends the step again as any other that got no answer: the call number
makes that safe.
"""

from __future__ import annotations

import asyncio
import threading

from laneway.core.step import Step, StepReply
from laneway.engine.bell import Bell
from laneway.engine.threads import from_thread
from laneway.ports.clock import Clock
from laneway.ports.workers import Standby


class LeftStep:
    """A step that was left, when it was taken, and what it was answered. Fulfils `ports.workers.LeftStep`."""

    def __init__(self, step: Step, bell: Bell) -> None:
        self.step, self.taken_at = step, 0.0
        self._loop, self._bell = asyncio.get_running_loop(), bell
        self.reply: asyncio.Future[StepReply | None] = self._loop.create_future()

    def answer(self, reply: StepReply | None) -> None:
        """Hand over the answer, from any thread."""

        def hand_over() -> None:
            self.reply.set_result(reply)
            self._bell.stir()

        from_thread(self._loop, hand_over)


class Rest(Standby):
    """How a store reaches one resting worker: by its bell, or by the step that it has left."""

    def __init__(self, bell: Bell, clock: Clock) -> None:
        self._bell, self._clock = bell, clock
        self._lock = threading.Lock()
        self._left: LeftStep | None = None  # until a store takes it, or the worker takes it back
        self._taken: LeftStep | None = None  # until the worker knows

    def __call__(self) -> None:
        """Ring, from any thread."""
        self._bell.ring_from_thread()

    def take(self) -> LeftStep | None:
        """Take the step, from any thread."""
        with self._lock:
            left, self._left = self._left, None
            if left is not None:
                left.taken_at = self._clock.monotonic()
                self._taken = left
            return left

    def leave(self, step: Step) -> None:
        """Leave a step. On the worker's loop, as `end`."""
        self._left = LeftStep(step, self._bell)

    def end(self) -> LeftStep | None:
        """Leave nothing any more; return the step that a store has taken meanwhile, if it has."""
        with self._lock:
            taken, self._left, self._taken = self._taken, None, None
            return taken
