"""Start a program that dies with the test: `python die_with_parent.py PARENT PROGRAM ARGUMENT...`.

The kernel kills whoever called this when the thread that started it ends, kill -9 of pytest included, and keeps that
through exec; so it also holds for programs that know nothing of it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Race: the parent may have died before the line above.
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the test that started this is gone")
    os.execv(sys.argv[2], sys.argv[2:])
