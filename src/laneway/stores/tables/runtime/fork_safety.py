"""Forks: no connection of SQLite may be open while the process forks.

SQLite keeps a record, per process, of what it has locked in each file. A child inherits that record without the locks
themselves: if it opened the same file, even anew, it would believe in locks that it does not have, and could damage the
file. So before a fork every holder of a connection finishes what it does and closes it. Afterwards the parent opens it
again when it next needs it, and the child begins from nothing (`StoreAccess` sees that the process is another one).
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ConnectionHolder:
    """Something that holds a connection, and uses it only inside `with self.busy`."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        _HOLDERS.add(self)

    def close_connection(self) -> None:
        """Close the connection; it is opened again when it is needed."""
        raise NotImplementedError


_HOLDERS: WeakSet[ConnectionHolder] = WeakSet()
_STOPPED: list[ConnectionHolder] = []


def _before_fork() -> None:
    for holder in list(_HOLDERS):
        holder.busy.acquire()
        _STOPPED.append(holder)
        holder.close_connection()


def _after_fork() -> None:
    while _STOPPED:
        _STOPPED.pop().busy.release()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
