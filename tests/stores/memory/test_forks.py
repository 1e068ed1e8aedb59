"""The memory store in a forked child: a copy, whole, and never locked by a thread that is not there."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock


def test_a_fork_while_another_thread_uses_the_store_does_not_hang_the_child() -> None:
    store, held = MemoryStore(FakeClock()), threading.Event()

    def hold() -> None:
        with store._lock:
            held.set()
            threading.Event().wait(0.2)  # the fork begins meanwhile, and waits

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(10)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)  # a child that hangs dies of it
        os._exit(len(asyncio.run(store.depths()).runs))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    holding.join()
