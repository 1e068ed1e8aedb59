"""Forks: a forked child must not use its parent's connections.

If both processes wrote to one connection, each would get replies of the other. So a child closes its copies of the
sockets and connects again; the parent is not affected. The loops and threads that used them do not exist in the child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    """An object with connections that can start again without them."""

    def reset_after_fork(self) -> None:
        """Start again in a child that was just forked. Take no lock: a thread of the parent may have held it."""
        ...


_HOLDERS: WeakSet[ForkAware] = WeakSet()
_KEPT: list[object] = []


def register(holder: ForkAware) -> None:
    """Let `holder` be reset in forked children."""
    _HOLDERS.add(holder)


def keep(*objects: object) -> None:
    """Keep objects of the parent's loops alive: their finalizers would use loops that do not run here."""
    _KEPT.extend(objects)


def detach(descriptor: int) -> None:
    """Close this process's copy of a socket; the descriptor stays valid for the object that owns it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _reset() -> None:
    for holder in list(_HOLDERS):
        holder.reset_after_fork()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
