"""Waiting for the disk on a loop: Linux syncs a file by itself, and says so where the loop listens.

**Why.** A thread that waits for the disk has to be woken, and has to wake the loop again: on a virtual machine that can
take as long as the disk does. The kernel's own asynchronous I/O (`io_submit`; for this, of Linux 4.18 or newer) needs
neither: one call begins, an `eventfd` tells the end, and the loop reads that like any socket.

**Where it cannot be** (another system or processor, a sandbox that forbids these calls, an older kernel, a loop that
does not listen to descriptors) there is no `KernelSync`, and a thread waits as ever. Neither Python nor the C library
has names for these calls; their numbers and structures are part of what Linux promises not to change.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary, finalize

Done = Callable[[OSError | None], None]

# The numbers of io_setup, io_destroy, io_submit and io_getevents.
_CALLS = {("x86_64", 8): (206, 207, 209, 208), ("aarch64", 8): (0, 1, 2, 4)}
_SETUP, _DESTROY, _SUBMIT, _EVENTS = _CALLS.get((platform.machine(), struct.calcsize("P")), (-1, -1, -1, -1))
_FDSYNC, _TELLS = 3, 1  # what to do with the file; that an eventfd is to be told
_REQUEST = struct.Struct("<QIiHhIQQqQII")  # struct iocb
_ANSWER = struct.Struct("<QQqq")  # struct io_event
CAN_ASK = sys.platform == "linux" and sys.byteorder == "little" and _SETUP >= 0


class KernelSync:
    """Syncs files for one loop, one at a time. Only for that loop's thread. It is gone with its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to listen. Raises OSError where the kernel cannot, NotImplementedError where the loop cannot."""
        self._pid = os.getpid()
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._context = ctypes.c_ulong()
        self._ask(_SETUP, ctypes.c_uint(1), ctypes.byref(self._context))
        self._ear = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = ctypes.pointer(ctypes.pointer(self._request))
        self._answer = ctypes.create_string_buffer(_ANSWER.size)
        self._done: Done | None = None
        # Not at the end of the interpreter: the kernel cleans up after a process.
        finalize(self, _let_go, self._call, self._context, self._ear, self._pid).atexit = False
        loop.add_reader(self._ear, self._hear)

    def begin(self, descriptor: int, done: Done) -> bool:
        """Begin to sync a file, and tell whether it is begun; then `done` is called with what went wrong, or None.

        The descriptor may be closed meanwhile.
        """
        # Fork: it is the parent's.
        if self._done is not None or self._pid != os.getpid():
            return False
        _REQUEST.pack_into(self._request, 0, 0, 0, 0, _FDSYNC, 0, descriptor, 0, 0, 0, 0, _TELLS, self._ear)
        # Ctrl-C may come when the call has ended: the next that begins must not be told of what this one began.
        self._done = done
        try:
            self._ask(_SUBMIT, self._context, ctypes.c_long(1), self._requests)
        except OSError:
            self._done = None
            return False
        return True

    def _hear(self) -> None:
        os.eventfd_read(self._ear)
        self._ask(_EVENTS, self._context, ctypes.c_long(1), ctypes.c_long(1), self._answer, None)
        _, _, result, _ = _ANSWER.unpack(self._answer.raw)
        done, self._done = self._done, None
        if done is not None:
            done(OSError(-result, os.strerror(-result)) if result < 0 else None)

    def _ask(self, call: int, *arguments: object) -> int:
        answer = int(self._call(ctypes.c_long(call), *arguments))
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer


def _let_go(call: Callable[..., int], context: ctypes.c_ulong, ear: int, pid: int) -> None:
    """Wait for what is under way; nobody is told any more."""
    # Fork: what a child has by these numbers may be its own.
    if pid == os.getpid():
        call(ctypes.c_long(_DESTROY), context)
        os.close(ear)


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, KernelSync | None] = WeakKeyDictionary()


def kernel_of(loop: asyncio.AbstractEventLoop) -> KernelSync | None:
    """Return what syncs files for this loop, which is the running one, if anything can."""
    if loop not in _OF_LOOPS:
        _OF_LOOPS[loop] = None
        if CAN_ASK:
            with contextlib.suppress(OSError, NotImplementedError):
                _OF_LOOPS[loop] = KernelSync(loop)
    return _OF_LOOPS[loop]


class LoopWait:
    """A loop that waits for a file to be synced, without a thread; `heard` is called on it with what went wrong."""

    def __init__(self, heard: Done) -> None:
        self._heard = heard
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_over(self) -> bool:
        """Whether nobody waits. May be asked from any thread."""
        loop = self._loop
        return loop is None or loop.is_closed()  # such a loop will never hear

    def begin(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> asyncio.Future[bool] | None:
        """Begin to sync the file; return what will tell whether it is on the disk, or None if the kernel cannot."""
        if self._loop is not None:
            # That loop was closed before it heard: what this descriptor was told of may be lost. Another will be told.
            self._loop = None
            return None
        sync, told = kernel_of(loop), loop.create_future()
        if sync is None or not sync.begin(descriptor, partial(self._end, told)):
            return None
        self._loop = loop
        return told

    def _end(self, told: asyncio.Future[bool], error: OSError | None) -> None:
        self._loop = None
        self._heard(error)
        if not told.done():  # Race: who waited may have been cancelled
            told.set_result(error is None)
