"""The ends of processes that are not children of the test."""

import os
import select


def has_ended(pid: int) -> bool:
    """Wait for the end of a process that is not ours; False if it goes on."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended = bool(select.select([handle], [], [], 10)[0])
    os.close(handle)
    return ended
