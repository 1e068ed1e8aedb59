"""The thread of blocking calls: the first call starts it, `close` ends it, and the next call starts another."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from weakref import WeakSet

from laneway.sync.life import Hook, Life, refuse_on_a_loop

CLOSE_WITHIN = 90.0  # seconds: more than a worker's stop and all else here may take, so beyond it the loop is stalled
EXIT_WITHIN = 5.0  # seconds that the end of the process waits for a loop nobody closed


class LoopThread:
    """Starts a `Life` with the first call, ends it with `close`, and can start another.

    `in_child` is called in a forked child, to drop what belongs to the parent. `at_exit` is awaited on the loop when
    the process ends without `close`.
    """

    def __init__(self, *, in_child: Callable[[], None], at_exit: Hook) -> None:
        # Reentrant: a signal handler may call while its thread holds the lock.
        self._lock = threading.RLock()
        self._life: Life | None = None
        self._in_child, self._at_exit = in_child, at_exit
        _ALL.add(self)

    def life(self) -> Life:
        """Return the current life; begin one if there is none."""
        refuse_on_a_loop(self._life)
        with self._lock:
            if self._life is None:
                self._life = Life(self._ended)
            return self._life

    def close(self, *, stop: Hook, close: Hook, within: float | None = None) -> None:
        """End the current life, if any: cut off its calls, await `stop`, its hooks and `close`, and end the thread."""
        refuse_on_a_loop(self._life)
        life = self._life
        if life is not None:
            life.end((stop, *reversed(life.hooks), close), CLOSE_WITHIN if within is None else within)

    def forget(self) -> None:
        """Reset in a forked child, where the loop's thread does not exist and any thread may have held the lock."""
        self._lock = threading.RLock()
        life, self._life = self._life, None
        if life is not None:
            # The loop is never closed: it shares a selector with the parent, and would unregister the parent's sockets.
            life.over = "stayed in the parent of this process when it forked"
        self._in_child()

    def leave(self) -> None:
        """End the life with the process: nobody waits for an answer, and nothing may be printed."""
        life = self._life
        if life is not None:
            life.end_quietly([self._at_exit], EXIT_WITHIN)

    def _ended(self, life: Life) -> None:
        with self._lock:
            if self._life is life:
                self._life = None


_ALL: WeakSet[LoopThread] = WeakSet()


def _forget_in_child() -> None:
    for thread in list(_ALL):
        thread.forget()


def _leave_at_exit() -> None:
    for thread in list(_ALL):
        thread.leave()


# Not earlier, with threading's own hook: threads that are no daemons may call until they have ended.
atexit.register(_leave_at_exit)
# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
