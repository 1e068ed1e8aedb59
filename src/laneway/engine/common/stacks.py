"""Stacks of running code as bounded text, for reports about code that does not end."""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

FRAMES = 40  # the innermost ones
LIMIT = 6 * 1024  # characters that fit into an event, which is cut at its end, where the innermost frame is


def of_thread(ident: int | None) -> str:
    """Return the stack of a thread of this process, innermost frame last; empty if it has ended."""
    frame = sys._current_frames().get(ident) if ident is not None else None  # noqa: SLF001  # the only way to ask
    return "" if frame is None else _text(traceback.StackSummary.extract(_frames(frame), lookup_lines=True))


def of_task(task: asyncio.Task[Any]) -> str:
    """Return where a task waits, innermost frame last; empty if it has ended. Call it on the thread of its loop.

    A task shows only its outermost coroutine, so this follows what each of them awaits.
    """
    found: list[tuple[FrameType, int]] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(found) < 10 * FRAMES:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            found.append((frame, frame.f_lineno))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return _text(traceback.StackSummary.extract(found[-FRAMES:], lookup_lines=True))


def _frames(innermost: FrameType) -> list[tuple[FrameType, int]]:
    return list(traceback.walk_stack(innermost))[:FRAMES][::-1]


def _text(stack: traceback.StackSummary) -> str:
    return "".join(stack.format())[-LIMIT:].rstrip()
