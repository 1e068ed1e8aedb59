"""Become a program that ends with its parent: `python die_with_parent.py PARENT USER GROUP PROGRAM ARGUMENT...`.

The program keeps the id of this process; a watcher process stays beside it. The watcher waits until the parent or the
program has ended, also by kill -9; if it was the parent, it kills the program and its children. It watches processes:
neither the end of a thread of the parent nor children that the parent leaves behind matter.

USER and GROUP are numbers. Root may name others than its own: this process changes to them, because they may be unable
to read the Python that executes this file.
"""

import os
import select
import signal
import sys
import time

LOOK_EVERY = 0.2  # seconds, on systems that cannot report the end of a process that is not a child
ENDED = ("Z", "X")  # the states of processes that have ended and are not yet removed


def main() -> None:
    """Start the watcher and become the program."""
    parent, user, group = map(int, sys.argv[1:4])
    program = os.getpid()
    if os.fork() == 0:
        _watch(parent, program)
        os._exit(0)
    # Race: the parent may have ended before the watcher looked, and another process may have its id by now.
    if os.getppid() != parent:
        sys.exit("the process that started this is gone")
    if user != os.getuid():
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606 - what it starts is its whole purpose


def _watch(parent: int, program: int) -> None:
    try:
        _wait_for_one_of(parent, program)
    finally:
        # If this watcher has another parent, the program has ended, and another process may have its id.
        if os.getppid() == program:
            os.kill(program, signal.SIGSTOP)  # from here on it starts no more children
            for child in children(program):
                if child != os.getpid():
                    os.kill(child, signal.SIGKILL)
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


def children(pid: int) -> dict[int, str]:
    """Return the children of a process that have not ended, each with its command line. The watcher is one of them."""
    if not os.path.exists("/proc/self/stat"):  # noqa: PTH110 - pathlib takes longer to import than all else here
        return _children_by_ps(pid)
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - as above
        try:
            state, parent = _read(f"/proc/{name}/stat").rpartition(")")[2].split()[:2]
            if int(parent) == pid and state not in ENDED:
                found[int(name)] = _read(f"/proc/{name}/cmdline").replace("\0", " ")
        except OSError:
            continue  # it ended meanwhile
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
        return file.read()


def _children_by_ps(pid: int) -> dict[int, str]:
    import subprocess

    asked = ("ps", "-A", "-ww", "-o", "pid=,ppid=,state=,args=")
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split(None, 3) for line in lines]
    return {int(row[0]): row[-1] for row in rows if int(row[1]) == pid and row[2][0] not in ENDED}


if __name__ == "__main__":
    main()
