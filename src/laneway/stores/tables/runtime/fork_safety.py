"""Forking: no connection of SQLite may be open while the process forks.

SQLite keeps, per process, what it has locked in each file, and a child inherits that book-keeping without the locks
themselves. A child that then opened the same file, even anew, would believe in locks it does not have and could damage
it. So before a fork every holder of a connection comes to rest and closes it; afterwards the parent opens it again when
it next needs it, and the child begins from nothing (`SQLiteStore` sees that the process is another one).
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class Holder:
    """Something that holds a connection, and uses it only inside `with self.busy`."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        _HOLDERS.add(self)

    def let_go(self) -> None:
        """Close what is held; it is opened again when it is needed."""
        raise NotImplementedError


_HOLDERS: WeakSet[Holder] = WeakSet()
_QUIET: list[Holder] = []


def _come_to_rest() -> None:
    for holder in list(_HOLDERS):
        holder.busy.acquire()
        _QUIET.append(holder)
        holder.let_go()


def _go_on() -> None:
    while _QUIET:
        _QUIET.pop().busy.release()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_come_to_rest, after_in_parent=_go_on, after_in_child=_go_on)
