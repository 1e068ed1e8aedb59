"""What the tests of servers ask about processes that are not theirs."""

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
