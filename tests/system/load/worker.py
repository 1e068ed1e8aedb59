"""A worker process of a system test: `python -m tests.system.load.worker '{"lossy": 0.1}'`.

It does what `laneway worker` does, with these faults:

    lossy       the share of its calls to the store that fail, before or after they took effect
    unseen      true: it registers as a process of another machine, so others see no death of it, only a lapsed lease
    clock       a file with the seconds by which this machine's clock is wrong, read at each call
    log_checks  true: no fault; it writes into the journal when it checked whether it may begin its claimed runs
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from random import Random
from unittest import mock

import msgspec

from laneway.core.records.liveness import ProcessMark
from laneway.core.records.run import Claimed
from laneway.engine.common import processes
from laneway.engine.common.clock import SystemClock
from laneway.engine.services.lease_clock import LeaseClock
from laneway.engine.worker.attempt_table import AttemptTable
from tests.system.faults.lossy_store import make_lossy
from tests.system.load.app import app, journal
from tests.system.oracle.journal import LeaseChecked, Ready


class Faults(msgspec.Struct, frozen=True):
    """The faults of this worker."""

    lossy: float = 0
    unseen: bool = False
    clock: str = ""
    log_checks: bool = False


async def main(faults: Faults) -> None:
    """Work until told to stop."""
    if faults.log_checks:
        _log_lease_checks()
    if faults.unseen:
        mock.patch("laneway.engine.worker.worker.mark", _mark_of_elsewhere).start()
    if faults.clock:
        mock.patch.object(SystemClock, "now", side_effect=partial(_wrong_by, Path(faults.clock))).start()
    store = make_lossy(app, Random(os.getpid())) if faults.lossy else None

    def on_ready() -> None:
        journal().write(Ready)
        if store is not None:
            store.chance = faults.lossy  # not before: a worker that cannot register ends with an error

    loop = asyncio.get_running_loop()
    stopping = []
    loop.add_signal_handler(signal.SIGTERM, lambda: stopping.append(loop.create_task(app.stop(10))))
    await app.work(ready=on_ready)
    await asyncio.gather(*stopping)
    if store is not None:
        store.chance = 0  # closing calls the store no more, so there is nothing to lose
    await app.aclose()


def _log_lease_checks() -> None:
    checked, may_have_lapsed, start = [0], vars(LeaseClock)["may_have_lapsed"].fget, AttemptTable.start

    def check(lease_clock: LeaseClock) -> bool:
        # Before the check: a process that is frozen between the two finds out by its clock.
        checked[0] = time.monotonic_ns()
        return bool(may_have_lapsed(lease_clock))

    def log_and_start(attempts: AttemptTable, claimed: list[Claimed]) -> None:
        for run in claimed:
            journal().write(LeaseChecked, run=run.id, fence=run.fence, at=checked[0])
        start(attempts, claimed)

    mock.patch.object(LeaseClock, "may_have_lapsed", property(check)).start()
    mock.patch.object(AttemptTable, "start", log_and_start).start()


def _mark_of_elsewhere() -> ProcessMark:
    return msgspec.structs.replace(processes.mark(), boot="another boot of another machine")


def _wrong_by(file: Path) -> int:
    return time.time_ns() // 1000 + round(float(file.read_text()) * 1_000_000)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s.%(msecs)03d %(message)s", datefmt="%H:%M:%S")
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Faults)))
