"""Become a program that dies with who asked for it: `python leash.py PARENT PROGRAM ARGUMENT...`.

A watcher is left beside the program, which keeps the process id of this one. It waits for either of them to end, by
kill -9 too, and takes the program along with its parent. It goes by processes: a parent's thread that ends and children
that the parent leaves behind mean nothing to it.
"""

import os
import select
import signal
import sys
import time

LOOK_EVERY = 0.2  # seconds, where the system cannot tell of the end of a process that is not a child


def main() -> None:
    """Leave the watcher behind and become the program."""
    parent, program = int(sys.argv[1]), os.getpid()
    if os.fork() == 0:
        _watch(parent, program)
        os._exit(0)
    # Race: the parent may have ended before the watcher looked, and its number may be another's by now.
    if os.getppid() != parent:
        sys.exit("the process that started this is gone")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - what it starts is its whole purpose


def _watch(parent: int, program: int) -> None:
    try:
        _wait_for_one_of(parent, program)
    finally:
        # Whoever has another parent by now has outlived the program, whose number may be another's.
        if os.getppid() == program:
            os.kill(program, signal.SIGKILL)


def _wait_for_one_of(parent: int, program: int) -> None:
    if hasattr(os, "pidfd_open"):
        ends = select.poll()
        try:
            for pid in (parent, program):
                ends.register(os.pidfd_open(pid), select.POLLIN)
        except ProcessLookupError:
            return
        ends.poll()
        return
    while os.getppid() == program and _lives(parent):
        time.sleep(LOOK_EVERY)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
