"""The renewer: keeps an incarnation alive, from a thread of its own.

A thread of its own, because a process must stay alive when its loop is blocked: a handler that blocks the loop for a
minute is slow, not dead, and its runs must not be reclaimed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Set

from laneway.core.lifecycle.step import RenewReply
from laneway.engine.common.threads import on_thread
from laneway.engine.services.lease_clock import LeaseClock
from laneway.errors import LeaseLost, StoreError, StoreTooNew
from laneway.ports.workers import WorkerStore

log = logging.getLogger("laneway.renewer")


class Renewer:
    """Renews one incarnation until stopped.

    `held` returns the leases that the worker has before the call. `lost` is called with those that the store does not
    know (a set of (number, fence)), or with None when the whole incarnation is lost. `asked` is called while there are
    standing requests for its runs, in case a wake-up got lost. All three are called on the renewer's thread.
    """

    def __init__(
        self,
        store: WorkerStore,
        incarnation: str,
        every: float,
        lease_clock: LeaseClock,
        held: Callable[[], Set[tuple[int, int]]],
        lost: Callable[[Set[tuple[int, int]] | None], None],
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._incarnation, self._every, self._lease_clock = store, incarnation, every, lease_clock
        self._held, self._lost, self._asked = held, lost, asked
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._start, name="laneway-renewer", daemon=True)

    async def run(self) -> None:
        """Renew until cancelled, as a service. Raises LeaseLost, after the call of `lost`."""
        await on_thread("laneway-renewer", self._run)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing. It does not wait for a renewal that is under way."""
        self._stopped.set()

    def _start(self) -> None:
        with contextlib.suppress(LeaseLost):
            self._run(self._stopped)

    def _run(self, stopped: threading.Event) -> None:
        wait = self._every
        while not stopped.wait(wait):
            try:
                wait = self._every if self._renew() else min(1.0, self._every / 2)
            except LeaseLost:
                self._lost(None)
                raise

    def _renew(self) -> bool:
        held = self._held()
        try:
            with self._lease_clock.renewal():
                reply: RenewReply = self._store.renew(self._incarnation)
        except LeaseLost:
            raise
        except Exception as error:  # whatever it is: a worker that stops renewing loses everything it holds
            log.warning("cannot renew: %s; trying again", error, exc_info=not isinstance(error, StoreError))
            if isinstance(error, StoreTooNew):
                self._asked()  # an idle worker learns it by its next step, and ends
            return False
        if reply.requests:
            self._asked()
        # Race: a run claimed after `held` was read is not in `held`, so it is never taken for lost.
        unknown = held - set(reply.leases)
        if unknown:
            self._lost(unknown)
        return True
