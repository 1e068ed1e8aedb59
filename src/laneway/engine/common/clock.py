"""The system's clock.

**Waking in time.** On Linux a loop waits in epoll, which is given whole milliseconds and rounds up: a timer of the
loop's comes half a millisecond late on average, and up to a whole one. A run that is due would hear of it that late. So
the last moment of a sleep is waited for with a timer of the kernel's (timerfd), which the loop hears as it hears a
socket. Where there is none, or the loop listens to no files, the loop's own timer has to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import time

_LAST = 0.002  # seconds of a sleep that are left to the kernel's timer: more than a loop can be late by rounding
_MOST = 16  # such timers at once: each is a file, and a process has not many
_MONOTONIC, _NONBLOCK, _ABSOLUTE = 1, os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0), 1  # as Linux has them

_timers = set[int]()  # the files of those who wait


class _Timer(ctypes.Structure):
    """`struct itimerspec`: how often, which is never, and when."""

    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns")]


class SystemClock:
    """Wall and monotonic time of this machine."""

    def now(self) -> int:
        """Return microseconds since 1970."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop, and wake within a fraction of a millisecond where that can be had."""
        at = time.monotonic() + seconds
        if seconds > _LAST:
            await asyncio.sleep(seconds - _LAST)
        left = at - time.monotonic()
        if left <= 0 or len(_timers) >= _MOST or (fd := _timer_at(at)) is None:
            await asyncio.sleep(max(0.0, left))
            return
        _timers.add(fd)
        try:
            await _readable(fd, left)
        finally:
            _timers.discard(fd)
            os.close(fd)


async def _readable(fd: int, seconds: float) -> None:
    """Wait until the file can be read, or for so many seconds, counted and rounded by the loop.

    The loop may not hear of the file: there are loops that listen to none, and one that still listens to a file which
    somebody has closed does not notice that another one has its number now.
    """
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    late = loop.call_later(seconds, _tell, ready)
    try:
        with contextlib.suppress(NotImplementedError, OSError):
            loop.add_reader(fd, _tell, ready)
        await ready
    finally:
        late.cancel()
        with contextlib.suppress(NotImplementedError):
            loop.remove_reader(fd)


def _tell(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _timer_at(at: float) -> int | None:
    """Return a file that can be read from that instant of the monotonic clock on, or None."""
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL(None)
        fd = libc.timerfd_create(_MONOTONIC, _NONBLOCK)
    except (OSError, AttributeError):
        return None
    if fd < 0:
        return None
    whole = int(at)
    timer = _Timer(0, 0, whole, max(1, int((at - whole) * 1e9)))  # no time at all would be no timer
    if libc.timerfd_settime(fd, _ABSOLUTE, ctypes.byref(timer), None) < 0:
        os.close(fd)
        return None
    return int(fd)
