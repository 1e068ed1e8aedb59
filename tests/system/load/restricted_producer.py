"""A process that submits with limits on what it may write.

`python -m tests.system.load.restricted_producer '{"largest": 65536}'`

For each submission it prints a line of JSON: the id that was accepted, or the whole error. Its clock does not sleep;
everything else is as for every caller of `submit`.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import sys
from typing import Any

import msgspec

from laneway import LanewayError, Scheduler
from laneway.engine.common.clock import SystemClock

CAPABILITIES_V3 = 0x20080522  # the version of the two structures; see capset(2)
MAY_WRITE_ANYTHING = 1 << 1  # CAP_DAC_OVERRIDE


class Plan(msgspec.Struct, frozen=True):
    """What to do: submit `count` runs with arguments of `size` bytes."""

    count: int = 1
    size: int = 10
    largest: int | None = None  # bytes that a file may have until a submission is refused; then once more without
    obey_modes: bool = False  # of files, as every user but root has to


class SleeplessClock(SystemClock):
    """The system's clock, with sleeps that take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def main(plan: Plan) -> None:
    """Submit, and print what came of it."""
    app = Scheduler(clock=SleeplessClock(), busy_timeout=1)

    @app.task
    def take(text: str) -> None:
        """Take the text."""

    for _ in range(plan.count):
        accepted = await submit(app, plan.size)
        if not accepted and plan.largest is not None:
            limit_files(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
            await submit(app, plan.size)
            break
    await app.aclose()


async def submit(app: Scheduler, size: int) -> bool:
    """Submit a run; tell whether it was accepted."""
    printed: dict[str, Any] = {}
    try:
        printed["accepted"] = (await app.submit("take", {"text": "x" * size})).run_id
    except LanewayError as error:
        printed |= {"error": type(error).__name__, "text": str(error), "maybe_done": getattr(error, "maybe_done", None)}
    print(json.dumps(printed), flush=True)  # noqa: T201 - the test reads it
    return "accepted" in printed


def limit_files(size: int) -> None:
    """Let no file become larger than this."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def obey_modes() -> None:
    """Let root write only what the modes of files let it write. It can still read this checkout, wherever that is."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_V3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: the first 32 capabilities, then the others
    if libc.capget(header, sets) == 0:
        sets[0] &= ~MAY_WRITE_ANYTHING
        sets[1] &= ~MAY_WRITE_ANYTHING
        if libc.capset(header, sets) == 0:
            return
    raise OSError(ctypes.get_errno(), "root's capability cannot be dropped")


if __name__ == "__main__":
    what = msgspec.json.decode(sys.argv[1], type=Plan)
    if what.largest is not None:
        limit_files(what.largest)
    if what.obey_modes and os.geteuid() == 0:
        obey_modes()
    asyncio.run(main(what))
