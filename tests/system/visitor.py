"""A process of a system test that submits under hard conditions: `python -m tests.system.visitor '{"largest": 65536}'`.

For each submission it prints a line of JSON: the id that was accepted, or the error in full. Waiting is cut short, the
rest is what every caller of `submit` has.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from typing import Any

import msgspec

import laneway.stores.sqlite  # noqa: F401 - imported now, because another user may not be able to read it
from laneway import LanewayError, Scheduler
from laneway.engine.clock import SystemClock

NOBODY = 65534


class Plan(msgspec.Struct, frozen=True):
    """What to do: submit `count` runs with arguments of `size` bytes."""

    count: int = 1
    size: int = 10
    largest: int | None = None  # bytes a file may have, until a submission is refused; then, and once more, without
    nobody: bool = False  # as a user who may do nothing, if this one may do everything


class ImpatientClock(SystemClock):
    """The system's clock, for one who does not wait to try again."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def main(plan: Plan) -> None:
    """Submit, and say what came of it."""
    app = Scheduler(clock=ImpatientClock(), busy_timeout=1)

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
    said: dict[str, Any] = {}
    try:
        said["accepted"] = (await app.submit("take", {"text": "x" * size})).run_id
    except LanewayError as error:
        said |= {"error": type(error).__name__, "text": str(error), "maybe_done": getattr(error, "maybe_done", None)}
    print(json.dumps(said), flush=True)  # noqa: T201 - that is how it talks
    return "accepted" in said


def limit_files(size: int) -> None:
    """Let no file become larger than this."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


if __name__ == "__main__":
    what = msgspec.json.decode(sys.argv[1], type=Plan)
    if what.largest is not None:
        limit_files(what.largest)
    if what.nobody and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    asyncio.run(main(what))
