"""The app of the test of messages: its handlers write into the journal which messages they got and read."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec

from laneway import Context, Lane, Retry, Scheduler
from tests.system.load.app import SETTINGS, journal, result

# The limits are low, so that breaking one is likely where it is possible.
LANES = (
    Lane("wide", limit=10, per_user=2),
    Lane("tight", limit=3, per_user=1, worker_limit=2, max_pending=12, when_full="refuse"),
    Lane("fresh", limit=2, max_pending=8, when_full="drop_old"),
)
POLL = 0.01  # seconds between two reads of the inbox

app = Scheduler(
    os.environ.get("LANEWAY_STORE", "memory://"), lanes=LANES, **msgspec.json.decode(os.environ.get(SETTINGS, "{}"))
)
soon_again = Retry(attempts=3, base=0.05, jitter=0.5)


def one_of_all(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge messages: all their numbers, and the maximum of everything else."""
    most = {name: max(message[name] for message in messages) for name in messages[0] if name != "numbers"}
    return {"numbers": [number for message in messages for number in message["numbers"]], **most}


@app.task(lane="wide", retry=soon_again, max_crashes=1000, merge=one_of_all)
async def reply(
    numbers: list[int], takes: float, failures: int, delay: float = 0, debounce: float = 0, *, ctx: Context
) -> dict[str, Any]:
    """Take a while on the loop, and read new messages. Rules read `delay` and `debounce`."""
    with journal().message_attempt(ctx, numbers) as read:
        end = time.monotonic() + takes
        while time.monotonic() < end:
            await asyncio.sleep(POLL)
            read.extend(_numbers(ctx))
        read.extend(_numbers(ctx))
        return result(failures, ctx)


@app.task(lane="wide", retry=soon_again, max_crashes=1000, merge=one_of_all)
def ponder(
    numbers: list[int], takes: float, failures: int, delay: float = 0, debounce: float = 0, *, ctx: Context
) -> dict[str, Any]:
    """Take a while in a thread, unless cancelled, and read new messages one by one."""
    with journal().message_attempt(ctx, numbers) as read:
        end = time.monotonic() + takes
        while time.monotonic() < end and not ctx.cancelled:
            time.sleep(POLL)
            for message in ctx.inbox:
                read.extend(message["numbers"])
        return result(failures, ctx)


def _numbers(ctx: Context) -> list[int]:
    return [number for message in ctx.inbox.read() for number in message["numbers"]]
